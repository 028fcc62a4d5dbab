"""Slow versions of the bounds from canaries."""

import math

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.stats import norm


def p_value(m: int, r: int, v: int, epsilon: float, delta: float) -> float:
    """Steinke, Nasr and Jagielski 2023, theorem 5.2, term by term."""
    q = math.exp(epsilon) / (1 + math.exp(epsilon))
    mass = [math.comb(r, k) * q**k * (1 - q) ** (r - k) for k in range(r + 1)]
    beta = sum(mass[v:])
    alpha = max((2 / i * sum(mass[k] for k in range(max(v - i, 0), v)) for i in range(1, m + 1)), default=0.0)
    return min(1.0, beta + alpha * m * delta)


def largest_probability(m: int, r: int, v: int, mu: float) -> float:
    """Largest probability of v correct guesses of r under a Gaussian curve, as a linear program over all distributions.

    For all i: E[N; N >= i] / m <= F(E[r - N; N >= i - 1] / m), with F as the lower envelope of its tangents.
    """
    points = norm.cdf(np.linspace(-9, 9, 3000))
    heights = norm.cdf(norm.ppf(points) + mu)
    slopes = np.exp(-mu * norm.ppf(points) - mu**2 / 2)
    numbers = np.arange(r + 1)
    rows: list[NDArray[np.float64]] = []
    limits: list[NDArray[np.float64]] = []
    for i in range(1, r + 1):
        right = np.where(numbers >= i, numbers, 0) / m
        wrong = np.where(numbers >= i - 1, r - numbers, 0) / m
        rows.append(right - slopes[:, None] * wrong)
        limits.append(heights - slopes * points)
    found = linprog(
        -(numbers >= v).astype(float), np.concatenate(rows), np.concatenate(limits), np.ones((1, r + 1)), [1.0]
    )
    return float(-found.fun)
