"""Boxes of all tokens, from the gradients of the coordinate tables.

Each position adds its signal to the x table twice, for the left and for the right edge, and to the y table
likewise; in LayoutLMv3 these are two slices of the signal, so the edges tell themselves apart, and in LayoutLM the
whole signal both times, where the smaller coordinate is the left one. Tokens of a word share its box, so their
signals are one unknown. The tokenizer knows which tokens continue a word; and for the y table, which is the
harder one since the words of a line share it, neighbours with the same left and right edges are of one word.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from torch import Tensor

from pfl_audit.attacks.inversion.analytic.assignment import assign
from pfl_audit.attacks.inversion.analytic.noise import Noise
from pfl_audit.attacks.inversion.analytic.signals import sums_of
from pfl_audit.attacks.inversion.analytic.tables import Tables
from pfl_audit.metrics.arrays import Bools, Floats, Integers
from pfl_audit.models.word_encoder import EmbeddingLayout


@dataclass(frozen=True)
class Boxes:
    """Boxes of positions.

    Attributes:
        values: int64 (positions, 4): left, top, right, bottom; -1 where unknown.
        sure: bool (positions,), whether no other reading comes near.
        complete: Whether the x and y tables are explained to within the noise.
    """

    values: Integers
    sure: Bools
    complete: bool


@dataclass(frozen=True)
class _Edges:
    """Two opposite edges of every position: values (positions, 2), and as in Boxes."""

    values: Integers
    sure: Bools
    residual: float
    complete: bool


def read_boxes(
    tables: Tables, signals: Floats, hidden: Floats, layout: EmbeddingLayout, noise: Noise, joined: Bools | None = None
) -> Boxes:
    """Solve for the boxes of all positions.

    Args:
        tables: Without an x or a y table those edges stay unknown.
        signals: float64 (n, width).
        hidden: float64 (0 or 1, width), the sum of the signals of padding tokens that have no positions of their
            own. They share a box.
        joined: bool (n,), whether a position is known to belong to the same word as the one before.

    Returns:
        Boxes of the n positions.
    """
    count, mass = len(signals), float(np.linalg.norm(signals, axis=1).sum())
    signals = np.vstack([signals, hidden])
    variances = np.full(len(signals), noise.sigma**2)
    variances[count:] = noise.variance(count + 2, mass, signals.shape[1])
    apart = np.zeros(len(signals), dtype=bool)
    told = apart.copy()
    told[1:count] = False if joined is None else joined[1:]

    def edges(name: str, *views: Bools) -> _Edges:
        """Solve a table with one view of the words after another, as long as it is not explained."""
        tried: list[_Edges] = []
        for view in views:
            words = np.cumsum(~view) - 1
            tried.append(_edges(tables.edge(name), layout.slices[name], signals, variances, words, noise))
            if tried[-1].complete:
                break
        return min(tried, key=lambda each: (not each.complete, each.residual))

    across = edges("x", told, apart) if told.any() else edges("x", apart)
    same = told | _same(across)
    along = edges("y", same, apart) if same.any() else edges("y", apart)
    values = np.stack([across.values, along.values], axis=2).reshape(-1, 4)
    return Boxes(values[:count], (across.sure & along.sure)[:count], across.complete and along.complete)


def _edges(
    table: Tensor | None,
    parts: tuple[slice[int, int, int], ...],
    signals: Floats,
    variances: Floats,
    words: Integers,
    noise: Noise,
) -> _Edges:
    """Solve one table; ``words`` numbers the positions' words, the signals of which are taken together."""
    if table is None:
        unknown = np.full((len(words), 2), -1)
        return _Edges(unknown, np.zeros(len(words), dtype=bool), 1.0, complete=False)
    merged = np.zeros((words[-1] + 1, signals.shape[1]))
    spread: Floats = np.bincount(words, variances).astype(np.float64)
    np.add.at(merged, words, signals)
    alike = parts[0] == parts[1]
    atoms = merged[:, parts[0]] if alike else np.vstack([merged[:, part] for part in parts])
    sums = sums_of(table, atoms, noise)
    found = assign(sums.values, atoms, 1 + alike, noise, variances=spread if alike else np.tile(spread, 2))
    rows = np.where(found.rows >= 0, sums.rows[found.rows], -1) if len(sums.rows) else np.full_like(found.rows, -1)
    if alike:
        rows[(rows < 0).any(axis=1)] = -1
    else:
        rows = rows.reshape(2, -1).T
    sure: Bools = np.all(found.sure.reshape(2 - alike, -1), axis=0)
    return _Edges(rows[words], sure[words], found.residual, found.complete)


def _same(across: _Edges) -> Bools:
    """Positions with the same known left and right edges as the one before: they are of one word."""
    known = across.sure & (across.values >= 0).all(axis=1)
    same = np.zeros(len(known), dtype=bool)
    same[1:] = known[1:] & known[:-1] & (across.values[1:] == across.values[:-1]).all(axis=1)
    return same
