"""The memorization test: ask for a value that appears neither on the page nor in the OCR.

Source: privacy-aware-docvqa, section 5.1 and appendix D.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pfl_audit.attacks.memorization.checks import GENERALISATION, KEYS, UNPROMPTED
from pfl_audit.attacks.memorization.settings import MemorizationSettings

if TYPE_CHECKING:
    from pfl_audit.attacks.questions.context import QuestionContext
    from pfl_audit.core.results import Check


class MemorizationAttack:
    """One check a key, the unprompted-disclosure test, and how well known companies are read."""

    name = "memorization"
    subject = "questions"
    specs = (*KEYS, UNPROMPTED, GENERALISATION)
    Settings = MemorizationSettings

    def run(self, context: QuestionContext, settings: MemorizationSettings) -> list[Check]:
        """Run the checks that were chosen, key by key."""
        from pfl_audit.attacks.memorization.disclosure import unprompted
        from pfl_audit.attacks.memorization.generalisation import generalisation
        from pfl_audit.attacks.memorization.recall import recall

        checks = [recall(context, spec, settings) for spec in KEYS if spec.id in context.checks]
        if UNPROMPTED.id in context.checks:
            checks.append(unprompted(context, UNPROMPTED))
        if GENERALISATION.id in context.checks:
            checks.append(generalisation(context))
        return checks


ATTACK = MemorizationAttack()
