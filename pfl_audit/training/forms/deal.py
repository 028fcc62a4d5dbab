"""Which windows make a step: dealt out anew every epoch, windows of a length together."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

_POOL = 4
"""Batches that are sorted by length together: padding is saved, and who stands beside whom still changes."""


def deal(lengths: Sequence[int], batch_size: int, seed: int, epoch: int) -> list[list[int]]:
    """The batches of an epoch, each index once; they follow from the arguments alone.

    Args:
        lengths: Tokens of each window.
        batch_size: Windows a batch; the last may have fewer.
        seed: Seed of the order.
        epoch: Counted from 0.
    """
    rng = np.random.default_rng([seed, epoch])
    tokens = np.asarray(lengths)
    shuffled = rng.permutation(len(tokens))
    pools = [shuffled[at : at + _POOL * batch_size] for at in range(0, len(tokens), _POOL * batch_size)]
    ordered = np.concatenate([pool[np.argsort(tokens[pool], kind="stable")] for pool in pools])
    batches = [ordered[at : at + batch_size].tolist() for at in range(0, len(tokens), batch_size)]
    return [batches[number] for number in rng.permutation(len(batches))]
