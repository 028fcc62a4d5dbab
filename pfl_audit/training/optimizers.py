"""Optimisers of training, found by entry point; no loop knows their names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import torch
from torch import nn

from pfl_audit.registry import Registry
from pfl_audit.training.shampoo import Shampoo

Make = Callable[[Sequence[nn.Parameter], float, float], torch.optim.Optimizer]
"""From parameters, learning rate and weight decay to an optimiser of one (local) training."""
OPTIMIZERS: Final[Registry[Make]] = Registry("pfl_audit.optimizers", "optimiser", ("__call__",))


def adamw(parameters: Sequence[nn.Parameter], rate: float, decay: float) -> torch.optim.Optimizer:
    """AdamW, as in the papers."""
    return torch.optim.AdamW(parameters, rate, weight_decay=decay, fused=True)


def adam(parameters: Sequence[nn.Parameter], rate: float, decay: float) -> torch.optim.Optimizer:
    """Adam with the decay as an L2 penalty, the client optimiser of the pilot (section 4)."""
    return torch.optim.Adam(parameters, rate, weight_decay=decay, fused=True)


def sgd(parameters: Sequence[nn.Parameter], rate: float, decay: float) -> torch.optim.Optimizer:
    """Stochastic gradient descent."""
    return torch.optim.SGD(parameters, rate, weight_decay=decay)


def momentum(parameters: Sequence[nn.Parameter], rate: float, decay: float) -> torch.optim.Optimizer:
    """Stochastic gradient descent with momentum 0.9."""
    return torch.optim.SGD(parameters, rate, momentum=0.9, weight_decay=decay)


def adafactor(parameters: Sequence[nn.Parameter], rate: float, decay: float) -> torch.optim.Optimizer:
    """Adafactor, which scales steps by the size of the weights; without weight decay."""
    return torch.optim.Adafactor(parameters, rate, weight_decay=0.0, foreach=True)


def shampoo(parameters: Sequence[nn.Parameter], rate: float, decay: float) -> torch.optim.Optimizer:
    """Shampoo with the constants of FedShampoo; without weight decay."""
    return Shampoo(parameters, rate)


def make_optimizer(name: str, parameters: Sequence[nn.Parameter], rate: float, decay: float) -> torch.optim.Optimizer:
    """The optimiser of a name.

    Raises:
        UsageError: There is none.
    """
    return OPTIMIZERS.named(name)(parameters, rate, decay)
