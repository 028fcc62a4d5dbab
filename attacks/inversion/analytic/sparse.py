"""Multiple-measurement sparse Bayesian learning.

    Y = A D + E,   D[p, :] ~ N(0, v_p),   E ~ N(0, s^2)

A row of D has one variance v_p for all columns, and the variances are those that make Y likeliest. Rows without
anything in them get v_p = 0, which leaves the equations to the others; so more rows than equations can be recovered,
as long as few of them hold something, and rows that A hardly separates do not fill with noise.

Source: Wipf and Rao, An empirical Bayesian strategy for solving the simultaneous sparse approximation problem, 2007
(M-SBL, with the fixed-point update of its equation 20).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

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
