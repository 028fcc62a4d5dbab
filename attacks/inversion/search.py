"""Optimisation over pixels: one loop for all methods, with a resumable state."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic

import torch
from torch import Tensor

from pfl_audit.attacks.inversion.methods import Method
from pfl_audit.errors import AuditError
from pfl_audit.files import atomic_write
from pfl_audit.progress import Progress

Objective = Callable[[Tensor, int], Tensor]
"""Function of the unknown pixels and of the iteration, from 0, to be minimised."""

_TURN = 10
"""Gradients of one step of L-BFGS at most."""
_MEMORY = 60
_SAVE_SECONDS = 10.0
_PATIENCE = 0.1
"""Share of the iterations without progress after which the search ends."""
_PROGRESS = 1e-3


@dataclass
class Trace:
    """Objective over the iterations of a search.

    Attributes:
        steps: Gradients of the model that it took.
        objective: At every turn: (steps, value).
    """

    steps: int = 0
    objective: list[tuple[int, float]] = field(default_factory=list)

    @property
    def least(self) -> float:
        """The smallest value."""
        return min((value for _, value in self.objective), default=float("inf"))

    def stalled(self, steps: int) -> bool:
        """Whether the last tenth of the iterations made nothing better, or nothing is left to be made better."""
        patience = max(_TURN, int(_PATIENCE * steps))
        before = [value for step, value in self.objective if step <= self.steps - patience]
        since = [value for step, value in self.objective if step > self.steps - patience]
        return bool(before and since) and min(since) > (1 - _PROGRESS) * min(before)


def search(
    objective: Objective,
    start: Tensor,
    method: Method,
    steps: int,
    progress: Progress,
    label: str,
    state: Path | None = None,
    *,
    early_end: bool = True,
) -> tuple[Tensor, Trace]:
    """Minimise the objective over the pixels.

    Args:
        objective: Differentiable in the pixels.
        start: float32, where to begin.
        state: File that the state is kept in, so that a killed search goes on where it stopped; removed at the end.
        early_end: Whether a search that makes no progress ends.

    Returns:
        The best pixels, and how it went.

    Raises:
        AuditError: The objective is no number from the start.
    """
    run = _Run(objective, start, method, steps, early_end=early_end)
    if state is not None and state.is_file():
        run.resume(state)
    saved = monotonic()
    with progress.task(label, steps, run.trace.steps) as task:
        while run.trace.steps < steps and not run.over:
            before = run.trace.steps
            run.turn()
            task.advance(run.trace.steps - before, f"objective {run.value:.3g}")
            if state is not None and monotonic() - saved > _SAVE_SECONDS:
                run.save(state)
                saved = monotonic()
    if not run.trace.objective or run.best is None:
        raise AuditError("the distance of the gradients is no finite number", "Check the model and the gradient")
    if state is not None:
        state.unlink(missing_ok=True)
    return run.best, run.trace


class _SpentError(Exception):
    """The budget of gradients is used up."""


class _Run:
    """State of a search."""

    def __init__(
        self, objective: Objective, start: Tensor, method: Method, steps: int, *, early_end: bool = True
    ) -> None:
        self.trace, self._early_end = Trace(), early_end
        self.over = False
        self.value = float("inf")
        self.best: Tensor | None = None
        self._least = float("inf")
        self._objective, self._method, self._steps = objective, method, steps
        self._pixels = start.clone().requires_grad_(True)
        self._optimiser: torch.optim.Optimizer
        if method.search == "l-bfgs":
            line_search = "strong_wolfe" if method.match == "relative" else None
            self._optimiser = torch.optim.LBFGS(
                [self._pixels], lr=method.rate, max_iter=_TURN, max_eval=_TURN, history_size=_MEMORY,
                tolerance_grad=0.0, tolerance_change=0.0, line_search_fn=line_search,
            )  # fmt: skip
        else:
            self._optimiser = torch.optim.Adam([self._pixels], lr=method.rate)

    def turn(self) -> None:
        """One step of Adam, or a few of L-BFGS."""
        for group in self._optimiser.param_groups:
            group["lr"] = self._method.rate * self._method.fall ** (self.trace.steps / self._steps)
        with contextlib.suppress(_SpentError):
            self._optimiser.step(self._closure)
        if self._method.search != "l-bfgs":
            with torch.no_grad():
                self._pixels.clamp_(0, 1)
        self.over = (
            self.over or self._least <= self._method.enough or (self._early_end and self.trace.stalled(self._steps))
        )

    def _closure(self) -> float:
        if self.trace.steps >= self._steps:  # in the middle of a line search
            raise _SpentError
        value = self._objective(self._pixels, self.trace.steps)
        (slope,) = torch.autograd.grad(value, self._pixels)
        self._pixels.grad = slope.sign() if self._method.search == "signed-adam" else slope
        self.trace.steps += 1
        self.value = float(value.detach())
        if not torch.isfinite(value) or not torch.isfinite(slope).all():
            self.over = True  # as L-BFGS without a line search may: the best so far is kept
            self._pixels.grad = torch.zeros_like(slope)
            return self._least
        self.trace.objective.append((self.trace.steps, self.value))
        if self.value < self._least:
            self._least, self.best = self.value, self._pixels.detach().clone()
        return self.value

    def save(self, path: Path) -> None:
        """Write the state atomically."""
        content = io.BytesIO()
        torch.save({**self._position(), "optimiser": self._optimiser.state_dict()}, content)
        with atomic_write(path) as file:
            file.write(content.getvalue())

    def _position(self) -> dict[str, object]:
        return {
            "pixels": self._pixels.detach(),
            "best": self.best,
            "least": self._least,
            "steps": self.trace.steps,
            "objective": self.trace.objective,
        }

    def resume(self, path: Path) -> None:
        """Restore a saved state; a damaged file is ignored and removed."""
        try:
            kept = torch.load(path, weights_only=True, map_location=self._pixels.device)
            pixels, best, least = kept["pixels"], kept["best"], kept["least"]
            trace = Trace(kept["steps"], kept["objective"])
            if pixels.shape == self._pixels.shape:
                self._optimiser.load_state_dict(kept["optimiser"])
                self._pixels.data.copy_(pixels)
                self.trace, self.best, self._least = trace, best, least
        except Exception:
            path.unlink(missing_ok=True)
