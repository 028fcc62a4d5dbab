"""Known participation of clients without sampling of providers: a binomial number of plain Gaussian rounds."""

from math import comb, erfc, exp, sqrt


def delta(epsilon: float, client_rate: float, rounds: int, noise: float) -> float:
    """Smallest delta at ``epsilon``: the mean over the number of active rounds."""
    total = 0.0
    for active in range(rounds + 1):
        chance = comb(rounds, active) * client_rate**active * (1 - client_rate) ** (rounds - active)
        total += chance * _gaussian(epsilon, sqrt(active) / noise)
    return total


def epsilon(target: float, client_rate: float, rounds: int, noise: float) -> float:
    """Smallest epsilon at delta ``target``, by bisection."""
    low, high = 0.0, 1.0
    while delta(high, client_rate, rounds, noise) > target:
        high *= 2
    if delta(low, client_rate, rounds, noise) <= target:
        return 0.0
    for _ in range(60):
        middle = (low + high) / 2
        if delta(middle, client_rate, rounds, noise) > target:
            low = middle
        else:
            high = middle
    return high


def _gaussian(epsilon: float, shift: float) -> float:
    """Delta of N(shift, 1) against N(0, 1) (Balle and Wang 2018, theorem 8)."""
    if shift == 0:
        return max(0.0, 1 - exp(epsilon))
    return _normal(shift / 2 - epsilon / shift) - exp(epsilon) * _normal(-shift / 2 - epsilon / shift)


def _normal(z: float) -> float:
    return erfc(-z / sqrt(2)) / 2
