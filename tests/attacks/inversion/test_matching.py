from collections.abc import Sequence
from typing import get_args

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from pfl_audit.attacks.inversion.matching import distance, speaking
from pfl_audit.attacks.inversion.settings import Match
from pfl_audit.errors import NotAuditableError
from tests.oracles.inversion_pixels import apart

KINDS: tuple[Match, ...] = get_args(Match)
SHAPES = ((3, 4), (5,), (2, 2, 3), (1,))


def gradient(seed: int, scale: float = 1.0) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [scale * torch.randn(shape, generator=generator, dtype=torch.float64) for shape in SHAPES]


def rows(tensors: Sequence[Tensor]) -> list[list[float]]:
    return [tensor.flatten().tolist() for tensor in tensors]


@pytest.mark.parametrize("match", KINDS)
@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 999), scale=st.floats(1e-3, 1e3))
def test_every_distance_is_its_sum(match: Match, seed: int, scale: float) -> None:
    target, parts = gradient(seed), gradient(seed + 1000, scale)
    found = distance(match, target, patches=2)(parts)
    assert float(found) == pytest.approx(apart(match, rows(parts), rows(target), patches=2), rel=1e-9)
    assert float(found) > 0


@pytest.mark.parametrize("match", KINDS)
def test_nothing_is_nearer_than_the_target_itself(match: Match) -> None:
    target = gradient(0)
    assert float(distance(match, target, patches=0)(target)) == pytest.approx(0, abs=1e-15)
    beside = [part + 1e-3 * other for part, other in zip(target, gradient(1), strict=True)]
    assert float(distance(match, target, patches=0)(beside)) > 1e-9


@pytest.mark.parametrize("match", KINDS)
def test_slopes_are_what_differences_say(match: Match) -> None:
    parts = [part.requires_grad_(True) for part in gradient(3)]
    apart_from = distance(match, gradient(4), patches=1)
    assert torch.autograd.gradcheck(lambda *some: apart_from(some), parts)


@pytest.mark.parametrize("match", ["layered", "relative"])
@pytest.mark.parametrize("clip", [1e-3, 0.3, 40.0])
def test_a_gradient_that_was_clipped_or_scaled_is_matched_as_well(match: Match, clip: float) -> None:
    """A norm clip and a step of SGD are factors on the whole gradient."""
    own, shared = gradient(0), [clip * part for part in gradient(0)]
    assert float(distance(match, shared)(own)) == pytest.approx(0, abs=1e-12)
    beside = [part + 1e-2 * other for part, other in zip(own, gradient(1), strict=True)]
    assert float(distance(match, shared)(beside)) > 1e-9


@pytest.mark.parametrize("match", ["layered", "cosine"])
def test_a_small_turn_is_told_exactly_in_single_precision(match: Match) -> None:
    """One less a cosine of nearly one would be rounding and nothing else."""
    target = [part.float() for part in gradient(0)]
    beside = [part * (1 + 1e-4 * torch.arange(part.numel()).view(part.shape)) for part in target]
    exact = distance(match, [part.double() for part in target])([part.double() for part in beside])
    assert float(distance(match, target)(beside)) == pytest.approx(float(exact), rel=1e-3)


def test_tensors_that_are_zero_but_for_rounding_are_not_matched() -> None:
    found = {"encoder.a": torch.ones(3), "encoder.key.bias": torch.full((3,), 1e-8), "b": torch.ones(2) / 100}
    assert speaking(found) == ["encoder.a", "b"]
    assert speaking(found, "pre-fusion", ("encoder.",)) == ["encoder.a"]
    assert speaking(found, "post-fusion", ("encoder.",)) == ["b"]
    with pytest.raises(NotAuditableError, match="nothing in its all layers but zeros"):
        speaking({"a": torch.zeros(3)})
    with pytest.raises(NotAuditableError, match="nothing in its pre-fusion layers"):
        speaking({"b": torch.ones(3)}, "pre-fusion", ("encoder.",))
