"""The rounding of a difference of weights, against the same steps in double precision."""

import pytest
import torch
from torch import Tensor

from pfl_audit.attacks.inversion.update.difference import rounding_of
from tests.attacks.inversion import updates
from tests.attacks.inversion.updates import Optimizer

SHAPE = (64, 192)


def stepped(size: float, optimizer: Optimizer, steps: int, change: float, start: float = 1.0) -> tuple[Tensor, ...]:
    """Weights, their difference after steps in float32, and the errors of it, float64.

    Args:
        size: Standard deviation of the weights.
        change: Standard deviation of what differs between the gradients of two steps, in units of ``start``.
        start: Standard deviation of the gradients.
    """
    generator = torch.Generator().manual_seed(0)
    before = size * torch.randn(SHAPE, generator=generator)
    first = start * torch.randn(SHAPE, generator=generator)
    changes = [change * start * torch.randn(SHAPE, generator=generator) for _ in range(steps)]
    ends = []
    for kind in (torch.float32, torch.float64):
        weights = torch.nn.Parameter(before.to(kind).clone())
        work = optimizer([weights])
        for each in changes:
            weights.grad = (first + each).to(kind)
            work.step()
        ends.append(weights.detach())
    sent = ends[0] - before
    return before, sent, sent.double() - (ends[1] - before.double())


def ratio(size: float, optimizer: Optimizer, steps: int, change: float, start: float = 1.0) -> float:
    """Errors over what is expected of them."""
    before, sent, errors = stepped(size, optimizer, steps, change, start)
    rounded = rounding_of(sent, before, steps)
    assert rounded is not None
    return float(errors.square().mean().sqrt() / torch.from_numpy(rounded).square().mean().sqrt())


@pytest.mark.parametrize("size", [1e-3, 0.05, 1.0, 10.0])
@pytest.mark.parametrize("rate", [1e-5, 1e-4])
def test_a_step_of_sgd_rounds_once(size: float, rate: float) -> None:
    assert ratio(size, updates.sgd(rate), 1, 0.0) == pytest.approx(1.0, abs=0.03)


def test_a_step_larger_than_the_weights_rounds_to_their_new_size() -> None:
    assert ratio(1e-3, updates.sgd(2.0**-10), 1, 0.0) == pytest.approx(1.1, abs=0.1)


def test_a_step_below_half_a_step_of_the_weights_is_lost() -> None:
    _, sent, errors = stepped(10.0, updates.sgd(1e-9), 1, 0.0)
    assert float(errors.square().mean().sqrt()) == pytest.approx(1e-9, rel=0.05)
    assert ratio(10.0, updates.sgd(1e-9), 1, 0.0) < 0.05
    assert float((sent != 0).double().mean()) < 0.05


@pytest.mark.parametrize("steps", [2, 5, 20])
def test_equal_steps_are_rounded_equally(steps: int) -> None:
    assert ratio(0.05, updates.sgd(1e-5), steps, 0.0) == pytest.approx(1.0, abs=0.1)


@pytest.mark.parametrize("steps", [2, 5, 20])
def test_changing_steps_are_rounded_independently(steps: int) -> None:
    assert ratio(0.05, updates.sgd(1e-5), steps, 1.0) == pytest.approx(steps**-0.5, rel=0.1)


@pytest.mark.parametrize(("decay", "roundings"), [(0.0, 1), (0.1, 2)])
def test_a_step_of_adamw_rounds_for_the_decay_as_well(decay: float, roundings: int) -> None:
    assert ratio(0.05, updates.adamw(1e-4, decay), 1, 0.0) == pytest.approx(roundings**0.5, rel=0.1)


def test_a_gradient_is_no_difference() -> None:
    generator = torch.Generator().manual_seed(0)
    weights, gradient = (torch.randn(SHAPE, generator=generator) for _ in range(2))
    assert rounding_of(1e-3 * gradient, weights) is None
