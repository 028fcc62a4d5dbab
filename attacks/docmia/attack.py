"""Document membership by optimisation: how far does fine-tuning on the one document move the weights?

Source: "DocMIA: Document-Level Membership Inference Attacks against DocVQA Models" (ICLR 2025). The method was taken
from descriptions of the paper; docs/docmia.md lists the differences that are known.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from pydantic import Field

from pfl_audit.attacks.membership.rows import REVIEW
from pfl_audit.attacks.questions.subject import BY_DOCUMENT, PRETRAINED
from pfl_audit.core.attack import CheckSpec
from pfl_audit.core.settings import Settings
from pfl_audit.models.protocol import Capability

if TYPE_CHECKING:
    from pfl_audit.attacks.questions.context import QuestionContext
    from pfl_audit.core.results import Check


class DocmiaSettings(Settings):
    """Settings of document membership by optimisation."""

    matrices: int = Field(
        default=4, ge=1, le=1000, description="Weight matrices that are moved, counted from the last of the decoder."
    )
    rate: float = Field(default=0.05, gt=0, lt=10, description="Learning rate of plain gradient descent.")
    steps: int = Field(default=8, ge=1, le=1000, description="Largest number of steps on a document.")
    tolerance: float = Field(
        default=0.01, ge=0, lt=10, description="Fall of the loss in a step, in nats, below which a document is learnt."
    )
    questions: int = Field(default=8, ge=1, le=1000, description="Largest number of questions of a document.")
    proxy_steps: int = Field(default=200, ge=1, le=100_000, description="Optimiser steps of the proxy model.")


_WHITE: Final = frozenset({BY_DOCUMENT, Capability.LOSS, Capability.TRAINABLE})
_BLACK: Final = frozenset({BY_DOCUMENT, Capability.ANSWER, PRETRAINED})
_SEES: Final = "the weights of the model, and its gradients"
_REVIEW: Final = replace(REVIEW, access="weights")
_KNOWS: Final = "the document, questions about it and the right answers; no membership of any document"


def _part(name: str, title: str, does: str) -> CheckSpec:
    threat = {"knows": _KNOWS, "sees": _SEES, "does": does}
    return CheckSpec(f"docmia.{name}", title, _WHITE, threat, part_of=WHOLE.id, optional=True, review=_REVIEW)


WHOLE: Final = CheckSpec(
    "docmia.document",
    "Document membership by optimisation",
    _WHITE,
    {"knows": _KNOWS, "sees": _SEES, "does": "fine-tunes the model on the document, and decides from how that goes"},
    optional=True,
    review=_REVIEW,
)
DISTANCE: Final = _part("distance", "Distance of the weights", "takes documents for members that move them little")
STEPS: Final = _part("steps", "Number of steps", "takes documents for members that are learnt in few steps")
FALL: Final = _part("fall", "Fall of the loss", "takes documents for members on which the loss falls little")
LOSS: Final = _part("loss", "Loss before optimisation", "takes documents for members on which the loss is low")
CLUSTERS: Final = _part(
    "clusters", "Clusters of distance, steps and loss", "divides the documents into two clusters without any label"
)
PROXY: Final = CheckSpec(
    "docmia.proxy",
    "Document membership through a proxy model",
    _BLACK,
    {
        "knows": "the document and questions about it; the public model that training started from",
        "sees": "the model's answers",
        "does": "trains a proxy of the model on its answers, and fine-tunes the proxy on the document",
    },
    optional=True,
    on_request="it trains a proxy model",
    review=REVIEW,
)


class DocmiaAttack:
    """Scores of the optimisation on each document, their finding, and the same through a proxy model."""

    name = "docmia"
    subject = "questions"
    specs = (WHOLE, DISTANCE, STEPS, FALL, LOSS, CLUSTERS, PROXY)
    Settings = DocmiaSettings

    def run(self, context: QuestionContext, settings: DocmiaSettings) -> list[Check]:
        """Optimise on every document, and judge the scores together."""
        from pfl_audit.attacks.docmia.run import run_checks

        return run_checks(context, settings)


ATTACK = DocmiaAttack()
