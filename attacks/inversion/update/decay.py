"""Weight decay in a difference of weights, found and taken out.

A step of AdamW moves every weight by a share of itself, also those without a gradient (Loshchilov and Hutter, Decoupled
weight decay regularization, 2019, algorithm 2). In a table some rows of which no page uses, those rows moved by this
share and nothing else, up to the rounding of the weights. What is left after the share is taken out is zero there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

_EXPLAINED = 0.5
"""Share of a row's energy that decay has to explain."""
_FEWEST = 8
"""Rows that moved by the same share, at least; a row of a gradient is along its weights by chance alone."""
_SOME = 20
"""The same as one row in so many."""
_ROUNDED = 4.0
"""Residuals over those of the quietest rows, relative to the weights, up to which a row moved by decay alone."""


@dataclass(frozen=True)
class Decay:
    """An update, and what weight decay had added to it.

    Attributes:
        update: By parameter, with rows of zeros where decay alone had moved a table's row.
        share: Of each weight that decay subtracted in all steps together; 0 where none was found.
    """

    update: dict[str, Tensor]
    share: float


def without_decay(update: Mapping[str, Tensor], weights: Mapping[str, Tensor], tables: tuple[str, ...]) -> Decay:
    """Take weight decay out of an update.

    Args:
        update: By parameter.
        weights: What the update was added to, by parameter.
        tables: Names of tables of which a page does not use all rows, (rows, width) each; the first that is shared
            decides.

    Returns:
        The update itself where no rows of the table moved in proportion to their weights.
    """
    present = [name for name in tables if name in update and name in weights]
    if not present:
        return Decay(dict(update), 0.0)
    found = _share(update[present[0]].double(), weights[present[0]].detach().cpu().double())
    if not found:
        return Decay(dict(update), 0.0)
    left = {
        name: part - (found * weights[name].detach().cpu().double()).to(part.dtype) if name in weights else part
        for name, part in update.items()
    }
    for name in present:
        left[name] = _quiet(left[name], weights[name].detach().cpu())
    return Decay(left, -found)


def _share(moved: Tensor, weights: Tensor) -> float:
    """The factor by which rows that no page uses moved along their weights, or 0."""
    own = weights.square().sum(dim=1)
    used = (own > 0) & moved.any(dim=1)
    moved, weights, own = moved[used], weights[used], own[used]
    if len(own) < _FEWEST:
        return 0.0
    factors = (moved * weights).sum(dim=1) / own
    left = (moved - factors[:, None] * weights).square().sum(dim=1) / moved.square().sum(dim=1)
    along = left < _EXPLAINED
    if int(along.sum()) < _FEWEST:
        return 0.0
    middle = factors[along].median()
    near = along & ((factors - middle).abs() <= (factors[along] - middle).abs().median())
    factor = float((moved * weights)[near].sum() / own[near].sum())
    alone = (moved - factor * weights).square().sum(dim=1) < _EXPLAINED * moved.square().sum(dim=1)
    return factor if int(alone.sum()) >= max(_FEWEST, len(alone) // _SOME) else 0.0


def _quiet(left: Tensor, weights: Tensor) -> Tensor:
    """A table with the rows set to zero that hold no more than rounding of the weights."""
    relative = left.norm(dim=1) / weights.norm(dim=1).clamp_min(1e-30)
    least = relative.quantile(1 / (2 * _SOME))
    return torch.where((relative > _ROUNDED * least)[:, None], left, torch.zeros_like(left))
