"""What a training run does: everything that decides the weights it ends with."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from pfl_audit.errors import UsageError


@dataclass(frozen=True)
class TrainSettings:
    """Settings of central training.

    Attributes:
        steps: Optimiser steps.
        batch_size: Queries a step.
        learning_rate: Its peak; warmed up and then lowered linearly to a tenth.
        optimizer: adamw (the reference's) or adafactor (scales steps by the size of the weights, and
            learns several times faster from nothing).
        warmup: Steps of the warm-up.
        weight_decay: Of AdamW; adafactor has none.
        clip_norm: Largest norm of a step's gradient.
        freeze_visual: Keep the DiT as it is, as the reference does, and encode each page once.
        seed: Of order and dropout.
        validate_every: Steps between looks at the validation part.
        save_every: Steps between saved states.
        validation_queries: How many validation queries are asked at most.
        refuse: Share of each step's queries that are trained as refusals, 0 to 1 (training/refusals.py).
    """

    steps: int = 2000
    batch_size: int = 32
    learning_rate: float = 2e-4
    optimizer: str = "adamw"
    warmup: int = 100
    weight_decay: float = 0.01
    clip_norm: float = 1.0
    freeze_visual: bool = True
    seed: int = 0
    validate_every: int = 500
    save_every: int = 100
    validation_queries: int = 256
    refuse: float = 0.0

    def check(self) -> None:
        """Raise UsageError where a setting cannot be."""
        for name in ("steps", "batch_size", "validate_every", "save_every"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name} must be 1 or more", f"Correct --{name.replace('_', '-')}")
        if not 0 < self.learning_rate < 1:
            raise UsageError("the learning rate must lie between 0 and 1", "Correct --learning-rate")
        if not 0 <= self.refuse <= 1:
            raise UsageError("--refuse is a share, from 0 to 1", "Give 0.2 for one query in five")

    def to_dict(self) -> dict[str, Any]:
        """As JSON; without refusals nothing is said of them, so that runs of earlier versions go on."""
        settings = asdict(self)
        return settings if self.refuse else {name: value for name, value in settings.items() if name != "refuse"}

    def rate(self, step: int) -> float:
        """Learning rate of a step, counted from 0."""
        if step < self.warmup:
            return self.learning_rate * (step + 1) / self.warmup
        left = 1.0 - (step - self.warmup) / max(1, self.steps - self.warmup)
        return self.learning_rate * max(0.1, left)
