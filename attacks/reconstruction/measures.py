"""Measures of reconstructions: distances of a field to its ground truth, and AccAt(p) and HamAt(p) over the fields.

Source: cdmi-reconstruction, section 5.2 and equation 6; section 5.3 and appendix B, equations 7 to 10. Distances are on
token ids; of the step functions the areas are exact.

T(p), the fields ranked top-p of M, are the first ceil(p M): for p in ((i - 1) / M, i / M] the first i. The proof
in appendix B writes its intervals closed on the left, which would be the first floor(p M); but that leaves T(p)
empty below 1 / M and the last field without any weight, so that its improvement would not improve the area
(the second property of section 5.3). And Table 5 rounds up: its AccAt at 1 % of 777 fields are eighths, at 5 %
thirty-ninths. The area is then the mean of At(i / M) over i = 1 to M.

Fields with equal scores stand together: each counts as their mean, which is what breaking the tie by chance would
give on average, in At(p) and in the area.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from rapidfuzz.distance import JaroWinkler, Levenshtein

from pfl_audit.metrics.arrays import Floats, Integers

NAMES = ("PR", "HD", "LD", "JWD")
"""Perfect reconstruction (higher is better), and three distances (lower is better), all 0 to 1."""


def perfect(truth: Sequence[int], guess: Sequence[int]) -> float:
    """1 where every token is right, else 0."""
    return float(tuple(truth) == tuple(guess))


def hamming(truth: Sequence[int], guess: Sequence[int]) -> float:
    """Share of places with another token.

    Raises:
        ValueError: The lengths differ, or are 0.
    """
    if len(truth) != len(guess) or not truth:
        raise ValueError("a guess must have as many tokens as the field, and one at least")
    return sum(a != b for a, b in zip(truth, guess, strict=True)) / len(truth)


def levenshtein(truth: Sequence[int], guess: Sequence[int]) -> float:
    """Insertions, deletions and substitutions, over the longer length."""
    return float(Levenshtein.normalized_distance(truth, guess))


def jaro_winkler(truth: Sequence[int], guess: Sequence[int]) -> float:
    """1 minus the Jaro-Winkler similarity: prefix scale 0.1, up to 4 tokens, where Jaro's is above 0.7."""
    return float(JaroWinkler.normalized_distance(truth, guess, prefix_weight=0.1))


def distances(truth: Sequence[int], guess: Sequence[int]) -> tuple[float, float, float, float]:
    """The four of NAMES."""
    return perfect(truth, guess), hamming(truth, guess), levenshtein(truth, guess), jaro_winkler(truth, guess)


def improvement_factor(attack: Floats, baseline: Floats, epsilon: float) -> Floats:
    """IpF (equation 6): mean of how many times better the attack is by each of the four; 1 is no better.

    Args:
        attack: float64 (..., 4), means over the fields in the order of NAMES.
        baseline: The same of the baseline.
        epsilon: Above 0; added to everything, so that a baseline of 0 has a ratio.

    Returns:
        float64 (...).
    """
    ratios = (baseline + epsilon) / (attack + epsilon)
    ratios[..., 0] = 1.0 / ratios[..., 0]
    return ratios.mean(axis=-1)


@dataclass(frozen=True, eq=False)
class Order:
    """Fields in the order of their scores, in resamples that draw each so many times.

    Attributes:
        places: int64 (n,), fields from the highest score to the lowest, ties by their place.
        starts: int64 (groups,), where in ``places`` a new score begins.
        weights: float64 (resamples, n), in the order of ``places``.
        counts: float64 (resamples, groups), drawn fields with this score or a higher one.
    """

    places: Integers
    starts: Integers
    weights: Floats
    counts: Floats

    @staticmethod
    def by(scores: Floats, weights: Floats | None = None) -> Order:
        """Sort.

        Args:
            scores: float64 (n,), finite, one field at least.
            weights: How often each field is drawn, whole numbers, float64 (resamples, n); once, if left out. No
                resample may be empty.

        Raises:
            ValueError: There is no field, or a score is not a number.
        """
        if not len(scores) or not np.isfinite(scores).all():
            raise ValueError("scores must be finite numbers, one at least")
        places = np.argsort(-scores, kind="stable")
        ordered = scores[places]
        starts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
        drawn = np.ones((1, len(scores))) if weights is None else weights[:, places]
        return Order(places, starts, drawn, np.cumsum(np.add.reduceat(drawn, starts, axis=1), axis=1))

    def at(self, values: Floats, shares: Sequence[float]) -> Floats:
        """Mean value of the first ``ceil(share * M)`` fields (equations 7 and 9), float64 (resamples, shares).

        Args:
            values: float64 (n,), by field.
            shares: Above 0, at most 1.
        """
        before, sums, means = self._sums(values)
        first = np.maximum(np.ceil(self.counts[:, -1:] * np.asarray(shares) - 1e-9), 1.0)
        group = np.stack([(self.counts < column[:, None]).sum(axis=1) for column in first.T], axis=1)
        row = np.arange(len(first))[:, None]
        return (sums[row, group] + (first - before[row, group]) * means[row, group]) / first

    def area(self, values: Floats) -> Floats:
        """Exact integral of ``at`` over all shares (equations 8 and 10), float64 (resamples,).

        In a group of c equal scores after C others with sum S, At is m + (S - m C) / (C + t) at its t-th field,
        with m the group's mean; the sum over t needs harmonic numbers alone.
        """
        before, sums, means = self._sums(values)
        harmonic = np.append(0.0, np.cumsum(1.0 / np.arange(1, int(self.counts.max()) + 1)))
        after = self.counts
        slots = harmonic[after.astype(np.int64)] - harmonic[before.astype(np.int64)]
        total = (means * (after - before) + (sums - means * before) * slots).sum(axis=1)
        return total / after[:, -1]

    def steps(self, values: Floats) -> tuple[Floats, Floats]:
        """The curve of the first resample: shares i / M, and ``at`` of each, float64 (M,)."""
        before, sums, means = (part[0] for part in self._sums(values))
        first = np.arange(1.0, self.counts[0, -1] + 1)
        group = np.searchsorted(self.counts[0], first)
        return first / first[-1], (sums[group] + (first - before[group]) * means[group]) / first

    def _sums(self, values: Floats) -> tuple[Floats, Floats, Floats]:
        """By group: drawn fields before it, their sum, and the group's mean (0 where none is drawn)."""
        own = np.add.reduceat(self.weights * values[self.places], self.starts, axis=1)
        size = np.diff(self.counts, axis=1, prepend=0.0)
        means = np.divide(own, size, out=np.zeros_like(own), where=size > 0)
        return self.counts - size, np.cumsum(own, axis=1) - own, means
