"""Pixels of the page, from the gradient of the patch projection.

With x_p the pixels of patch p, e_p = K x_p + b + pos_p and s_p = dL/de_p:

    dL/dpos_p = s_p,   dL/dK = sum_p s_p x_p^T,   dL/db = sum_p s_p

so dL/dK is linear in all pixels, with one matrix (width, patches) for every pixel of a patch. Blank patches have
nearly the same signal, and the equations nearly nothing to tell them apart by. What is solved for is therefore how
the page differs from what is known of it, white paper or a template, D = X - X0, most patches of which are empty:

    dL/dK - dL/db c^T - S^T (X0 - 1 c^T) = S^T D,   c = white

(taking white out by dL/db costs one vector of noise instead of one a patch). ``sparse`` solves this.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import torch
from torch import Tensor

from pfl_audit.attacks.inversion.analytic.noise import Noise
from pfl_audit.models.word_encoder import PixelScale

_SMALLEST = 1e-12
_GONE = 1e-10
"""Variance below which a row is dropped; its pixels would vary by less than a hundredth of a level of 255."""
_STEPS = 200
_STILL = 1e-3


@dataclass(frozen=True)
class Sources:
    """Posterior of the rows.

    Attributes:
        mean: float64 (rows, columns), the posterior mean of D.
        variance: float64 (rows,), of each of a row's entries.
    """

    mean: Tensor
    variance: Tensor


def sparse_rows(mixing: Tensor, measured: Tensor, noise: float, largest: float) -> Sources:
    """Solve for D.

    Args:
        mixing: A, float64 (equations, rows).
        measured: Y, float64 (equations, columns).
        noise: s, standard deviation of the entries of E; above 0.
        largest: No variance of a row is above this.
    """
    if mixing.shape[0] > mixing.shape[1]:
        basis, mixing = torch.linalg.qr(mixing)
        measured = basis.T @ measured
    count = mixing.shape[1]
    alive, variance = torch.arange(count), torch.full((count,), largest, dtype=mixing.dtype)
    for _ in range(_STEPS):
        found = _posterior(mixing[:, alive], measured, noise, variance)
        known = (1 - found.variance / variance).clamp_min(_SMALLEST)
        update = (found.mean.square().mean(dim=1) / known).clamp(_SMALLEST, largest)
        stays = update > _GONE
        change = (update.log() - variance.log())[stays].abs()
        alive, variance = alive[stays], update[stays]
        if not len(change) or float(change.max()) < _STILL:
            break
    found = _posterior(mixing[:, alive], measured, noise, variance)
    mean = torch.zeros(count, measured.shape[1], dtype=mixing.dtype).index_copy(0, alive, found.mean)
    return Sources(mean, torch.full((count,), _SMALLEST, dtype=mixing.dtype).index_copy(0, alive, found.variance))


def _posterior(mixing: Tensor, measured: Tensor, noise: float, variance: Tensor) -> Sources:
    """Mean and variances, by least squares of the stacked equations, which does not square their condition."""
    scale = variance.sqrt()
    stacked = torch.cat([mixing * scale, noise * torch.eye(len(scale), dtype=mixing.dtype)])
    basis, triangle = torch.linalg.qr(stacked)
    inverse = torch.linalg.solve_triangular(triangle, torch.eye(len(scale), dtype=mixing.dtype), upper=True)
    mean = inverse @ (basis[: len(mixing)].T @ measured)
    return Sources(scale[:, None] * mean, variance * noise**2 * inverse.square().sum(dim=1))


_LEVELS = 255
_CERTAIN = 6.0
_ROUNDINGS = 2.5
"""Rounding errors in the projection's gradient over those in one sum (float32, 196 patches, measured: 2)."""


@dataclass(frozen=True)
class Page:
    """Recovered page.

    Attributes:
        pixels: float32 (3, height, width), 0 to 1.
        error: What a pixel is off by, as a root mean square, to be expected from the noise; 0 to 1.
        residual: Share of the projection's gradient that no page explains.
        excess: Root of the residual's energy over what noise explains; about 1 where the model is right.
        rank: Singular values above the noise.
        patches: Unknown patches.
    """

    pixels: Tensor
    error: float
    residual: float
    excess: float
    rank: int
    patches: int


