"""CDMI's arithmetic by its definitions, one number at a time.

Source: cdmi-reconstruction, section 4.2, section 5, appendix B.
"""

import math
from collections.abc import Sequence
from fractions import Fraction


def softmax(values: Sequence[float], temperature: float) -> list[float]:
    powers = [math.exp(value / temperature) for value in values]
    return [power / sum(powers) for power in powers]


def loss_likelihood(losses: Sequence[float], temperature: float) -> list[float]:
    ordered = sorted(losses)
    middle = len(ordered) // 2
    median = ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2
    return softmax([2 - loss / median for loss in losses], temperature)


def mean(target: Sequence[float], public: Sequence[float], weight: float, kind: str) -> list[float]:
    pairs = list(zip(target, public, strict=True))
    if kind == "geometric":
        joined = [a**weight * b ** (1 - weight) for a, b in pairs]
    else:
        joined = [weight * a + (1 - weight) * b for a, b in pairs]
    return [value / sum(joined) for value in joined]


def nucleus(likelihoods: Sequence[float], mass: float) -> list[int]:
    kept: list[int] = []
    for place in sorted(range(len(likelihoods)), key=lambda at: (-likelihoods[at], at)):
        kept.append(place)
        if sum(likelihoods[at] for at in kept) >= mass - 1e-12:
            break
    return kept


def levenshtein(a: Sequence[int], b: Sequence[int]) -> float:
    if not a or not b:
        return len(a) + len(b)
    return min(
        levenshtein(a[1:], b) + 1, levenshtein(a, b[1:]) + 1, levenshtein(a[1:], b[1:]) + (0 if a[0] == b[0] else 1)
    )


def jaro_winkler_distance(a: Sequence[int], b: Sequence[int]) -> float:
    """Jaro 1989 with Winkler's prefix (0.1 a token, four at most, above 0.7)."""
    reach = max(0, max(len(a), len(b)) // 2 - 1)
    taken: set[int] = set()
    matched_a: list[int] = []
    for at, token in enumerate(a):
        for other in range(max(0, at - reach), min(len(b), at + reach + 1)):
            if other not in taken and b[other] == token:
                taken.add(other)
                matched_a.append(token)
                break
    if not matched_a:
        return 1.0
    matched_b = [b[at] for at in sorted(taken)]
    swaps = sum(x != y for x, y in zip(matched_a, matched_b, strict=True)) // 2
    count = len(matched_a)
    similarity = (count / len(a) + count / len(b) + (count - swaps) / count) / 3
    if similarity > 0.7:
        prefix = 0
        for x, y in zip(a[:4], b[:4], strict=False):
            if x != y:
                break
            prefix += 1
        similarity += 0.1 * prefix * (1 - similarity)
    return 1 - similarity


def at(values: Sequence[float], scores: Sequence[float], first: int) -> Fraction:
    """Mean value of the first fields; of a group of equal scores that is cut, its mean as often as needed."""
    total = Fraction(0)
    left = first
    for score in sorted(set(scores), reverse=True):
        group = [Fraction(value) for value, own in zip(values, scores, strict=True) if own == score]
        taken = min(left, len(group))
        total += taken * sum(group) / len(group)
        left -= taken
    return total / first


def area(values: Sequence[float], scores: Sequence[float]) -> float:
    """Integral of At(p): on ((i - 1) / M, i / M] it is that of the first i."""
    size = len(values)
    return float(sum(Fraction(1, size) * at(values, scores, first) for first in range(1, size + 1)))


def best_first(fillings: Sequence[tuple[tuple[int, ...], float]], count: int) -> list[tuple[tuple[int, ...], float]]:
    """The likeliest of all fillings, each with its likelihood."""
    return sorted(fillings, key=lambda filling: -filling[1])[:count]
