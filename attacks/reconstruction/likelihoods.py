"""From what two models say of candidate tokens to the one that is taken. Pure functions, in logarithms.

Source: cdmi-reconstruction, section 4.2, Algorithm 2 and equation 5.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pfl_audit.attacks.reconstruction.specs import Mean
from pfl_audit.metrics.arrays import Floats, Integers


def top(logits: NDArray[np.float32 | np.float64], count: int) -> Integers:
    """The ``count`` highest finite logits (step 1), best first, equal ones by their place.

    Args:
        logits: (n,), minus infinity where a token must not be taken.
        count: How many; fewer come back where there are no more.
    """
    allowed = np.flatnonzero(np.isfinite(logits))
    values = logits[allowed]
    if count < len(values):
        allowed = allowed[values >= np.partition(values, -count)[-count]]
    return allowed[np.argsort(-logits[allowed], kind="stable")][:count]


def log_softmax(values: NDArray[np.float32 | np.float64], temperature: float = 1.0) -> Floats:
    """Logarithm of the softmax of ``values / temperature`` (steps 3 and 4), float64 (n,); one must be finite."""
    with np.errstate(over="ignore"):
        scaled = values.astype(np.float64) / temperature
    scaled -= scaled.max()
    return scaled - np.log(np.exp(scaled).sum())


def temperature_at(step: int, base: float, start: float, steps: int) -> float:
    """Decaying temperature (step 3): ``start * base`` at step 0, then in a straight line to ``base`` at ``steps``.

    The paper says that the decay is applied over 3 steps and promotes unexpected first tokens; the line
    and its start are ours.
    """
    left = max(0, steps - step) / steps if steps else 0.0
    return base * (1.0 + (start - 1.0) * left)


def loss_scores(losses: Floats) -> Floats:
    """``2 - l / median(l)`` (equation 5), float64 (n,): the median scores 1, smaller losses up to 2.

    Where the median is 0, losses of 0 score 2 and every other one minus infinity.
    """
    positive = np.maximum(losses, 0.0)
    median = float(np.median(positive))
    if median == 0.0:
        return np.where(positive > 0.0, -np.inf, 2.0)
    with np.errstate(over="ignore"):
        scores: Floats = 2.0 - positive / median
    return scores


def log_mean(target: Floats, public: Floats, weight: float, mean: Mean) -> Floats:
    """Weighted mean of two likelihoods (step 5), given and returned as logarithms that sum to 1 over the candidates.

    Args:
        target: float64 (n,), minus infinity allowed.
        public: float64 (n,).
        weight: Weight of ``target`` in the mean, 0 to 1.
    """
    if weight in (0.0, 1.0):
        return target if weight else public
    if mean == "geometric":
        return log_softmax(weight * target + (1.0 - weight) * public)
    return log_softmax(np.logaddexp(np.log(weight) + target, np.log(1.0 - weight) + public))


def nucleus(log_p: Floats, mass: float) -> Integers:
    """The fewest candidates, likeliest first, that hold ``mass`` of the probability; one at least (step 6)."""
    order = np.argsort(-log_p, kind="stable")
    total = np.cumsum(np.exp(log_p[order]))
    return order[: int(np.searchsorted(total, mass - 1e-12)) + 1]


def draw(log_p: Floats, mass: float, rng: np.random.Generator) -> int:
    """Place of one candidate, drawn from the nucleus in proportion (step 6). Takes one number off ``rng``."""
    kept = nucleus(log_p, mass)
    total = np.cumsum(np.exp(log_p[kept]))
    at = int(np.searchsorted(total, rng.random() * total[-1], side="right"))
    return int(kept[min(at, len(kept) - 1)])
