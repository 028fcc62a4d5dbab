"""Document canaries of ``train --audit-canaries``: guess from losses which ones were trained on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pfl_audit.attacks.questions.inputs import CANARIES
from pfl_audit.core.attack import CheckSpec
from pfl_audit.core.review import Review
from pfl_audit.core.settings import Settings
from pfl_audit.models.protocol import Capability

if TYPE_CHECKING:
    from pfl_audit.attacks.questions.context import QuestionContext
    from pfl_audit.core.results import Check

DOCUMENTS = CheckSpec(
    "canaries.documents",
    "Document canaries that the trainer planted",
    frozenset({Capability.LOSS, CANARIES}),
    {
        "knows": "pages of companies that exist nowhere else, each of which was trained on by a fair coin",
        "sees": "the loss of a value that only training can have taught",
        "does": "guesses the coins, which gives a lower bound of epsilon",
    },
    optional=True,
    review=Review(
        question="Is the privacy guarantee of the training true?",
        classes=("attribute or membership inference",),
        access="scores",
        obtains="membership",
        nist=("membership inference",),
        atlas=("AML.T0024.000",),
    ),
)


class CanarySettings(Settings):
    """No settings: canaries and guesses are fixed before the training."""


class CanaryAttack:
    """One check."""

    name = "canaries"
    subject = "questions"
    specs = (DOCUMENTS,)
    Settings = CanarySettings

    def run(self, context: QuestionContext, settings: CanarySettings) -> list[Check]:
        """Run the check."""
        from pfl_audit.attacks.canaries.run import measure_documents

        return [measure_documents(DOCUMENTS, context)]


ATTACK = CanaryAttack()
