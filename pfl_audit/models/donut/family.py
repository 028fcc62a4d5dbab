"""The Donut family: a Swin transformer that sees the page and an MBart decoder (Kim et al., 2022)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pfl_audit.models.donut.names import DECODER_TYPE, ENCODER_TYPE, MODEL_TYPE
from pfl_audit.models.family import ModelFamily, Settings
from pfl_audit.models.protocol import QUESTIONS, Capability

if TYPE_CHECKING:
    from pfl_audit.models.gradient_protocol import GradientModel
    from pfl_audit.models.protocol import DocumentModel
    from pfl_audit.models.training_protocol import QuestionModel


class DonutFamily:
    """Donut checkpoints, recognised by the model types in config.json."""

    name = "donut"

    def recognises(self, config: Settings, tensors: frozenset[str]) -> bool:
        """Whether encoder and decoder are of Donut's types; TrOCR and others share the outer type."""
        parts = [config.get(name) for name in ("encoder", "decoder")]
        types = [part.get("model_type") if isinstance(part, dict) else None for part in parts]
        return config.get("model_type") == MODEL_TYPE and types == [ENCODER_TYPE, DECODER_TYPE]

    def way(self, config: Settings) -> str:
        """How it is asked."""
        return "by Donut's prompt <s_docvqa><s_question>…</s_question><s_answer>, the page image beside it"

    def capabilities(self, config: Settings, tensors: frozenset[str]) -> frozenset[Capability]:
        """Answers with their probabilities, the training gradient, and training."""
        return QUESTIONS | {
            Capability.GUESSES,
            Capability.GRADIENT,
            Capability.TEXT_DECODER,
            Capability.TRAINABLE,
        }

    def kind(self, folder: Path) -> ModelFamily:
        """This family where the tokenizer has the markers of questions and answers, else the one that prints fields."""
        from pfl_audit.models.donut_fields.family import fields_family

        return fields_family(folder) or self

    def open(self, folder: Path, *, device: str) -> DocumentModel:
        """Open a checkpoint to answer questions."""
        from pfl_audit.models.donut.model import DonutModel

        return DonutModel(folder, device)

    def open_gradients(self, folder: Path, *, device: str) -> GradientModel:
        """Open a checkpoint to take its training gradient."""
        from pfl_audit.models.donut.gradients import DonutGradients

        return DonutGradients(folder, device)

    def open_training(self, folder: Path, *, device: str, train_visual: bool) -> QuestionModel:
        """Open a checkpoint to train it further."""
        from pfl_audit.models.donut.training import open_training

        return open_training(folder, device=device, train_visual=train_visual)


FAMILY = DonutFamily()
