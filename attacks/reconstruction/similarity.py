"""Distances between a reconstruction and the ground truth, on token ids.

Source: cdmi-reconstruction, section 5.2 and equation 6.
"""

from __future__ import annotations

from collections.abc import Sequence

from rapidfuzz.distance import JaroWinkler, Levenshtein

from pfl_audit.metrics.arrays import Floats

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
    mean: Floats = ratios.mean(axis=-1)
    return mean
