"""Which examples make a step: a new order every epoch, examples of similar lengths together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

_POOL = 32


class BatchOrder:
    """The batches of a training without end; every batch follows from the arguments and its step alone.

    Args:
        lengths: Number of tokens of each example.
        batch_size: Examples in a batch; the last of an epoch may have fewer.
        seed: Seed of the order.
        pool: Batches that are sorted by length together. A larger pool saves padding, a smaller one mixes more.

    Attributes:
        epoch_steps: Batches in an epoch.
    """

    def __init__(self, lengths: Sequence[int], batch_size: int, seed: int, pool: int = _POOL) -> None:
        self._lengths: NDArray[np.int64] = np.array(lengths)
        self._size, self._seed, self._pool = batch_size, seed, pool * batch_size
        self.epoch_steps = -(-len(lengths) // batch_size)
        self._epoch, self._batches = -1, list[list[int]]()

    def __call__(self, step: int) -> list[int]:
        """Row numbers of the batch of a step, counted from 0."""
        epoch, place = divmod(step, self.epoch_steps)
        if epoch != self._epoch:
            self._epoch, self._batches = epoch, self._draw(epoch)
        return self._batches[place]

    def _draw(self, epoch: int) -> list[list[int]]:
        rng, count = np.random.default_rng([self._seed, epoch]), len(self._lengths)
        shuffled = rng.permutation(count)
        pools = [shuffled[at : at + self._pool] for at in range(0, count, self._pool)]
        ordered = np.concatenate([pool[np.argsort(self._lengths[pool], kind="stable")] for pool in pools])
        batches = [ordered[at : at + self._size].tolist() for at in range(0, count, self._size)]
        return [batches[number] for number in rng.permutation(len(batches))]


def local_batches(
    rows: Sequence[int], length: Callable[[int], int], size: int, epochs: int, most: int | None, seed: int
) -> Iterator[list[int]]:
    """The batches of a local training: every row once in an epoch, shuffled, similar lengths together.

    Args:
        rows: Row numbers of the examples.
        length: Maps a row to its number of tokens.
        size: Examples in a batch.
        epochs: Passes over the rows.
        most: Largest number of batches, or None.
        seed: Seed of the order.
    """
    rng, steps = np.random.default_rng(seed), 0
    for _ in range(epochs):
        shuffled = [rows[at] for at in rng.permutation(len(rows))]
        by_length = sorted(shuffled, key=length)
        batches = [by_length[at : at + size] for at in range(0, len(rows), size)]
        for at in rng.permutation(len(batches)):
            if steps == most:
                return
            steps += 1
            yield batches[at]
