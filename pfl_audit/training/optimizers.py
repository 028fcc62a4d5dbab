"""Optimisers by name. Another one is one more entry here; no loop knows their names."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import torch
from torch import nn

from pfl_audit.errors import UsageError

Make = Callable[[Sequence[nn.Parameter], float, float], torch.optim.Optimizer]
"""From parameters, learning rate and weight decay to an optimiser of one (local) training."""


def _adamw(parameters: Sequence[nn.Parameter], rate: float, decay: float) -> torch.optim.Optimizer:
    return torch.optim.AdamW(parameters, rate, weight_decay=decay, fused=True)


def _adafactor(parameters: Sequence[nn.Parameter], rate: float, decay: float) -> torch.optim.Optimizer:
    return torch.optim.Adafactor(parameters, rate, weight_decay=0.0, foreach=True)


OPTIMIZERS: Final[Mapping[str, Make]] = {"adamw": _adamw, "adafactor": _adafactor}
"""``adamw`` is the papers'; ``adafactor`` scales steps by the size of the weights, without weight decay."""


def make_optimizer(name: str, parameters: Sequence[nn.Parameter], rate: float, decay: float) -> torch.optim.Optimizer:
    """The optimiser of that name.

    Raises:
        UsageError: There is none.
    """
    if name not in OPTIMIZERS:
        raise UsageError(f"there is no optimiser '{name}'", f"Choose one of: {', '.join(OPTIMIZERS)}")
    return OPTIMIZERS[name](parameters, rate, decay)
