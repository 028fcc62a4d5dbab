"""Whether an update was rounded, quantised or made sparse, or holds signs alone, by its numbers.

The gradient of a matrix of an attention or of a feed-forward layer has no zeros, and hardly two numbers that are equal.
Fewer different numbers than that were made by whoever sent it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from torch import Tensor

from pfl_audit.attacks.inversion.update.multiples import SIZES, levels_of_steps

_HALVES: Final = ((torch.bfloat16, "bfloat16"), (torch.float16, "float16"))
_ADAPTER: Final = ".lora_"
"""In the names of low-rank adapters, whose matrices have few rows or columns."""
_LEAST_SIDE = 16
"""Rows and columns of the matrices that are looked at, adapters aside."""
_MOST = 1 << 18
"""Entries of a matrix that are looked at."""
_SIZES = 100_000
"""Of the entries, whose sizes are looked at: up to twice as many."""
_SPARSE = 0.25
"""Share of zeros from which on entries were left out."""
_TIES = 0.25
"""Share of numbers that repeat others from which on a matrix was quantised."""
_ALIKE = 0.8
"""Ratio of the 10 % to the 90 % quantile of sizes from which on all sizes are one."""


@dataclass(frozen=True)
class Traits:
    """What was done to an update before it was sent.

    Attributes:
        rounded: Half precision that all its numbers fit in, or None.
        levels: Number of different values in a row of a matrix, if small; for whole multiples of a step, the number of
            values that the row may have. None otherwise.
        kept: Share of the entries of matrices that are not zero; 1 where none was left out.
        signs: Whether all numbers of matrices are of one size, as after a step of Adam.
    """

    rounded: str | None = None
    levels: int | None = None
    kept: float = 1.0
    signs: bool = False


def traits_of(update: Mapping[str, Tensor], tables: Iterable[str] = ()) -> Traits:
    """Look at the numbers of an update.

    Args:
        update: By parameter.
        tables: Endings of the names of tables whose rows are looked up, which are full of zeros by themselves.
    """
    ends = tuple(tables)
    matrices = {
        name: part.detach().reshape(len(part), -1)
        for name, part in update.items()
        if not name.endswith(ends or ("\0",)) and part.dim() > 1 and part.any()
    }
    dense = [part for part in matrices.values() if min(part.shape) >= _LEAST_SIDE]
    narrow = [
        part
        for name, part in matrices.items()
        if _ADAPTER in name and min(part.shape) < _LEAST_SIDE <= max(part.shape) and part.shape[1] >= SIZES
    ]
    if not dense:
        dense, narrow = narrow, []
    if not dense:
        return Traits(rounded=_rounded(update.values()))
    kept = sum(int(part.count_nonzero()) for part in dense) / sum(part.numel() for part in dense)
    samples = [_some_rows(part) for part in dense]
    low, high = np.quantile(_some_sizes(samples).cpu().numpy(), (0.1, 0.9))  # torch sorts them, five times as long
    signs = bool(low > _ALIKE * high) and kept > 1 - _SPARSE
    rounded = _rounded([*dense, *narrow])
    samples += [_some_rows(part) for part in narrow]
    return Traits(
        rounded=None if signs else rounded,
        levels=None if signs or rounded else _levels(samples) or levels_of_steps(samples),
        kept=kept if kept < 1 - _SPARSE else 1.0,
        signs=signs,
    )


def _some_rows(part: Tensor) -> Tensor:
    """First rows of a matrix that is not zero, float32; where they are zero, the first that are not."""
    count = max(1, _MOST // part.shape[1])
    rows = part[:count]
    return (rows if rows.any() else part[part.any(dim=1)][:count]).float()


def _some_sizes(parts: list[Tensor]) -> Tensor:
    """Sizes of numbers that are not zero, over the largest of their matrix, float32 (n,): some of them, evenly."""
    spoken = [part[part != 0] if part.count_nonzero() < part.numel() else part.flatten() for part in parts]
    step, found, begin = max(1, sum(map(len, spoken)) // _SIZES), [], 0
    for numbers in filter(len, spoken):
        low, high = torch.aminmax(numbers)
        found.append(numbers[-begin % step :: step].abs() / torch.maximum(-low, high))
        begin += len(numbers)
    return torch.cat(found)


def _rounded(parts: Iterable[Tensor]) -> str | None:
    held = list(parts)
    if not held:
        return None
    return next((name for kind, name in _HALVES if all(torch.equal(_through(part, kind), part) for part in held)), None)


def _through(part: Tensor, kind: torch.dtype) -> Tensor:
    return part.to(kind).to(part.dtype)


def _levels(parts: list[Tensor]) -> int | None:
    """Different numbers in a row, where in most matrices many are equal: in a row, or in all of it if rows are sparse.

    A difference of weights has equal numbers in a matrix too, whole multiples of the weights' rounding.
    """
    tied, most = 0, 0
    for count, part in enumerate(parts):
        if 2 * (tied + len(parts) - count) <= len(parts):  # whatever the rest is
            return None
        rows = part[part.any(dim=1)]
        ordered = np.sort(rows.cpu().numpy(), axis=1)  # torch sorts their places too, and takes many times as long
        steps = torch.from_numpy((ordered[:, 1:] != ordered[:, :-1]).sum(axis=1) + 1)
        zeros = (rows == 0).sum(dim=1)
        different = float(((steps - (zeros > 0).int()) / (rows.shape[1] - zeros)).median())
        if int((rows.shape[1] - zeros).median()) < _LEAST_SIDE:
            spoken = rows[rows != 0]
            different = len(np.unique(spoken.numpy())) / len(spoken)
        tied += different < 1 - _TIES
        most = max(most, int(steps.max()))
    return most if 2 * tied > len(parts) else None
