"""Which token is in which box, where the sums of their signals say so.

Take tokens and boxes that stand in one another and in no others: the sums of their signals are equal. Signals of
different positions are independent, so that equal sums are no chance, and every relation between the sums is of such a
group or of several. Within a group the form says more: its words and their boxes are known, and a private box is in the
group because some token is in it. What is left open is a candidate.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from pfl_audit.attacks.inversion.input_span.sums import Sums
from pfl_audit.metrics.arrays import Bools, Floats, Integers

_ALIKE: Final = 0.5
"""Cosine of two sums' parts in all relations from which on they are in one group."""
_RELATION: Final = 2.0
"""Times the singular value that errors have, up to which a combination of sums is a relation."""
_PART: Final = 1e-12
"""Squared part in the relations below which a sum is in none."""


@dataclass(frozen=True, eq=False)
class Paired:
    """Pairs of tokens and boxes.

    Attributes:
        certain: bool (n, m), pairs that are on a page.
        possible: bool (n, m), those that may be, the certain ones among them.
    """

    certain: Bools
    possible: Bools


def pair(
    allowed: Bools, form: Mapping[int, frozenset[int]], sums: tuple[Sums, Sums] | None, *, complete: bool
) -> Paired:
    """Find the pairs.

    Args:
        allowed: bool (n, m), pairs that the span allows.
        form: Number of a box of the form to the numbers of the tokens in it, which are all.
        sums: Of tokens and of boxes; None where they are not known.
        complete: Whether no pair that is on a page is missing in ``allowed``, and no box: only then does it prove
            something that no other token or box is left.
    """
    possible, certain = allowed.copy(), np.zeros_like(allowed)
    for box, tokens in form.items():
        inside = np.isin(np.arange(len(allowed)), list(tokens))
        possible[:, box] &= inside
        certain[:, box] |= inside & allowed[:, box]
    if sums is not None:
        _by_sums(possible, certain, form, *sums)
    while complete and _by_exclusion(possible, certain, form):
        pass
    return Paired(certain, possible | certain)


def _by_exclusion(possible: Bools, certain: Bools, form: Mapping[int, frozenset[int]]) -> bool:
    """Boxes that one token is left for, and tokens that one box is left for; whether there was a new one."""
    before = int(certain.sum())
    alone = possible.sum(axis=0) == 1
    certain[:, alone] |= possible[:, alone]
    placed = certain.any(axis=1)
    alone = (possible.sum(axis=1) == 1) & ~placed
    certain[alone] |= possible[alone]
    return int(certain.sum()) > before


def _by_sums(possible: Bools, certain: Bools, form: Mapping[int, frozenset[int]], tokens: Sums, boxes: Sums) -> None:
    """Mark pairs of groups with equal sums, and rule out those of a group's tokens or boxes with others."""
    count, open_boxes = len(possible), boxes.known.copy()
    for box, inside in form.items():
        if len(inside) == 1 and boxes.known[box]:
            tokens = tokens.less(next(iter(inside)), boxes.values[box], float(boxes.errors[box]))
            open_boxes[box] = False
    unknown = ~np.isin(np.arange(possible.shape[1]), list(form))
    quiet = tokens.nothing & certain.any(axis=1)
    possible[np.ix_(quiet, unknown)] = False
    open_tokens = ~tokens.nothing
    open_boxes &= ~boxes.nothing
    numbers = np.concatenate([np.flatnonzero(open_tokens), count + np.flatnonzero(open_boxes)])
    values = np.concatenate([tokens.values[open_tokens], -boxes.values[open_boxes]])
    errors = np.concatenate([tokens.errors[open_tokens], boxes.errors[open_boxes]])
    for group in _groups(values, errors):
        own = np.isin(np.arange(count), numbers[group])
        within = np.isin(np.arange(possible.shape[1]), numbers[group] - count)
        if not own.any() or not within.any():
            continue
        possible[np.ix_(own, ~within & unknown)] = False
        possible[np.ix_(~own, within)] = False
        _within(possible, certain, form, own, within & unknown)


def _within(possible: Bools, certain: Bools, form: Mapping[int, frozenset[int]], inside: Bools, unknown: Bools) -> None:
    """Pairs of a group with one private box: what nothing of the form holds to the group is in that box."""
    if unknown.sum() != 1:
        return
    box, members = int(np.flatnonzero(unknown)[0]), np.flatnonzero(inside)
    edges = [
        (token, len(inside) + at)
        for at, tokens in form.items()
        for token in tokens
        if inside[token] and len(tokens) > 1
    ]
    rows, columns = zip(*edges, strict=True) if edges else ((), ())
    size = len(inside) + possible.shape[1]
    graph = coo_matrix((np.ones(len(edges)), (rows, columns)), shape=(size, size))
    labels = connected_components(graph, directed=False)[1]
    for token in members:
        if (labels[members] == labels[token]).sum() == 1 and possible[token, box]:
            certain[token, box] = True


def _groups(values: Floats, errors: Floats) -> list[Integers]:
    """Groups of sums that add up to nothing, and no part of them does.

    Args:
        values: float64 (k, dimensions), of boxes with the other sign.
        errors: float64 (k,).
    """
    many, dimensions = values.shape
    if not 0 < many < dimensions:
        return []
    directions, strengths, _ = np.linalg.svd(values / errors[:, None], full_matrices=True)
    least = _RELATION * (np.sqrt(many) + np.sqrt(dimensions))
    relations = directions[:, strengths < least] * 1.0
    parts = relations @ relations.T
    own = np.diag(parts)
    taken = own > _PART
    alike = np.abs(parts) > _ALIKE * np.sqrt(np.outer(own, own))
    labels = connected_components(alike & np.outer(taken, taken), directed=False)[1]
    found = []
    for label in np.unique(labels[taken]):
        group = np.flatnonzero((labels == label) & taken)
        left = np.linalg.norm(values[group].sum(axis=0))
        if len(group) > 1 and left <= _RELATION * np.linalg.norm(errors[group]) * np.sqrt(dimensions):
            found.append(group)
    return found
