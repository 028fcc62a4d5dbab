"""The VT5 family: a T5 that reads words, boxes and the page image (Tito et al., PFL-DocVQA)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pfl_audit.models.family import Settings
from pfl_audit.models.protocol import QUESTIONS, Capability

if TYPE_CHECKING:
    from pfl_audit.models.gradient_protocol import GradientModel
    from pfl_audit.models.protocol import DocumentModel
    from pfl_audit.models.training_protocol import QuestionModel


class Vt5Family:
    """VT5 checkpoints, recognised by their tensors."""

    name = "vt5"

    def recognises(self, config: Settings, tensors: frozenset[str]) -> bool:
        """Whether there are a T5, a spatial embedding and a DiT."""
        prefixes = {name.split(".", 1)[0] for name in tensors}
        return {"language_backbone", "spatial_embedding", "visual_embedding"} <= prefixes

    def way(self, config: Settings) -> str:
        """How it is asked."""
        return "by 'question: … context: ' and the page's words with their boxes, the page image beside them"

    def capabilities(self, config: Settings, tensors: frozenset[str]) -> frozenset[Capability]:
        """Answers with their probabilities, the training gradient, and training."""
        return QUESTIONS | {
            Capability.GUESSES,
            Capability.GRADIENT,
            Capability.WORD_TABLES,
            Capability.TRAINABLE,
        }

    def open(self, folder: Path, *, device: str) -> DocumentModel:
        """Open a checkpoint to answer questions."""
        from pfl_audit.models.vt5.model import Vt5Model

        return Vt5Model(folder, device)

    def open_gradients(self, folder: Path, *, device: str) -> GradientModel:
        """Open a checkpoint to take its training gradient."""
        from pfl_audit.models.vt5.gradients import Vt5Gradients

        return Vt5Gradients(folder, device)

    def open_training(self, folder: Path, *, device: str, train_visual: bool) -> QuestionModel:
        """Open a checkpoint to train it further."""
        from pfl_audit.models.vt5.training import open_training

        return open_training(folder, device=device, train_visual=train_visual)


FAMILY = Vt5Family()
