"""Optimisers of training, found by entry point; no loop knows their names. Shampoo is ours."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import torch
from torch import Tensor, nn

from pfl_audit.registry import Registry

Make = Callable[[Sequence[nn.Parameter], float, float], torch.optim.Optimizer]
"""From parameters, learning rate and weight decay to an optimiser of one (local) training."""
OPTIMIZERS: Final[Registry[Make]] = Registry("pfl_audit.optimizers", "optimiser", ("__call__",))
_LARGEST = 4096
"""Axes above it have a diagonal preconditioner (Gupta, Koren and Singer 2018, section 5, for large axes)."""


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


class Shampoo(torch.optim.Optimizer):
    """Gradient descent with one preconditioner for each axis of a tensor, and an element-wise clip of the step.

    Matrices step by ``-rate * clip(L^-1/4 G R^-1/4)``. A tensor of k axes has k preconditioners, each to the power
    -1/(2 k) (Gupta, Koren and Singer 2018, "Shampoo: Preconditioned Stochastic Tensor Optimization", algorithm 2).
    Statistics begin as identities, and preconditioners are identities until the first roots are computed.

    Args:
        rate: Learning rate.
        clip: Largest magnitude of an element of the preconditioned gradient.
        damping: Multiple of the identity that is added to the statistics before a root.
        statistics_every: Steps between updates of the statistics.
        roots_every: Steps between computations of the inverse roots.
    """

    def __init__(
        self,
        parameters: Iterable[nn.Parameter],
        rate: float = 2e-4,
        *,
        clip: float = 0.2,
        damping: float = 1e-4,
        statistics_every: int = 10,
        roots_every: int = 100,
    ) -> None:
        super().__init__(parameters, {"lr": rate})
        self._clip, self._damping = clip, damping
        self._statistics_every, self._roots_every = statistics_every, roots_every

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> None:  # type: ignore[override]
        """Move every parameter that has a gradient; ``closure`` is not called."""
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    update = self._precondition(parameter.grad, self.state[parameter])
                    parameter.add_(update.clamp(-self._clip, self._clip), alpha=-group["lr"])

    def read_state(self) -> dict[str, Tensor]:
        """Statistics and roots by parameter and axis; in algorithm 1 they outlive a round, and steps count anew."""
        held = [(at, self.state[parameter]) for at, parameter in enumerate(self._parameters())]
        return {f"{at}/{name}": value for at, state in held for name, value in state.items() if name != "step"}

    def write_state(self, state: dict[str, Tensor]) -> None:
        """Begin with statistics and roots of ``read_state``; without any with the identity."""
        parameters = self._parameters()
        for key, value in state.items():
            at, name = key.split("/")
            own = self.state[parameters[int(at)]]
            own.setdefault("step", torch.zeros(()))
            own[name] = value.to(parameters[int(at)].device)

    def _parameters(self) -> list[Tensor]:
        return [parameter for group in self.param_groups for parameter in group["params"]]

    def _precondition(self, gradient: Tensor, state: dict[str, Tensor]) -> Tensor:
        """The preconditioned gradient, of the same shape; statistics and roots are brought up to date before."""
        if not state:
            state["step"] = torch.zeros(())
            state |= {f"statistics{axis}": _identity(size, gradient) for axis, size in enumerate(gradient.shape)}
        state["step"] += 1
        step = int(state["step"])
        if step % self._statistics_every == 0:
            for axis in range(gradient.dim()):
                statistics = state[f"statistics{axis}"]
                rows = gradient.movedim(axis, 0).reshape(len(statistics), -1)
                statistics += rows @ rows.T if statistics.dim() == 2 else rows.square().sum(1)
        if step % self._roots_every == 0:
            for axis in range(gradient.dim()):
                state[f"root{axis}"] = _root(state[f"statistics{axis}"], self._damping, -0.5 / gradient.dim())
        for axis in range(gradient.dim()):
            if (root := state.get(f"root{axis}")) is not None:
                rows = gradient.movedim(axis, -1)
                gradient = (rows @ root if root.dim() == 2 else rows * root).movedim(-1, axis)
        return gradient


def _identity(size: int, like: Tensor) -> Tensor:
    """Identity matrix, or its diagonal for a large axis."""
    return torch.ones(size).to(like) if size > _LARGEST else torch.eye(size).to(like)


def _root(statistics: Tensor, damping: float, power: float) -> Tensor:
    """Power of damped statistics, computed in float64; all NaN where they are not finite, so that the loss shows it."""
    if statistics.dim() == 1:
        return (statistics + damping) ** power
    if not bool(statistics.isfinite().all()):
        return torch.full_like(statistics, torch.nan)
    values, vectors = torch.linalg.eigh(statistics.double())
    root: Tensor = (vectors * (values + damping) ** power) @ vectors.T
    return root.to(statistics)
