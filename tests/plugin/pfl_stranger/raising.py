"""A broken attack: it raises an exception whose text holds a value of a document."""

from __future__ import annotations

from pfl_audit.attacks.questions.context import QuestionContext
from pfl_audit.core.attack import CheckSpec
from pfl_audit.core.results import Check
from pfl_audit.core.settings import Settings

RAISES = CheckSpec("raising.always", "Raises an exception")


class RaisingAttack:
    """Never returns."""

    name = "raising"
    subject = "questions"
    specs = (RAISES,)
    Settings = Settings

    def run(self, context: QuestionContext, settings: Settings) -> list[Check]:
        """Raise ValueError."""
        raise ValueError(f"secret value {context.red.queries[0].answers[0]}")


ATTACK = RaisingAttack()
