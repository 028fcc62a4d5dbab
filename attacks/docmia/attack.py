"""Document membership by optimisation: how far does fine-tuning on the one document move the weights?

Source: "DocMIA: Document-Level Membership Inference Attacks against DocVQA Models" (ICLR 2025). The method was taken
from descriptions of the paper; docs/docmia.md lists the differences that are known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pfl_audit.attacks.docmia.specs import PARTS, PROXY, WHOLE, DocmiaSettings

if TYPE_CHECKING:
    from pfl_audit.attacks.questions.context import QuestionContext
    from pfl_audit.core.results import Check


class DocmiaAttack:
    """Scores of the optimisation on each document, their finding, and the same through a proxy model."""

    name = "docmia"
    subject = "questions"
    specs = (WHOLE, *PARTS.values(), PROXY)
    Settings = DocmiaSettings

    def run(self, context: QuestionContext, settings: DocmiaSettings) -> list[Check]:
        """Optimise on every document, and judge the scores together."""
        from pfl_audit.attacks.docmia.run import run_checks

        return run_checks(context, settings)


ATTACK = DocmiaAttack()
