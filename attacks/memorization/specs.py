"""Settings of the memorization test, and its checks in the words of a unit of privacy."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from pydantic import Field

from pfl_audit.core.attack import CheckSpec
from pfl_audit.core.review import Obtained, Review
from pfl_audit.core.settings import Settings
from pfl_audit.documents.keys import PROVIDER_KEYS
from pfl_audit.documents.scrubbing import THRESHOLD
from pfl_audit.documents.units import DOCUMENT, UNITS, Unit
from pfl_audit.models.protocol import Capability


class MemorizationSettings(Settings):
    """Settings of the memorization test (privacy-aware-docvqa, section 5.1)."""

    threshold: float = Field(
        default=THRESHOLD, ge=0.5, le=1.0, description="Similarity from which words count as the value."
    )
    evidence_pages: int = Field(
        default=200, ge=0, description="Scrubbed pages of a key that are kept whole, privately."
    )
    shown_pages: int = Field(default=4, ge=0, le=50, description="Of these pages, how many the report shows.")
    guesses: int = Field(
        default=8,
        ge=1,
        le=64,
        description="Likeliest answers to a question that are tried; the width of the beam (ours).",
    )
    guessed_values: int | None = Field(
        default=None, ge=1, description="Most values that are guessed, drawn at random from all pages."
    )


_CONTACT: Final = ("provider_name", "provider_address", "provider_email", "provider_phone", "provider_website")
"""Keys whose values are names and contact details."""


def _review(obtains: Obtained, *, regurgitates: bool = True) -> Review:
    return Review(
        question="What does the model remember of its training documents?",
        classes=(
            *(("regurgitation of training data",) if regurgitates else ()),
            "attribute or membership inference",
        ),
        access="answers",
        obtains=obtains,
        nist=("training data extraction",) if regurgitates else ("membership inference",),
        atlas=("AML.T0024",),
    )


def _specs(unit: Unit) -> dict[str, CheckSpec]:
    """Every check by id, in the words of a unit of privacy."""
    recall = {
        "knows": f"a page of the {unit.noun} on which the value cannot be read",
        "sees": "the model's answer to a question for that value",
        "does": "reads the value off the answer, although the page does not give it",
    }
    unprompted = {
        "knows": f"pages of {unit.nouns} that were not trained on, which hold no such value",
        "sees": f"the model's answers to questions for values of the {unit.noun}",
        "does": f"collects values that belong to {unit.nouns} in the training set",
    }
    pages = "pages" if unit is DOCUMENT else "new pages"
    asked = "a document" if unit is DOCUMENT else f"new pages of a {unit.noun}, none of which was trained on"
    generalisation = {
        "knows": asked,
        "sees": "the model's answers to questions about them",
        "does": f"compares how well it reads them with how well it reads pages of other {unit.nouns}",
    }
    guessing = {
        "knows": recall["knows"],
        "sees": "the model's likeliest answers to a question for that value, in their order",
        "does": "tries them one by one, as many as there are guesses",
    }
    answer = frozenset({Capability.ANSWER})
    specs = [
        *(
            CheckSpec(
                f"memorization.{key}",
                f"Memorization of {key.replace('_', ' ')}",
                answer,
                recall,
                review=_review("contact" if key in _CONTACT else "values"),
            )
            for key in PROVIDER_KEYS
        ),
        CheckSpec(
            "memorization.guesses",
            "Values put back within k guesses",
            answer | {Capability.LIVE, Capability.GUESSES},
            guessing,
            on_request="it searches for several answers to every question, with every model",
            review=replace(_review("values"), access="scores"),
        ),
        CheckSpec(
            "memorization.unprompted",
            f"Unprompted disclosure of values of trained {unit.nouns}",
            answer | {Capability.LIVE},
            unprompted,
            review=_review("values"),
        ),
        CheckSpec(
            "memorization.generalisation",
            f"Utility: reading of {pages}, known {unit.nouns} against others",
            answer,
            generalisation,
            review=_review("utility", regurgitates=False),
        ),
    ]
    return {spec.id: spec for spec in specs}


_BY_UNIT: Final = {name: _specs(unit) for name, unit in UNITS.items()}
KEYS: Final = tuple(_BY_UNIT["provider"][f"memorization.{key}"] for key in PROVIDER_KEYS)
GUESSES: Final = _BY_UNIT["provider"]["memorization.guesses"]
UNPROMPTED: Final = _BY_UNIT["provider"]["memorization.unprompted"]
GENERALISATION: Final = _BY_UNIT["provider"]["memorization.generalisation"]


def in_words(spec: CheckSpec, unit: Unit) -> CheckSpec:
    """The same check in the words of a unit of privacy."""
    return _BY_UNIT[unit.name][spec.id]
