"""Pixels from the patch projection's gradient, made one patch at a time."""

import pytest
import torch

from pfl_audit.attacks.inversion.analytic.noise import Noise
from pfl_audit.attacks.inversion.analytic.pixels import read_pixels, sparse_rows
from pfl_audit.models.layoutlm.pixels import PixelSettings
from tests.attacks.inversion.clients import psnr
from tests.oracles.inversion import projection_gradient, sparse_bayes

SETTINGS = PixelSettings((40, 32), mean=(0.4, 0.5, 0.6), std=(0.2, 0.3, 0.4))
"""Five patches of 8 across, four down."""
EXACT = Noise(0.0, 1e-7, everywhere=False)


def shared(page, width, *, alike=0.0, seed=0):
    """Gradients of the positions, the projection and its bias, for signals of random direction."""
    chance = torch.Generator().manual_seed(seed)
    signals = torch.randn(21, width, generator=chance) + alike * torch.randn(width, generator=chance)
    mean, std = (torch.tensor(each)[:, None, None] for each in (SETTINGS.mean, SETTINGS.std))
    scaled = (page - mean) / std
    patches = [
        scaled[:, top : top + 8, left : left + 8].flatten() for top in range(0, 32, 8) for left in range(0, 40, 8)
    ]
    sums = projection_gradient(signals[1:], torch.stack(patches)).float()
    return signals[None], sums.reshape(width, 3, 8, 8), signals[1:].sum(dim=0)


def page_of(seed, blank=0):
    page = torch.randint(256, (3, 32, 40), generator=torch.Generator().manual_seed(seed)) / 255
    page[:, :, : 8 * blank] = 1
    return page


@pytest.mark.parametrize("bias", [True, False])
def test_a_page_of_chance_comes_back_to_the_last_bit(bias):
    page = page_of(0)
    positions, projection, added = shared(page, 48, alike=3.0)
    found = read_pixels(positions, projection, added if bias else None, EXACT, SETTINGS, torch.ones(3, 32, 40))
    assert psnr(found.pixels, page) > 100
    assert found.rank == found.patches == 20
    assert found.excess < 3


def test_fewer_numbers_than_patches_do_if_few_patches_hold_something():
    page = page_of(1, blank=4)
    positions, projection, added = shared(page, 12)
    found = read_pixels(positions, projection, added, EXACT, SETTINGS, torch.ones(3, 32, 40))
    assert psnr(found.pixels, page) > 60
    template = page_of(2)
    page = template.clone()
    page[:, 8:24, 8:24] = page_of(3)[:, 8:24, 8:24]
    positions, projection, added = shared(page, 12)
    assert psnr(read_pixels(positions, projection, added, EXACT, SETTINGS, template).pixels, page) > 60


def test_the_error_to_be_expected_is_the_error():
    page, sigma = page_of(4), 0.02
    positions, projection, added = shared(page, 64)
    chance = torch.Generator().manual_seed(9)
    seen = [each + sigma * torch.randn(each.shape, generator=chance) for each in (positions, projection, added)]
    found = read_pixels(*seen, Noise(sigma, 1e-7, everywhere=True), SETTINGS, torch.ones(3, 32, 40))
    off = (found.pixels.double() - page.double()).square().mean().sqrt()
    assert 0.5 < off / found.error < 1.5
    assert found.excess == pytest.approx(1, abs=0.3)


def test_a_projection_of_other_signals_is_noticed():
    page = page_of(5)
    positions, projection, _ = shared(page, 48)
    _, other, added = shared(page_of(6), 48, seed=1)
    found = read_pixels(positions, projection + other, added, EXACT, SETTINGS, torch.ones(3, 32, 40))
    assert found.excess > 1000
    assert found.residual > 0.1


def test_sparse_rows_are_told_where_least_squares_cannot():
    chance = torch.Generator().manual_seed(0)
    mixing = torch.randn(10, 30, generator=chance, dtype=torch.float64)
    rows = torch.zeros(30, 50, dtype=torch.float64)
    rows[[2, 7, 11, 19, 23]] = torch.randn(5, 50, generator=chance, dtype=torch.float64)
    found = sparse_rows(mixing, mixing @ rows, 1e-6, 4.0)
    assert torch.allclose(found.mean, rows, atol=1e-4)
    plain = torch.linalg.pinv(mixing) @ mixing @ rows
    assert (plain - rows).abs().max() > 0.1


@pytest.mark.parametrize("noise", [1e-1, 1e-2, 1e-3, 1e-4])
def test_rows_that_are_left_out_on_the_way_change_nothing(noise):
    chance = torch.Generator().manual_seed(1)
    mixing = torch.randn(12, 20, generator=chance, dtype=torch.float64)
    rows = torch.zeros(20, 40, dtype=torch.float64)
    rows[[1, 5, 14]] = torch.randn(3, 40, generator=chance, dtype=torch.float64)
    measured = mixing @ rows + noise * torch.randn(12, 40, generator=chance, dtype=torch.float64)
    slow = sparse_bayes(mixing.numpy(), measured.numpy(), noise, 4.0, 200)
    assert torch.allclose(sparse_rows(mixing, measured, noise, 4.0).mean, torch.from_numpy(slow), atol=0.2 * noise)
