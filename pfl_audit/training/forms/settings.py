"""Settings of training on forms."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal

from pydantic import Field

from pfl_audit.models.encoders.kinds import FormTask, LabelledTokens, Modality, TrainedBackbone
from pfl_audit.training.settings import (
    BatchSize,
    ClipNorm,
    LearningRate,
    OptimizerName,
    Seed,
    WeightDecay,
    check_settings,
)

TrainedPart = Literal["private", "public"]
_Share = Annotated[float, Field(ge=0, le=1)]


@dataclass(frozen=True)
class FormTrainSettings:
    """Settings of training on forms (CDMI, section 5.1, which has 300 epochs for mlm and 150 for the others)."""

    task: Annotated[FormTask, Field(description="Task that the head learns.")] = "mlm"
    backbone: Annotated[TrainedBackbone, Field(description="Encoder; bert reads no boxes.")] = "layoutlm"
    modality: Annotated[Modality, Field(description="bimodal sees the page's image too.")] = "unimodal"
    part: Annotated[TrainedPart, Field(description="Forms to train on: of the model under audit, or public.")] = (
        "private"
    )
    epochs: Annotated[int, Field(ge=1, description="Passes over the part.")] = 60
    batch_size: BatchSize = 8
    learning_rate: LearningRate = 5e-4
    optimizer: OptimizerName = "adamw"
    warmup: Annotated[_Share, Field(description="Share of all steps over which the rate grows from zero.")] = 0.05
    decay: Annotated[_Share, Field(description="Share of its peak to which the rate falls linearly; 1 keeps it.")] = 0.1
    weight_decay: WeightDecay = 0.01
    clip_norm: ClipNorm = 1.0
    seed: Seed = 0
    split_seed: Annotated[
        int,
        Field(
            ge=0,
            lt=2**32,
            description="Seed of the three parts: the same for the public and the private model, and for the attack.",
        ),
    ] = 0
    max_tokens: Annotated[int, Field(ge=16, le=512, description="Tokens of the longest window.")] = 512
    size: Annotated[str, Field(description="Size of a model from nothing: tiny, small, base.")] = "small"
    vocabulary: Annotated[int, Field(ge=1, description="Pieces of a tokenizer from nothing.")] = 1000
    labelled_tokens: Annotated[
        LabelledTokens,
        Field(
            description="Tokens that ee-spade and el are scored at: as in the BROS release, or (fields) every token of "
            "a word by ee-spade and the first tokens of fields alone by el."
        ),
    ] = "word-starts"
    keep_every: Annotated[
        int, Field(ge=0, description="Epochs between checkpoints kept for a sweep; 0 keeps none.")
    ] = 0

    def check(self) -> None:
        """Raise UsageError if a setting is out of bounds."""
        check_settings(self)

    def to_dict(self) -> dict[str, Any]:
        """As JSON, without what the task does not use."""
        unused = () if self.task in ("ee-spade", "el") else ("labelled_tokens",)
        return {name: value for name, value in asdict(self).items() if name not in unused}

    def rate(self, step: int, steps: int) -> float:
        """Learning rate of a step, counted from 0, out of ``steps``."""
        warm = math.ceil(self.warmup * steps)
        if step < warm:
            return self.learning_rate * (step + 1) / warm
        left = 1.0 - (step - warm) / max(1, steps - warm)
        return self.learning_rate * (self.decay + (1.0 - self.decay) * left)
