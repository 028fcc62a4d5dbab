"""Slow reference of gradient descent on one document: softmax regression with its gradient written out."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]


def loss_and_gradient(weights: Matrix, inputs: Matrix, labels: list[int]) -> tuple[float, Matrix]:
    """Mean cross-entropy of softmax regression, and its gradient, element by element."""
    total, gradient = 0.0, np.zeros_like(weights)
    for one, label in zip(inputs, labels, strict=True):
        scores = [sum(one[i] * weights[i, k] for i in range(len(one))) for k in range(weights.shape[1])]
        top = max(scores)
        norm = sum(math.exp(score - top) for score in scores)
        shares = [math.exp(score - top) / norm for score in scores]
        total -= math.log(shares[label])
        for i in range(len(one)):
            for k in range(weights.shape[1]):
                gradient[i, k] += one[i] * (shares[k] - (k == label))
    return total / len(labels), gradient / len(labels)


def travel(
    weights: Matrix, inputs: Matrix, labels: list[int], rate: float, most: int, tolerance: float
) -> tuple[float, int, float, float]:
    """Distance, steps, loss before and loss after."""
    now = weights.copy()
    before, gradient = loss_and_gradient(now, inputs, labels)
    last, steps = before, 0
    while steps < most:
        now = now - rate * gradient
        after, gradient = loss_and_gradient(now, inputs, labels)
        steps += 1
        fall, last = last - after, after
        if fall < tolerance:
            break
    return math.sqrt(((now - weights) ** 2).sum()), steps, before, last
