import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pfl_audit.attacks.inversion import priors
from tests.oracles import inversion_pixels as oracle

NAMES = ("visual_text", "gaussian", "spatial_variation", "channel_variation")
SHAPES = st.tuples(st.integers(3, 7), st.integers(3, 7))


def drawn(shape: tuple[int, int], seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Two pages, and a mask that is neither empty nor, mostly, full."""
    generator = torch.Generator().manual_seed(seed)
    mask = torch.rand(shape, generator=generator) < 0.4
    mask[shape[0] // 2, 0] = True
    return torch.rand((2, 3, *shape), generator=generator, dtype=torch.float64), mask


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=15, deadline=None)
@given(shape=SHAPES, seed=st.integers(0, 999))
def test_every_prior_is_its_equation(name: str, shape: tuple[int, int], seed: int) -> None:
    pages, mask = drawn(shape, seed)
    slow = getattr(oracle, name)
    expected = np.mean([slow(page.numpy(), mask.numpy()) for page in pages])
    assert float(getattr(priors, name)(pages, mask)) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=15, deadline=None)
@given(shape=SHAPES, seed=st.integers(0, 999), shade=st.floats(0, 1))
def test_a_blank_page_is_what_priors_like_best(name: str, shape: tuple[int, int], seed: int, shade: float) -> None:
    pages, mask = drawn(shape, seed)
    prior = getattr(priors, name)
    assert float(prior(torch.full_like(pages, shade), mask)) == pytest.approx(0, abs=1e-6)
    assert float(prior(pages, mask)) > 1e-4


@settings(max_examples=15, deadline=None)
@given(shape=SHAPES, seed=st.integers(0, 999))
def test_grey_has_no_colour_and_what_is_outside_does_not_count(shape: tuple[int, int], seed: int) -> None:
    pages, mask = drawn(shape, seed)
    assert float(priors.channel_variation(pages[:, :1].expand(-1, 3, -1, -1), mask)) == 0
    alone = torch.zeros(9, 9, dtype=torch.bool)
    alone[4, 4] = True
    page = torch.rand(1, 3, 9, 9, dtype=torch.float64)
    other = page.clone()
    other[..., :2, :] = other[..., :2] = 0.5  # further away than any kernel reaches
    for name in NAMES:
        assert float(getattr(priors, name)(page, alone)) == float(getattr(priors, name)(other, alone))


def test_when_priors_count() -> None:
    weights = [priors.weight_at("decay", step, 100, 0.9) for step in range(100)]
    assert weights[0] == 1
    assert np.allclose(np.diff(np.log(weights)), np.log(0.9))
    assert {priors.weight_at("constant", step, 100, 0.9) for step in range(100)} == {1.0}
    assert [priors.weight_at("delayed", step, 100, 0.9) for step in (0, 49, 50, 99)] == [0, 0, 1, 1]


@settings(max_examples=30, deadline=None)
@given(shape=st.tuples(st.integers(3, 14), st.integers(3, 14)), seed=st.integers(0, 999))
def test_nothing_outside_the_window_counts(shape: tuple[int, int], seed: int) -> None:
    pages, _ = drawn(shape, seed)
    mask = torch.zeros(shape, dtype=torch.bool)
    mask[tuple(torch.randint(0, side, (2,), generator=torch.Generator().manual_seed(seed)) for side in shape)] = True
    rows, columns = priors.window(mask)
    for name in NAMES:
        prior = getattr(priors, name)
        assert float(prior(pages[..., rows, columns], mask[rows, columns])) == pytest.approx(float(prior(pages, mask)))
