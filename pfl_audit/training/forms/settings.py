"""What decides the weights of a model of forms."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, Final, get_args

from pfl_audit.documents.forms.form import PARTS, FormPart
from pfl_audit.errors import UsageError
from pfl_audit.models.encoders.config import Backbone, Modality
from pfl_audit.models.form_protocol import FormTask

_CHOICES: Final[dict[str, tuple[str, ...]]] = {
    "task": get_args(FormTask),
    "backbone": get_args(Backbone),
    "modality": get_args(Modality),
    "part": tuple(part for part in PARTS if part != "validation"),
}


@dataclass(frozen=True)
class FormTrainSettings:
    """Settings of training on forms (CDMI, section 5.1).

    Attributes:
        task: What the head learns.
        backbone: Architecture; ``bert`` reads no boxes.
        modality: ``bimodal`` adds page features at each token's box.
        part: Whose forms are trained on: ``private`` makes the model under audit, ``public`` what everybody may have.
        epochs: Passes over the part; the paper has 300 for mlm and 150 for the others.
        batch_size: Windows a step.
        learning_rate: Its peak.
        optimizer: Name in ``training/optimizers.py``.
        warmup: Share of all steps over which the rate grows from zero, 0 to 1.
        decay: Share of its peak to which the rate then falls linearly; 1 keeps it.
        weight_decay: Of AdamW.
        clip_norm: Largest norm of a step's gradient.
        seed: Of weights, order, masks and dropout.
        split_seed: Of the three parts, where the source does not say them.
        max_tokens: Longest window, special tokens included.
        size: Of a model from nothing.
        vocabulary: Tokens of a tokenizer from nothing.
        keep_every: Epochs between checkpoints that are kept beside the two best; 0 keeps none.
    """

    task: FormTask = "mlm"
    backbone: Backbone = "layoutlm"
    modality: Modality = "unimodal"
    part: FormPart = "private"
    epochs: int = 60
    batch_size: int = 8
    learning_rate: float = 5e-4
    optimizer: str = "adamw"
    warmup: float = 0.05
    decay: float = 0.1
    weight_decay: float = 0.01
    clip_norm: float = 1.0
    seed: int = 0
    split_seed: int = 0
    max_tokens: int = 512
    size: str = "small"
    vocabulary: int = 1000
    keep_every: int = 0

    def check(self) -> None:
        """Raise UsageError where a setting cannot be."""
        for name, allowed in _CHOICES.items():
            if (value := getattr(self, name)) not in allowed:
                raise UsageError(f"there is no {name} '{value}'", f"Choose one of: {', '.join(allowed)}")
        for name in ("epochs", "batch_size", "vocabulary"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name} must be 1 or more", f"Correct --{name.replace('_', '-')}")
        if not _SHORTEST <= self.max_tokens <= _LONGEST:
            raise UsageError(f"max_tokens must lie between {_SHORTEST} and {_LONGEST}", "Correct --max-tokens")
        if self.keep_every < 0:
            raise UsageError("keep_every must be 0 or more", "Correct --keep-every")
        if not 0 < self.learning_rate < 1:
            raise UsageError("the learning rate must lie between 0 and 1", "Correct --learning-rate")
        if not (0 <= self.warmup <= 1 and 0 <= self.decay <= 1):
            raise UsageError("warmup and decay are shares between 0 and 1", "Correct them")

    def to_dict(self) -> dict[str, Any]:
        """As JSON."""
        return asdict(self)

    def rate(self, step: int, steps: int) -> float:
        """Learning rate of a step, counted from 0, out of ``steps``."""
        warm = math.ceil(self.warmup * steps)
        if step < warm:
            return self.learning_rate * (step + 1) / warm
        left = 1.0 - (step - warm) / max(1, steps - warm)
        return self.learning_rate * (self.decay + (1.0 - self.decay) * left)


_SHORTEST, _LONGEST = 16, 512
