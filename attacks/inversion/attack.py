"""Gradient inversion: what one shared gradient gives away of the page, the question and the answer.

Source: gi-dqa-gradient-inversion, sections 3 and 4; the baselines from their own papers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pfl_audit.attacks.inversion.settings import InversionSettings
from pfl_audit.attacks.inversion.specs import ANALYTIC, FEDERATION, SEARCHES, TEXT, WORDS

if TYPE_CHECKING:
    from pfl_audit.attacks.inversion.context import GradientContext
    from pfl_audit.core.results import Check


class InversionAttack:
    """The closed forms, GI-DQA, what it is compared with, and our own search."""

    name = "inversion"
    subject = "gradients"
    specs = (TEXT, ANALYTIC, WORDS, FEDERATION, *SEARCHES.values())
    Settings = InversionSettings

    def run(self, context: GradientContext, settings: InversionSettings) -> list[Check]:
        """Attack every observation by every method that was chosen.

        Raises:
            UsageError: The reading engine is not to be had.
        """
        from pfl_audit.attacks.inversion.rounds.opened import RoundContext
        from pfl_audit.attacks.inversion.run import run_check, run_federation, runner

        if isinstance(context, RoundContext):
            return [run_federation(context)] if FEDERATION.id in context.checks else []
        work = runner(context, settings)
        return [run_check(work, spec) for spec in self.specs if spec.id in context.checks]


ATTACK = InversionAttack()
