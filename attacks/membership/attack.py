"""Membership inference: was this company's paper, this document, or this person's in the training set?

Source: privacy-aware-docvqa, section 5.2.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, JsonValue

from pfl_audit.attacks.membership.rows import documents_spec, every_row, spec, take_losses, whole_spec
from pfl_audit.core.settings import Flag, PaperValue, Settings
from pfl_audit.documents.scrubbing import THRESHOLD

if TYPE_CHECKING:
    from pfl_audit.attacks.questions.context import QuestionContext
    from pfl_audit.core.results import Check
    from pfl_audit.documents.corpus import Corpus


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
    seeds: int = Field(default=5, ge=1, le=100, description="Draws of known providers and classifiers.")
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
        default="signed", description="Differences to the public model (G3)."
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


class MembershipAttack:
    """AZK, APK, their ensembles, likelihood ratios, and attacks with reference models."""

    name = "membership"
    subject = "questions"
    specs = (whole_spec(), documents_spec(), *(spec(row) for row in every_row()))
    Settings = MembershipSettings

    def questions(self, checks: Collection[str], red: Corpus, settings: MembershipSettings) -> dict[str, int]:
        """Every question of the corpus, again for losses with dropout; each page without its name and twice unasked."""
        if not any(spec.id in checks for spec in self.specs):
            return {}
        pages = len(red.documents)
        found = {"questions": len(red.queries), "provider_name": pages, "unasked": 2 * pages}
        if settings.losses == "dropout" and take_losses(row for row in every_row() if f"membership.{row.id}" in checks):
            found["losses with dropout"] = len(red.queries)
        return found

    def run(self, context: QuestionContext, settings: MembershipSettings) -> list[Check]:
        """Ask the models once, let every attack decide on the same features, and judge the attacks together."""
        from pfl_audit.attacks.membership.run import run_checks

        return run_checks(context, settings)


ATTACK = MembershipAttack()
