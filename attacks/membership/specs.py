"""Settings of membership inference, and its checks in the words of a unit of privacy."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Final, Literal

from pydantic import Field, JsonValue

from pfl_audit.attacks.membership.rows import AttackRow
from pfl_audit.attacks.questions.inputs import CONTROL, REFERENCES
from pfl_audit.core.attack import CheckSpec
from pfl_audit.core.review import Access, Review
from pfl_audit.core.settings import Flag, PaperValue, Settings
from pfl_audit.documents.scrubbing import THRESHOLD
from pfl_audit.documents.units import DOCUMENT, PROVIDER, Unit
from pfl_audit.models.protocol import Capability

WHOLE: Final = "membership.provider"
"""Id of the check that has the finding of all attacks."""
BLIND: Final = "membership.blind"
NEEDED: Final[dict[str, Access]] = {"ZK": "answers", "PK": "scores", "RK": "scores", "WB": "weights"}
"""Access of a review by that of an attack."""
REVIEW: Final = Review(
    question="Can an attacker tell whose documents the model was trained on?",
    classes=("attribute or membership inference",),
    access="answers",
    obtains="membership",
    nist=("membership inference",),
    atlas=("AML.T0024.000",),
)
"""Of an attack that sees answers alone."""
Features = Literal["standardised", "raw"]
Differences = Literal["signed", "absolute"]
Losses = Literal["evaluation", "dropout"]


class MembershipSettings(Settings):
    """Settings of provider membership inference (privacy-aware-docvqa, section 5.2)."""

    s: tuple[Annotated[int, Field(ge=0)], ...] = Field(
        default=(0, 5, 10),
        min_length=1,
        max_length=20,
        description="Attack providers (or other units) with more than s questions (repeat).",
    )
    seeds: Annotated[int, PaperValue(5, "section 5.2.3")] = Field(
        default=50, ge=1, le=100, description="Draws of known providers and classifiers."
    )
    share: float = Field(default=0.15, gt=0, lt=0.9, description="Providers whose membership APK knows (r).")
    ablate: bool = Field(default=False, description="Add the ablation of the paper's Table 11.")
    forest_search: Annotated[bool, PaperValue(True, "appendix D.4, and the reference code")] = Field(
        default=False, description="Tune the random forests by cross-validation."
    )
    kmeans: Annotated[Features, Flag(hidden=True), PaperValue("raw", "section 5.2.3, and the reference code")] = Field(
        default="standardised",
        description="Features that K-Means divides; raw ones start from random rows, as in the reference code.",
    )
    differences: Annotated[Differences, Flag(hidden=True), PaperValue("absolute", "the reference code")] = Field(
        default="signed", description="Differences to the pre-trained model (G3)."
    )
    losses: Annotated[Losses, Flag(hidden=True), PaperValue("dropout", "the reference code")] = Field(
        default="evaluation",
        description="Mode of the model for its losses; only a VT5 has them with dropout, one question a pass.",
    )
    equal_known: Annotated[bool, Flag(hidden=True), PaperValue(True, "section 5.2.3")] = Field(
        default=False,
        description="Know as many members as non-members, also where that is more than the share of a class.",
    )
    provider_attacks: Annotated[dict[str, dict[str, JsonValue]], Flag(hidden=True)] = Field(
        default={}, description="Settings of provider attacks from other packages, by name."
    )
    threshold: float = Field(
        default=THRESHOLD, ge=0.5, le=1.0, description="Similarity from which words count as the value."
    )


_DECIDES: Final = "decides from this which {possessed} were in the training set"
_SEES: Final = {
    "ZK": "answers of the model to questions about {asked}",
    "PK": "answers, confidences and losses of the model and of the one that it was trained from",
    "RK": "answers and losses of the model, and of models like it that {own} did not train",
}
_KNOWS: Final = {
    "U": "the right answers; no membership of any {noun}",
    "S": "the right answers, and of a share of the {nouns} whether they were trained on",
}


def spec(row: AttackRow, unit: Unit = PROVIDER) -> CheckSpec:
    """The check of a row, in the words of a unit of privacy."""
    knowledge, learning = row.knowledge.split("+")
    return CheckSpec(
        id=f"membership.{row.id}",
        title=row.title,
        needs=row.needs,
        part_of=WHOLE,
        optional=bool(row.needs & {CONTROL, REFERENCES}),
        review=replace(REVIEW, access=NEEDED[knowledge]),
        threat_model=_threat(unit, _KNOWS[learning], _SEES[knowledge], _DECIDES),
    )


def whole_spec(unit: Unit = PROVIDER, access: str = "ZK") -> CheckSpec:
    """The check that has the finding of all attacks.

    Args:
        unit: Unit of privacy.
        access: Key of ``ACCESS``: what the attack that the finding rests on sees.
    """
    return CheckSpec(
        id=WHOLE,
        title=f"{unit.name.capitalize()} membership",
        needs=frozenset({Capability.ANSWER}),
        threat_model=_threat(
            unit,
            "{any_asked}, and the right answers about {them}",
            "what each attack says: answers alone, or losses and the pre-trained model as well",
            "decides from this whether {own} {was} in the training set",
        ),
        review=replace(REVIEW, access=NEEDED[access]),
    )


def documents_spec(unit: Unit = PROVIDER) -> CheckSpec:
    """The check of the blind baseline."""
    return CheckSpec(
        id=BLIND,
        title="From the documents alone",
        needs=frozenset({Capability.ANSWER}),
        part_of=WHOLE,
        threat_model=_threat(
            unit,
            "of nine in ten {nouns} whether they were trained on",
            "{all_asked} and the questions about them; no answer of the model",
            _DECIDES,
        ),
    )


def _phrases(unit: Unit) -> dict[str, str]:
    """Documents of a unit, which are the unit itself or its own."""
    if unit is DOCUMENT:
        return {
            "any_asked": "a document",
            "all_asked": "the documents",
            "own": "the document",
            "them": "it",
            "was": "was",
        }
    pages = "new documents" if unit is PROVIDER else "documents"
    return {
        "any_asked": f"{pages} of a {unit.noun}",
        "all_asked": f"{pages} of the {unit.nouns}",
        "own": f"the {unit.noun}'s documents",
        "them": "them",
        "was": "were",
    }


def _threat(unit: Unit, knows: str, sees: str, does: str) -> dict[str, str]:
    """A threat model in the words of a unit, from templates."""
    words = {name: getattr(unit, name) for name in ("noun", "nouns", "possessed", "asked")} | _phrases(unit)
    return {name: text.format(**words) for name, text in (("knows", knows), ("sees", sees), ("does", does))}
