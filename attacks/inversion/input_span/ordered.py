"""Words of the private boxes and the question, piece by piece in their order, of an update of one page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from torch import Tensor

from pfl_audit.attacks.inversion.analytic.limits import Cause, Limit, missing
from pfl_audit.attacks.inversion.analytic.noise import noise_of
from pfl_audit.attacks.inversion.analytic.tables import shared_tensors
from pfl_audit.attacks.inversion.context import Observation
from pfl_audit.attacks.inversion.input_span.basis import Basis, bases_of
from pfl_audit.attacks.inversion.input_span.fits import Fits
from pfl_audit.attacks.inversion.input_span.inputs import InputParts
from pfl_audit.attacks.inversion.input_span.page import EXACT, read_page
from pfl_audit.attacks.inversion.input_span.recovery import Spanned
from pfl_audit.attacks.inversion.input_span.residuals import Residuals
from pfl_audit.attacks.inversion.input_span.sequence import Distances, first_layer
from pfl_audit.attacks.inversion.input_span.text_search import search
from pfl_audit.attacks.inversion.input_span.texts import Texts, Word
from pfl_audit.attacks.inversion.input_span.tokens import Allowed
from pfl_audit.attacks.inversion.template.find import reading_order
from pfl_audit.attacks.inversion.template.template import Template
from pfl_audit.metrics.arrays import Floats
from pfl_audit.models.word_tables import SumsWordsAndBoxes

Box = tuple[int, ...]

_QUESTION: Final = 7
"""Pieces of a question, about."""
_DIRECTIONS: Final = 64
"""Random directions outside the span that distances are taken in."""
_SEED: Final = 21
_NEAR: Final = 1
"""Rows of the tables of coordinates by which a box of the page may differ from that of the form, by rounding."""


@dataclass(frozen=True, eq=False)
class Ordered:
    """What is certain of the order of a page.

    Attributes:
        words: Boxes with their pieces in order: those of private boxes in reading order, behind the question.
        page: float (3, height, width), its pixels; None where they are unknown.
        limits: Why something is missing.
    """

    words: tuple[tuple[Box, tuple[int, ...]], ...]
    page: Tensor | None
    limits: tuple[Limit, ...]


def words_in_order(
    seen: Observation, tables: SumsWordsAndBoxes, weights: Mapping[str, Tensor], found: Spanned
) -> Ordered:
    """Find the pieces of every private box and of the question.

    Args:
        seen: The update, and the form.
        weights: The model's, by parameter, before the update.
        found: What the spans show of it.

    Returns:
        All words, or none where no sequence is certain.
    """
    form = torch.from_numpy(seen.template.page).permute(2, 0, 1)
    if seen.batch > 1:
        return Ordered((), None, (Limit(Cause.MIXED, "order: the words of several pages stand in several orders"),))
    page = read_page(seen.gradient, tables.page(), weights, form)
    if isinstance(page, Limit):
        return Ordered((), None, (page,))
    bases = _bases(seen.gradient, tables, weights)
    if isinstance(bases, Limit):
        return Ordered((), page.pixels, (bases,))
    allowed = found.allowed
    if found.boxes is None or allowed is None or seen.weights is not None or not seen.template.words:
        return Ordered((), page.pixels, ())
    words = _search(seen.template, tables, weights, allowed, bases, page.pixels)
    if isinstance(words, Limit):
        off = Limit(Cause.NOISE, f"order: the page's pixels are off by {page.error:.1%}")
        return Ordered((), page.pixels, (words, off) if page.error > EXACT else (words,))
    return Ordered(tuple(words), page.pixels, ())


def _bases(
    update: Mapping[str, Tensor], tables: SumsWordsAndBoxes, weights: Mapping[str, Tensor]
) -> list[Basis] | Limit:
    shared = list(shared_tensors(update, weights, tables.layer().feed).values())
    if not shared:
        return missing("the first feed-forward layer", "the order of words is unknown")
    noise = noise_of([], shared[0], None)
    bases = bases_of(torch.cat(shared).double().numpy(), noise.rounding, noise.sigma)
    if bases[0].informative:
        return bases
    rank, width = bases[0].rank, len(bases[0].scales)
    return Limit(Cause.CROWDED, f"order: too many inputs for the width, {rank} directions of {width} are taken")


def _search(
    form: Template,
    tables: SumsWordsAndBoxes,
    weights: Mapping[str, Tensor],
    allowed: Allowed,
    bases: list[Basis],
    page: Tensor,
) -> list[tuple[Box, tuple[int, ...]]] | Limit:
    names, parts = tables.summed(), InputParts.of(tables.summed(), weights)
    inputs = _Inputs(parts)
    prompt, end = names.pairs[0, 1:].tolist(), names.pairs[-1].tolist()
    possible = {
        tuple(box): allowed.tokens[allowed.pairs[:, at]].tolist() for at, box in enumerate(allowed.boxes.tolist())
    }
    printed = _printed(form, tables, list(possible))
    if not printed:
        return Limit(Cause.FORM, "order: no word of the form is on the page, which may be of another form")
    pieces = [(len(tokens), box[2] - box[0]) for box, tokens in printed.items()]
    ratio = float(np.median([count / max(wide, 1) for count, wide in pieces]))

    def sought(box: Box, length: int) -> Word:
        inside = possible[box]
        first = [token for token in inside if tables.starts_word(token)] or inside
        others = [token for token in inside if not tables.starts_word(token)] if box != tuple(prompt) else inside
        return Word(tuple(inputs.of(token, box) for token in first), tuple(inputs.of(t, box) for t in others), length)

    before, after = tables.frame()
    line: list[int | Word] = [inputs.of(token, tuple(prompt)) for token in before]
    asked = [tuple(prompt)]
    line += [sought(asked[0], _QUESTION), *(inputs.of(token, tuple(prompt)) for token in after)]
    placed = [box for box in possible if box not in (tuple(prompt), tuple(end[1:]))]
    for at in reading_order([(box[0] / 1000, box[1] / 1000, box[2] / 1000, box[3] / 1000) for box in placed]):
        box = placed[at]
        if box in printed:
            line += [inputs.of(token, box) for token in printed[box]]
        else:
            asked.append(box)
            line.append(sought(box, max(1, round(ratio * (box[2] - box[0])))))
    line.append(inputs.of(end[0], tuple(end[1:])))
    patches = tables.patches(page).double().numpy()
    rng = np.random.default_rng(_SEED)
    layer, vectors = first_layer(tables.layer(), tables.bias, weights), np.concatenate([inputs.vectors, patches])
    behind = range(len(inputs.known), len(vectors))
    distances = Distances(layer, bases[0], vectors, _DIRECTIONS, rng)
    residuals = Residuals(layer, bases[0], vectors, behind, _DIRECTIONS, rng)
    words = search(Texts(distances, Fits(layer, bases, vectors), line, behind), residuals, rng)
    if words is None:
        return Limit(Cause.MIXED, "order: no sequence of pieces explains the update alone")
    token_of = [token for token, _ in inputs.known]
    return [(box, tuple(token_of[one] for one in word)) for box, word in zip(asked, words, strict=True)]


class _Inputs:
    """Inputs by token and box, numbered as they are asked for."""

    def __init__(self, parts: InputParts) -> None:
        self.known: dict[tuple[int, Box], int] = {}
        self._parts = parts

    def of(self, token: int, box: Box) -> int:
        """Number of an input."""
        return self.known.setdefault((token, box), len(self.known))

    @property
    def vectors(self) -> Floats:
        """All of them, before the first norm, float64 (n, width)."""
        tokens, boxes = (np.array(part) for part in zip(*self.known, strict=True))
        return np.asarray((self._parts.words[tokens] + self._parts.spatial(boxes)) / self._parts.norm)


def _printed(form: Template, tables: SumsWordsAndBoxes, boxes: list[Box]) -> dict[Box, list[int]]:
    """Boxes of the page that contain a printed word of the form, with its pieces."""
    found: dict[Box, list[int]] = {}
    rows = np.array(boxes)
    for box, word in zip(tables.rows(form.boxes), form.words, strict=True):
        off = np.abs(rows - box).max(axis=1)
        if off.min() <= _NEAR:
            found[boxes[int(off.argmin())]] = tables.pieces(word)
    return found
