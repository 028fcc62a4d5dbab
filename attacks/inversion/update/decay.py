"""Weight decay in a difference of weights, found and taken out.

A step of AdamW moves every weight by a share of itself, also those without a gradient (Loshchilov and Hutter, Decoupled
weight decay regularization, 2019, algorithm 2). In a table most rows of which no page uses, those rows moved by this
share and nothing else, up to the rounding of the weights. What is left after the share is taken out is zero there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

_EXPLAINED = 0.5
"""Share of a row's energy that decay has to explain in most rows."""
_ROUNDED = 4.0
"""Residuals over that of the row in the middle, relative to the weights, up to which a row moved by decay alone."""


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
        tables: Names of tables of which a page uses few rows, (rows, width) each; the first that is shared decides.

    Returns:
        The update itself where most rows of the table did not move in proportion to their weights.
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
    """The factor by which most rows moved along their weights, or 0."""
    own = weights.square().sum(dim=1)
    used = (own > 0) & moved.any(dim=1)
    if 2 * int(used.sum()) < len(moved):
        return 0.0
    moved, weights, own = moved[used], weights[used], own[used]
    factors = (moved * weights).sum(dim=1) / own
    middle = float(factors.median())
    near = factors.sub(middle).abs() <= factors.sub(middle).abs().median()
    factor = float((moved * weights)[near].sum() / own[near].sum())
    left = (moved - factor * weights).square().sum(dim=1) / moved.square().sum(dim=1)
    return factor if float(left.median()) < _EXPLAINED else 0.0


def _quiet(left: Tensor, weights: Tensor) -> Tensor:
    """A table with the rows set to zero that hold no more than rounding of the weights."""
    relative = left.norm(dim=1) / weights.norm(dim=1).clamp_min(1e-30)
    return torch.where((relative > _ROUNDED * relative.median())[:, None], left, torch.zeros_like(left))
