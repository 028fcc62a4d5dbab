"""The LayoutLM families, version 1 and 3, with a head that answers questions by a span of the page."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pfl_audit.models.family import Settings
from pfl_audit.models.layoutlm.names import NAMES, Version
from pfl_audit.models.protocol import QUESTIONS, Capability

if TYPE_CHECKING:
    from pfl_audit.models.gradient_protocol import GradientModel
    from pfl_audit.models.protocol import DocumentModel
    from pfl_audit.models.training_protocol import QuestionModel

HEAD = "qa_outputs."
"""Prefix of the tensors of a question-answering head."""


@dataclass(frozen=True)
class LayoutLmFamily:
    """LayoutLM checkpoints with a question-answering head."""

    version: Version

    @property
    def name(self) -> str:
        """``model_type`` in config.json, and the prefix of the backbone's tensors."""
        return NAMES[self.version]

    def recognises(self, config: Settings, tensors: frozenset[str]) -> bool:
        """Whether config.json has the model type and the weights have the head."""
        return config.get("model_type") == self.name and any(name.startswith(HEAD) for name in tensors)

    def way(self, config: Settings) -> str:
        """How it is asked."""
        return "by question and page words; the answer is a span of the page"

    def capabilities(self, config: Settings, tensors: frozenset[str]) -> frozenset[Capability]:
        """Answers with their probabilities, the training gradient, and training."""
        return QUESTIONS | {Capability.GRADIENT, Capability.WORD_ENCODER, Capability.TRAINABLE}

    def open(self, folder: Path, *, device: str) -> DocumentModel:
        """Open a checkpoint to answer questions."""
        from pfl_audit.models.layoutlm.model import LayoutLmQa

        return LayoutLmQa(folder, self.version, device)

    def open_gradients(self, folder: Path, *, device: str) -> GradientModel:
        """Open a checkpoint to take its training gradient."""
        from pfl_audit.models.layoutlm.gradients import LayoutLmGradients

        return LayoutLmGradients(folder, self.version, device)

    def open_training(self, folder: Path, *, device: str, train_visual: bool) -> QuestionModel:
        """Open a checkpoint to train it further."""
        from pfl_audit.models.layoutlm.training import open_training

        return open_training(folder, self.version, device=device, train_visual=train_visual)


LAYOUTLM = LayoutLmFamily(1)
LAYOUTLMV3 = LayoutLmFamily(3)