def read_pixels(
    positions: Tensor, projection: Tensor, bias: Tensor | None, noise: Noise, settings: PixelScale, known: Tensor
) -> Page:
    """Solve for the page.

    Args:
        positions: Gradient of the visual positions, (1, 1 + patches, width).
        projection: Gradient of the patch projection, (width, 3, side, side).
        bias: Gradient of its bias, (width,), or None.
        settings: How a page becomes pixels.
        known: float (3, height, width), 0 to 1: a template, or white.
    """
    side, signals = projection.shape[-1], positions[0, 1:].double().T
    start, white = (_cut(_scaled(page, settings), side) for page in (known, torch.ones_like(known)))
    sums = projection.double().flatten(1)
    added = bias.double() if bias is not None else signals.sum(dim=1)
    measured = sums - torch.outer(added, white[0]) - signals @ (start - white)
    scale = float(signals.square().mean().sqrt())
    signals, measured = signals / scale, measured / scale
    left, freedom = _left_over(signals, measured)
    seen = scale * sqrt(left / freedom) if freedom else 0.0
    off = 0.0
    for _ in range(2):  # without equations to spare the noise depends on how far off the start is
        level = seen or _expected(noise, sums, off)
        found = sparse_rows(signals, measured, level / scale, 1 / min(settings.std) ** 2)
        off = float(found.mean.square().sum(dim=0).mean())
        if seen:
            break
    values = torch.linalg.svdvals(signals)
    return Page(
        _finished(start + found.mean, found.variance, settings, known, side),
        float(found.variance.mean().sqrt()) * max(settings.std),
        sqrt(left) * scale / max(float(sums.norm()), 1e-300),
        seen / _expected(noise, sums, off),
        int((values > level / scale).sum()),
        signals.shape[1],
    )


def _expected(noise: Noise, sums: Tensor, off: float) -> float:
    """Standard deviation of the equations' errors: their own, white's, and that of the signals times ``off``."""
    rounding = _ROUNDINGS * noise.rounding * float(sums.square().mean().sqrt())
    return sqrt(noise.sigma**2 * (2 + off) + rounding**2)


def _left_over(signals: Tensor, measured: Tensor) -> tuple[float, int]:
    """Energy of what no page explains, and in how many numbers."""
    if signals.shape[0] <= signals.shape[1]:
        return 0.0, 0
    basis, _ = torch.linalg.qr(signals)
    rest = measured - basis @ (basis.T @ measured)
    return float(rest.square().sum()), (signals.shape[0] - signals.shape[1]) * measured.shape[1]


def _finished(patches: Tensor, variance: Tensor, settings: PixelScale, known: Tensor, side: int) -> Tensor:
    """The page in 0..1; patches that are known to within a level of 8 bits are put on their levels."""
    down = known.shape[1] // side
    page = patches.reshape(down, -1, 3, side, side).permute(2, 0, 3, 1, 4).flatten(3).flatten(1, 2)
    mean, std = (torch.tensor(each, dtype=torch.float64)[:, None, None] for each in (settings.mean, settings.std))
    page = (page * std + mean).clamp(0, 1)
    sure = (variance.sqrt() * max(settings.std) * _LEVELS * _CERTAIN < 0.5).reshape(down, -1)
    sure = sure.repeat_interleave(side, dim=0).repeat_interleave(side, dim=1)
    page = torch.where(sure, (page * _LEVELS).round() / _LEVELS, page)
    whole = known.double().clone()
    whole[:, : page.shape[1], : page.shape[2]] = page
    return whole.float()


def _scaled(page: Tensor, settings: PixelScale) -> Tensor:
    mean, std = (torch.tensor(each, dtype=torch.float64)[:, None, None] for each in (settings.mean, settings.std))
    return (page.double() - mean) / std


def _cut(page: Tensor, side: int) -> Tensor:
    """A page (3, height, width) as patches (patches, 3 * side * side), row by row."""
    down, across = page.shape[1] // side, page.shape[2] // side
    page = page[:, : down * side, : across * side].reshape(3, down, side, across, side)
    return page.permute(1, 3, 0, 2, 4).flatten(2).flatten(0, 1)
