"""Settings and checks of document membership by optimisation."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from pydantic import Field

from pfl_audit.attacks.membership.rows import AttackRow, Kind
from pfl_audit.attacks.membership.specs import REVIEW
from pfl_audit.attacks.questions.inputs import BY_DOCUMENT, PRETRAINED
from pfl_audit.core.attack import CheckSpec
from pfl_audit.core.settings import Settings
from pfl_audit.models.protocol import Capability


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
WHOLE: Final = CheckSpec(
    "docmia.document",
    "Document membership by optimisation",
    _WHITE,
    {"knows": _KNOWS, "sees": _SEES, "does": "fine-tunes the model on the document, and decides from how that goes"},
    optional=True,
    review=_REVIEW,
)


def _part(
    name: str, title: str, does: str, kind: Kind = "ratio", knowledge: str = "WB+U"
) -> tuple[AttackRow, CheckSpec]:
    threat = {"knows": _KNOWS, "sees": _SEES, "does": does}
    spec = CheckSpec(f"docmia.{name}", title, _WHITE, threat, part_of=WHOLE.id, optional=True, review=_REVIEW)
    return AttackRow(name, title, kind, (), knowledge), spec


PARTS: Final = dict(
    (
        _part("distance", "Distance of the weights", "takes documents for members that move them little"),
        _part("steps", "Number of steps", "takes documents for members that are learnt in few steps"),
        _part("fall", "Fall of the loss", "takes documents for members on which the loss falls little"),
        _part("loss", "Loss before optimisation", "takes documents for members on which the loss is low",
              knowledge="PK+U"),
        _part("clusters", "Clusters of distance, steps and loss",
              "divides the documents into two clusters without any label", kind="clusters"),
    )
)  # fmt: skip
"""Attack to its check."""
PROXY_ROW: Final = AttackRow("proxy", "Distance of the weights of a proxy model", "ratio", (), "ZK+U")
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
