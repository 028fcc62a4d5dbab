"""Membership inference: was this company's paper, this document, or this person's in the training set?

Source: privacy-aware-docvqa, section 5.2.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from pfl_audit.attacks.membership.rows import every_row, take_losses
from pfl_audit.attacks.membership.specs import MembershipSettings, documents_spec, spec, whole_spec

if TYPE_CHECKING:
    from pfl_audit.attacks.questions.context import QuestionContext
    from pfl_audit.core.results import Check
    from pfl_audit.documents.corpus import Corpus


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
