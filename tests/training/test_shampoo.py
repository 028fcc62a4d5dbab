"""Shampoo against the printed algorithm in float64, over more than 100 steps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from pfl_audit.training import optimizers as module
from pfl_audit.training.optimizers import Shampoo
from pfl_audit.training.optimizers import shampoo as make
from pfl_audit.training.state import RunState, restore_state, save_state
from tests.oracles import shampoo as oracle

SHAPES = [(7,), (5, 8), (4, 3, 5), (2, 3, 2, 2)]
PRINTED: dict[str, Any] = {"rate": 2e-4, "clip": 0.2, "damping": 1e-4, "every": 10, "roots": 100}
STEPS = 230


def gradients(shape: tuple[int, ...], steps: int = STEPS) -> list[np.ndarray[Any, Any]]:
    """Gradients of unlike sizes along the axes, some of whose elements the clip cuts."""
    rng = np.random.default_rng(len(shape))
    scale = rng.lognormal(size=shape)
    return [0.2 * scale * rng.normal(size=shape) for _ in range(steps)]


def walk(
    optimizer: torch.optim.Optimizer, weight: nn.Parameter, steps: list[np.ndarray[Any, Any]]
) -> list[torch.Tensor]:
    seen = []
    for gradient in steps:
        weight.grad = torch.from_numpy(gradient).to(weight)
        optimizer.step()
        seen.append(weight.detach().clone())
    return seen


def ours(shape: tuple[int, ...], dtype: torch.dtype = torch.float64, **changes: Any) -> list[torch.Tensor]:
    settings = {**PRINTED, **changes}
    names = {"every": "statistics_every", "roots": "roots_every"}
    weight = nn.Parameter(torch.zeros(shape, dtype=dtype))
    optimizer = Shampoo([weight], **{names.get(name, name): value for name, value in settings.items()})
    return walk(optimizer, weight, gradients(shape))


def theirs(shape: tuple[int, ...], **changes: Any) -> list[torch.Tensor]:
    return [
        torch.from_numpy(one) for one in oracle.shampoo(np.zeros(shape), gradients(shape), **{**PRINTED, **changes})
    ]


@pytest.mark.parametrize("shape", SHAPES)
def test_rounds_of_one_client_are_one_long_printed_loop(shape: tuple[int, ...]) -> None:
    """L, R and their roots are set before the loop over rounds (algorithm 1, line 1), and t begins anew (line 9)."""
    weight, state, seen = nn.Parameter(torch.zeros(shape, dtype=torch.float64)), dict[str, torch.Tensor](), []
    for at in (0, 40, 80):
        optimizer = Shampoo([weight], 0.1, clip=0.05, statistics_every=5, roots_every=20)
        optimizer.write_state(state)
        seen += walk(optimizer, weight, gradients(shape)[at : at + 40])
        state = {name: tensor.clone() for name, tensor in optimizer.read_state().items()}
    wanted = theirs(shape, every=5, roots=20, rate=0.1, clip=0.05)[:120]
    torch.testing.assert_close(torch.stack(seen), torch.stack(wanted), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    "periods", [{}, {"every": 3, "roots": 7}, {"every": 5, "roots": 20, "rate": 0.1, "clip": 0.05}]
)
def test_every_step_is_the_printed_one(shape: tuple[int, ...], periods: dict[str, Any]) -> None:
    for mine, wanted in zip(ours(shape, **periods), theirs(shape, **periods), strict=True):
        torch.testing.assert_close(mine, wanted, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("shape", SHAPES)
def test_float32_keeps_five_digits(shape: tuple[int, ...]) -> None:
    mine = ours(shape, torch.float32, every=3, roots=7)[-1]
    torch.testing.assert_close(mine.double(), theirs(shape, every=3, roots=7)[-1], rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("change", [{"damping": 0.5}, {"clip": 0.3}, {"every": 9}, {"roots": 99}])
def test_the_comparison_sees_every_constant(change: dict[str, Any]) -> None:
    assert not torch.allclose(ours((5, 8))[-1], theirs((5, 8), **change)[-1], rtol=1e-5)


def test_the_constants_are_those_of_the_paper_and_step_100_has_the_first_root() -> None:
    """Before it the preconditioner is the identity: gradient descent with a clip."""
    weight = nn.Parameter(torch.zeros((5, 8), dtype=torch.float64))
    seen = walk(make([weight], 2e-4, 0.01), weight, gradients((5, 8)))
    clipped = [2e-4 * np.clip(gradient, -0.2, 0.2) for gradient in gradients((5, 8))]
    torch.testing.assert_close(seen[98], torch.from_numpy(-np.sum(clipped[:99], axis=0)))
    assert not torch.allclose(seen[99], seen[98] - torch.from_numpy(clipped[99]))
    torch.testing.assert_close(seen[-1], theirs((5, 8))[-1])


def test_large_axes_have_the_diagonal_of_their_statistics(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first axis of length 6 is large: its preconditioner scales rows."""
    monkeypatch.setattr(module, "_LARGEST", 5)
    shape, steps = (6, 4), gradients((6, 4), 4)
    weight = nn.Parameter(torch.zeros(shape, dtype=torch.float64))
    seen = walk(Shampoo([weight], 1.0, clip=1e9, statistics_every=1, roots_every=4), weight, steps)
    rows = 1 + 1e-4 + sum(gradient**2 for gradient in steps).sum(axis=1)
    columns = (1 + 1e-4) * np.eye(4) + sum(gradient.T @ gradient for gradient in steps)
    values, vectors = np.linalg.eigh(columns)
    wanted = rows[:, None] ** -0.25 * steps[-1] @ (vectors * values**-0.25) @ vectors.T
    torch.testing.assert_close(seen[-2] - seen[-1], torch.from_numpy(wanted))


def test_a_central_run_that_was_cut_has_its_statistics_and_roots(tmp_path: Path) -> None:
    """The state on disk holds everything: the second half of the steps is the same."""
    settings = {"statistics_every": 2, "roots_every": 3}
    network, steps = nn.Linear(4, 5, bias=False), gradients((5, 4), 20)
    whole = Shampoo(network.parameters(), **settings)  # type: ignore[arg-type]
    walk(whole, network.weight, steps[:10])
    save_state(tmp_path / "state", "0" * 64, RunState(), network, whole)
    wanted = walk(whole, network.weight, steps[10:])[-1]
    again = nn.Linear(4, 5, bias=False)
    second = Shampoo(again.parameters(), **settings)  # type: ignore[arg-type]
    restore_state(tmp_path / "state", "0" * 64, again, second)
    assert torch.equal(walk(second, again.weight, steps[10:])[-1], wanted)


def test_gradients_that_are_not_finite_reach_the_weights() -> None:
    """So that the update is dropped, and not sent as a step of the clip's size."""
    weight = nn.Parameter(torch.zeros(3, 2))
    optimizer = Shampoo([weight], statistics_every=1, roots_every=1)
    walk(optimizer, weight, [np.full((3, 2), np.inf)])
    assert bool(weight.isnan().all())
