"""Self-pretraining tasks: inputs and targets made of a page's tokens and boxes alone (federated-docvqa-pilot, 3.3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from pfl_audit.models.pretraining_task import RATES, Form, Task

BINS: Final = 500
"""Location bins of an edge of the page (the authors' code); location tokens are numbered 0 to BINS."""
MOST_MASKED: Final = 100
"""Largest number of masked units, L_M."""
LONGEST_TARGET: Final = 256
"""Longest target in tokens, end-of-sequence included (the authors' code)."""
NO_BOX: Final = -1
"""Unit of an input token without a box of its own: its box is 0."""


class Marker(StrEnum):
    """Kinds of added tokens, in the order of their numbers."""

    TEXT = "<text_{}>"
    TEXT_END = "</text_{}>"
    LAYOUT = "<layout_{}>"
    LAYOUT_END = "</layout_{}>"
    TEXT_LAYOUT = "<text_layout_{}>"
    LOCATION = "<loc_{}>"


MARKERS: Final = tuple(
    kind.format(number) for kind in Marker for number in range(BINS + 1 if kind is Marker.LOCATION else MOST_MASKED)
)
"""Names of all added tokens: 100 of each kind of sentinel, 501 locations."""
_KINDS: Final = tuple(Marker)


def marker(kind: Marker, number: int) -> int:
    """Position of a token in MARKERS."""
    return _KINDS.index(kind) * MOST_MASKED + number


@dataclass(frozen=True, eq=False)
class Denoising:
    """An input with masked units, and its target.

    Attributes:
        ids: Input tokens, int64 (tokens,).
        units: Unit whose box an input token has, int64 (tokens,), or NO_BOX.
        target: Target tokens without end-of-sequence, int64 (at most LONGEST_TARGET - 1,).
    """

    ids: NDArray[np.int64]
    units: NDArray[np.int64]
    target: NDArray[np.int64]


def draw_masked(task: Task, units: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Mask each unit with the probability of the task; only the first MOST_MASKED in reading order stay masked.

    Returns:
        bool (units,).
    """
    masked = rng.random(units) < RATES[task]
    return masked & (np.cumsum(masked) <= MOST_MASKED)


def location_bins(box: NDArray[np.float32]) -> list[int]:
    """Bins f_d of left, top, right and bottom, shares of the page, each 0 to BINS."""
    return [int(edge) for edge in np.clip(np.floor(box.astype(np.float64) * BINS), 0, BINS)]


def denoise(
    task: Task,
    units: Sequence[Sequence[int]],
    boxes: NDArray[np.float32],
    masked: NDArray[np.bool_],
    *,
    first: int,
    form: Form = Form.PAPER,
    prompt: Sequence[int] = (),
    room: int,
) -> Denoising:
    """Make the example of a page.

    Sentinels are numbered in reading order. The page ends where the next unit does not fit, and the target has the
    units of the input alone. In layout modelling the masked unit's own box is 0 as well: the paper prints this for
    sentinels only, but the input would otherwise contain the target.

    Args:
        units: Tokens of each unit that can be masked: one token in the form ``paper``, those of a word in ``code``.
        boxes: Boxes of the units, float32 (units, 4): left, top, right, bottom as shares of the page.
        masked: Units to mask, bool (units,), at most MOST_MASKED.
        first: Number of the first token of MARKERS.
        form: Form of the example.
        prompt: Tokens in front of the page; their boxes are 0.
        room: Largest number of input tokens.
    """
    ids, places, target = list(prompt[:room]), [NO_BOX] * min(len(prompt), room), list[int]()
    number = 0
    for unit, tokens in enumerate(units):
        shown, said, place = list(tokens), list[int](), unit
        if masked[unit]:
            shown, said = _masked(task, list(tokens), location_bins(boxes[unit]), number, first, form)
            place = NO_BOX
        if len(ids) + len(shown) > room:
            break
        ids += shown
        places += [place] * len(shown)
        target += said
        number += bool(masked[unit])
    as_array = (np.array(values, dtype=np.int64) for values in (ids, places, target[: LONGEST_TARGET - 1]))
    return Denoising(*as_array)


def _masked(
    task: Task, tokens: list[int], bins: list[int], number: int, first: int, form: Form
) -> tuple[list[int], list[int]]:
    """Input and target of a masked unit."""

    def sentinel(kind: Marker) -> list[int]:
        return [first + marker(kind, number)]

    place = [first + marker(Marker.LOCATION, edge) for edge in bins]
    match task:
        case Task.TEXT:
            text, end = sentinel(Marker.TEXT), sentinel(Marker.TEXT_END) if form is Form.CODE else []
            return text + place + end, text + tokens
        case Task.LAYOUT:
            layout = sentinel(Marker.LAYOUT)
            return layout + tokens + sentinel(Marker.LAYOUT_END), layout + place
        case Task.TEXT_LAYOUT:
            both = sentinel(Marker.TEXT_LAYOUT)
            return both, both + tokens + place
