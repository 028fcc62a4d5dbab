"""Span test of tokens by the gradient of the first self-attention.

    dL/dWq = sum_p g_p h_p^T,   and likewise for keys and values

Each row of these gradients is a combination of the states h_p that the attention saw, so with fewer tokens than the
decoder is wide these states, and hardly any others, lie in the rows' span; h is known for every token in every
place. Causal masks and weak signals leave some directions of the span close to the noise: an error e of each entry
turns a state h with coordinates c_i in directions of strength s_i out of the span by e^2 sum (c_i / s_i)^2 in each
direction outside. That is what a state is measured by, against a state of chance.

Source: the span test is DAGER's (Petrov et al., DAGER: Exact gradient inversion for large language models, 2024).
The observer's part of it only: no layer is used whose input depends on the page.

LayerNorm forgets lengths. Where its bias is zero, as in a new network, e(v, p) + e(w, q) = e(w, p) + e(v, q) puts a
fourth state into the span of three: of a batch, sets of tokens may come out too large.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import torch
from torch import Tensor

from pfl_audit.attacks.inversion.analytic.noise import Noise

_ROUNDED = 4.0
"""Rounding of a product of matrices, and of the network's own states, over that of one number."""
_ABOVE = 1.1
"""Times the largest singular value of noise, from which on a direction holds something."""


@dataclass(frozen=True)
class Span:
    """The span of the states that the first attention saw.

    Attributes:
        directions: float64 (rank, width), orthonormal.
        strengths: float64 (rank,), the singular values.
        error: Standard deviation of an entry of the gradient.
        rounding: Relative error of a state.
    """

    directions: Tensor
    strengths: Tensor
    error: float
    rounding: float

    @property
    def rank(self) -> int:
        """How many states it holds at least."""
        return len(self.directions)

    @property
    def informative(self) -> bool:
        """Whether it carries information: it is neither empty nor everything."""
        return 0 < self.rank < self.directions.shape[1]

    def odds(self, states: Tensor) -> tuple[Tensor, Tensor]:
        """Log-odds of lying in the span, against a random state.

        Args:
            states: float64 (tokens, width).

        Returns:
            float64 (tokens,), if the span is all of it; and if noise has swallowed a part, so that a state may lie
            outside as far as it does.
        """
        inside, length = states @ self.directions.T, states.square().sum(dim=1)
        width = states.shape[1]
        outside = (length - inside.square().sum(dim=1)).clamp_min(0)
        expected = self.error**2 * (inside / self.strengths).square().sum(dim=1)
        expected = (expected + self.rounding**2 * length / width) / (length / width)
        energy, count = outside / (length / width), width - self.rank
        return normal_odds(energy, expected, count), normal_odds(energy, expected.maximum(energy / count), count)


def span_of(attention: Tensor, noise: Noise, least: float = 0.0) -> Span:
    """Find the span.

    Args:
        attention: float64 (rows, width), the gradients one below the other.
        noise: Noise of their entries.
        least: Standard deviation that the entries' noise has at least, whatever is known of it.
    """
    rows, width = attention.shape
    rounding = _ROUNDED * noise.rounding
    error = max(least, sqrt(noise.sigma**2 + float(attention.square().mean()) * rounding**2))
    _, strengths, directions = torch.linalg.svd(attention, full_matrices=False)
    held = strengths > _ABOVE * error * (sqrt(rows) + sqrt(width))
    true = (strengths[held].square() - rows * error**2).sqrt()
    return Span(directions[held], true, error, rounding)


def normal_odds(energy: Tensor, expected: Tensor, count: int) -> Tensor:
    """Log-odds that normal numbers have the expected variance, against at least 1.

    Args:
        energy: float64 (...), the sum of their squares.
        expected: float64 (...).
        count: Number of them.
    """
    wide = expected.clamp_min(1)
    return 0.5 * (count * (wide / expected).log() - energy * (1 / expected - 1 / wide))
