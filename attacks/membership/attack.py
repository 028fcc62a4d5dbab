"""Provider membership inference: was this company's paper in the training set?

Source: privacy-aware-docvqa, section 5.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pfl_audit.attacks.membership.rows import DOCUMENTS_CHECK, WHOLE, every_row, spec
from pfl_audit.attacks.membership.settings import MembershipSettings

if TYPE_CHECKING:
    from pfl_audit.attacks.questions.context import QuestionContext
    from pfl_audit.core.results import Check


class MembershipAttack:
    """AZK, APK, their ensembles, likelihood ratios, and attacks with reference models."""

    name = "membership"
    subject = "questions"
    specs = (WHOLE, DOCUMENTS_CHECK, *(spec(row) for row in every_row()))
    Settings = MembershipSettings

    def run(self, context: QuestionContext, settings: MembershipSettings) -> list[Check]:
        """Ask the models once, let every attack decide on the same features, and judge the attacks together."""
        from pfl_audit.attacks.membership.run import run_checks

        return run_checks(context, settings)


ATTACK = MembershipAttack()
