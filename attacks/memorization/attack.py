"""The memorization test: ask for a value that stands neither on the page nor in the OCR.

Source: privacy-aware-docvqa, section 5.1 and appendix D.1.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from pfl_audit.attacks.memorization import generalisation
from pfl_audit.attacks.memorization.disclosure import unprompted
from pfl_audit.attacks.memorization.recall import recall
from pfl_audit.core.attack import CheckSpec, QuestionContext
from pfl_audit.core.results import Check
from pfl_audit.documents.keys import PROVIDER_KEYS
from pfl_audit.documents.scrub import THRESHOLD
from pfl_audit.models.protocol import Capability

UNPROMPTED = "memorization.unprompted"
_THREAT = {
    "knows": "a page of the company on which the value cannot be read",
    "sees": "the model's answer to a question for that value",
    "does": "reads the value off the answer, although the page does not give it",
}
_UNPROMPTED_THREAT = {
    "knows": "pages of companies that were not trained on, which hold no such value",
    "sees": "the model's answers to questions for values of the company",
    "does": "collects values that belong to companies in the training set",
}


class MemorizationSettings(BaseModel):
    """Settings of the memorization test."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    threshold: float = Field(default=THRESHOLD, ge=0.5, le=1.0, description="Similarity for taking values off pages")
    evidence_pages: int = Field(default=200, ge=0, description="Scrubbed pages that are kept whole, privately, a key")
    shown_pages: int = Field(default=4, ge=0, le=50, description="Of them, how many the report shows")


class MemorizationAttack:
    """One check a key, the unprompted-disclosure test, and how known companies are read."""

    name = "memorization"
    specs = (
        *(
            CheckSpec(
                f"memorization.{key}",
                f"Memorization of {key.replace('_', ' ')}",
                frozenset({Capability.ANSWER}),
                _THREAT,
            )
            for key in PROVIDER_KEYS
        ),
        CheckSpec(
            UNPROMPTED,
            "Unprompted disclosure of values of trained companies",
            frozenset({Capability.ANSWER, Capability.LIVE}),
            _UNPROMPTED_THREAT,
        ),
        generalisation.SPEC,
    )
    Settings = MemorizationSettings

    def run(self, context: QuestionContext, settings: MemorizationSettings) -> list[Check]:
        """Run the checks that were chosen, key by key."""
        checks = []
        for description in self.specs:
            if description.id == UNPROMPTED and UNPROMPTED in context.checks:
                checks.append(unprompted(context, description))
            elif description is generalisation.SPEC and description.id in context.checks:
                checks.append(generalisation.generalisation(context))
            elif description.id in context.checks:
                stated = settings.model_dump(mode="json")
                evidence = (settings.evidence_pages, settings.shown_pages)
                checks.append(recall(context, description, stated, settings.threshold, evidence))
        return checks


ATTACK = MemorizationAttack()
