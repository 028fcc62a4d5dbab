"""Gradients and their inversion, slowly: the client as anyone would write it, sums one by one, every subset tried."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


def client_gradient(network: Any, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """What a client shares: the gradient of its training loss, by parameter names."""
    network.zero_grad()
    network(**inputs).loss.backward()
    return {name: each.grad.clone() for name, each in network.named_parameters() if each.grad is not None}


def added_up(rows: Sequence[int], signals: NDArray[np.float64], height: int) -> NDArray[np.float64]:
    """A table's gradient: every signal added to the row that was looked up."""
    table = np.zeros((height, signals.shape[1]))
    for row, signal in zip(rows, signals, strict=True):
        for column, value in enumerate(signal):
            table[row, column] += value
    return table


def subsets(total: NDArray[np.float64], signals: NDArray[np.float64], off: float) -> Iterator[tuple[int, ...]]:
    """Every set of signals that adds up to a total."""
    for size in range(1, len(signals) + 1):
        for chosen in combinations(range(len(signals)), size):
            if np.abs(signals[list(chosen)].sum(axis=0) - total).max() < off:
                yield chosen


def projection_gradient(signals: Tensor, patches: Tensor) -> Tensor:
    """sum_p s_p x_p^T, one patch at a time, (width, pixels)."""
    total = torch.zeros(signals.shape[1], patches.shape[1], dtype=torch.float64)
    for signal, patch in zip(signals, patches, strict=True):
        total += torch.outer(signal.double(), patch.double())
    return total


def sparse_bayes(mixing: NDArray[np.float64], measured: NDArray[np.float64], noise: float, largest: float,
                 steps: int) -> NDArray[np.float64]:  # fmt: skip
    """Posterior mean of M-SBL, as equations 7 and 20 of Wipf and Rao have it: no row is ever left out."""
    count = mixing.shape[1]
    variance = np.full(count, largest)
    for step in range(steps + 1):
        total = noise**2 * np.eye(len(mixing)) + (mixing * variance) @ mixing.T
        gain = (mixing * variance).T @ np.linalg.inv(total)
        mean = gain @ measured
        if step == steps:
            return mean
        for row in range(count):
            known = max(gain[row] @ mixing[:, row], 1e-12)  # 1 less the posterior variance over the prior's
            variance[row] = min(max(np.mean(mean[row] ** 2) / known, 1e-12), largest)
    raise AssertionError
