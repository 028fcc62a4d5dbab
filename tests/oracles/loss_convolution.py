"""Composition of sampling without replacement by direct convolution of its privacy loss on a fine grid."""

import numpy as np


def fixed_size_delta(rate: float, noise: float, rounds: int, epsilon: float, step: float = 1e-3) -> float:
    """Delta at ``epsilon`` of replacing a provider, whose update changes by two clipping norms."""
    noise = noise / 2
    outputs = np.linspace(-12 * noise, 1 + 14 * noise, 200_001)
    base = np.exp(-(outputs**2) / 2 / noise**2) / np.sqrt(2 * np.pi) / noise * (outputs[1] - outputs[0])
    loss = np.log(1 - rate + rate * np.exp((2 * outputs - 1) / 2 / noise**2))
    up = loss > 0
    losses = np.concatenate([loss[up], -loss[up], [0.0]])
    masses = np.concatenate([(base * np.exp(loss))[up], base[up], [0.0]])
    masses[-1] = 1 - masses.sum()
    index = np.rint(losses / step).astype(int)
    one = np.bincount(index - index.min(), masses)
    composed = one
    for _ in range(rounds - 1):
        composed = np.convolve(composed, one)
    points = step * (rounds * index.min() + np.arange(len(composed)))
    return float((composed * np.clip(1 - np.exp(epsilon - points), 0, None)).sum())
