"""What the form and the prompt give away: a recovery, held against other fillings of the same form.

Whoever has the form and knows what is asked can guess much of a page. A recovery counts as evidence only as far as it
is nearer to the client's own page than to pages with other values, which are exchangeable with it where nothing came
back. Source: permutation p-values are those of Phipson and Smyth 2010, the joint test that of Westfall and Young 1993.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pfl_audit.attacks.inversion.template.template import Template
from pfl_audit.documents.images import Box

FILLINGS: Final = 999
"""Other fillings that a recovery is held against."""
TOKENS, BOXES = "tokens exact", "boxes exact"
ANY_ORDER, COORDINATES = "tokens in any order", "coordinates in any order"
ALL_BOXES, WORDS = "boxes in any order", "words in place"
PLACES, PAGES = "tokens at positions in boxes", "whole pages"
SAMPLES = "tokens with all before them"

_UNITS = 1000
"""Of boxes, on a page."""

_ROUNDED = 1.0
"""Thousandths by which a box may differ from that of a printed word and is the same."""

Counts = NDArray[np.int64]
"""Right ones and how many there are, int64 (1 + fillings, 2): against the client's own page, then against others."""


def inside(boxes: Tensor, fields: Sequence[Box]) -> Tensor:
    """Which tokens stand in a private field.

    Args:
        boxes: int64 (n, 4), left, top, right, bottom in thousandths of the page.
        fields: Boxes of the fields, as shares of the page.

    Returns:
        bool (n,), by the middle of a token's box; an empty box is nowhere.
    """
    edges = boxes.numpy()  # a page is small, and there are a thousand: each call of torch costs more than its sum
    across, down = ((edges[:, :2] + edges[:, 2:]) / (2 * _UNITS)).T[:, :, None]
    left, top, right, bottom = np.asarray(fields, dtype=np.float64).reshape(-1, 4).T
    found = ((left <= across) & (across <= right) & (top <= down) & (down <= bottom)).any(axis=1)
    return torch.from_numpy(found & (edges[:, 2] > edges[:, 0]) & (edges[:, 3] > edges[:, 1]))


def private_tokens(boxes: Tensor, template: Template) -> Tensor:
    """Which tokens stand in a private field of a form and are not printed there: a form may be filled in already.

    Args:
        boxes: int64 (n, 4), left, top, right, bottom in thousandths of the page.

    Returns:
        bool (n,).
    """
    found = inside(boxes, [field.box for field in template.fields])
    if not len(template.boxes):
        return found
    known = torch.from_numpy(template.boxes * _UNITS).double()
    off = (boxes[:, None].double() - known[None]).abs().amax(dim=2)
    return found & (off > _ROUNDED).all(dim=1)


def in_place(found: Tensor, truth: Tensor, private: Tensor) -> tuple[int, int]:
    """Private tokens that came back in their places, and how many there are.

    Args:
        found: int64 (m,) or (m, k), what came back.
        truth: int64 (n,) or (n, k), what is there.
        private: bool (n,).
    """
    count, mask = min(len(found), len(truth)), private.numpy()
    same = found[:count].numpy() == truth[:count].numpy()
    same = same.all(axis=1) if same.ndim > 1 else same
    return int(np.count_nonzero(same & mask[:count])), int(np.count_nonzero(mask))


def in_any_order(present: set[int], private: set[int], public: set[int]) -> tuple[int, int]:
    """Private tokens among those that came back, and the larger of how many there are and how many were named.

    Their ratio is the lower of precision and recall, so that naming every token is worth nothing.

    Args:
        present: Tokens that came back, wherever they stand.
        private: Tokens of the private fields.
        public: Tokens of the form and of the prompt, which do not count.
    """
    wanted, named = private - public, present - public
    return len(wanted & named), max(len(wanted), len(named))


def counts_in_place(
    pages: Sequence[Sequence[tuple[tuple[Tensor, ...], Tensor]]], found: Mapping[str, Tensor], present: Tensor
) -> dict[str, Counts]:
    """Private values in their places, and private tokens in any order: of the own page, and of other fillings.

    Args:
        pages: Samples of each filling, the own one first: values at positions, tokens first, and which are private.
        found: Measure to what came back at positions, in the order of the values.
        present: int64 (n,), tokens that came back anywhere.
    """
    public = {token for page in pages for (ids, *_), private in page for token in ids[~private].tolist()}
    named = set(present.tolist())
    rows = []
    for page in pages:
        values, private = page[0]
        words = {token for (ids, *_), mask in page for token in ids[mask].tolist()}
        placed = [in_place(got, truth, private) for got, truth in zip(found.values(), values, strict=True)]
        rows.append([*placed, in_any_order(named, words, public)])
    return {name: np.array([row[at] for row in rows]) for at, name in enumerate((*found, ANY_ORDER))}


def noise_like(update: Mapping[str, Tensor], rng: np.random.Generator) -> dict[str, Tensor]:
    """Gaussian noise with the size of each tensor: an update that holds nothing.

    Args:
        update: By parameter.
    """
    generator = torch.Generator().manual_seed(int(rng.integers(1 << 31)))
    made = {}
    for name, part in update.items():
        size = part.float().square().mean().sqrt()
        made[name] = size * torch.randn(part.shape, generator=generator)
    return made


def pooled(parts: Sequence[Mapping[str, Counts]]) -> dict[str, Counts]:
    """Counts over observations, by measure: of those observations that it was measured of."""
    names = dict.fromkeys(name for part in parts for name in part)
    return {name: np.sum([part[name] for part in parts if name in part], axis=0) for name in names}


def shares(counts: Counts) -> NDArray[np.float64]:
    """Share of right ones, float64 (1 + fillings,); 0 where there is nothing to count."""
    return counts[:, 0] / np.maximum(counts[:, 1], 1)


def joint_p(measures: Sequence[NDArray[np.float64]]) -> float:
    """p-value of the best of several measures, with that choice accounted for.

    Args:
        measures: float64 (1 + fillings,) each, the client's own page first.

    Returns:
        Share of the fillings, the own one among them, whose best rank is as good as that of the own page; 1 without a
        measure.
    """
    if not measures:
        return 1.0
    best = np.stack([ranks(row) for row in measures]).min(axis=0)
    return float((best <= best[0]).mean())


def ranks(measure: NDArray[np.float64]) -> NDArray[np.int64]:
    """Number of pages with as large a share, int64 (1 + fillings,): 1 for the largest; ties count against each."""
    return measure.size - np.searchsorted(np.sort(measure), measure)
