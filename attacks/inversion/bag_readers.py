"""How words and coordinates are read from an update, by what the model offers, and which of them a sample has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pfl_audit.attacks.inversion.adapters.rows import holds_adapters
from pfl_audit.attacks.inversion.analytic.limits import Cause, Limit
from pfl_audit.attacks.inversion.batches.recovery import Separated, pages_of, separate
from pfl_audit.attacks.inversion.context import Observation
from pfl_audit.attacks.inversion.controls import (
    ALL_BOXES,
    ANY_ORDER,
    COORDINATES,
    PAGES,
    PLACES,
    SAMPLES,
    WORDS,
    private_tokens,
)
from pfl_audit.attacks.inversion.donut_text.recovery import How, TextRecovery, recover_text
from pfl_audit.attacks.inversion.input_span.reader import sums_of
from pfl_audit.attacks.inversion.matrices.recovery import places_of
from pfl_audit.attacks.inversion.question_answer import answer_of
from pfl_audit.attacks.inversion.table_words import LookedUp, words_of_tables
from pfl_audit.attacks.inversion.template.template import Template
from pfl_audit.attacks.inversion.word_text import by_matrices, of_matrices, solve
from pfl_audit.errors import NotAuditableError
from pfl_audit.models.gradient_protocol import GradientModel
from pfl_audit.models.samples import Text
from pfl_audit.models.text_decoder import FirstLayer, TextDecoder
from pfl_audit.models.word_encoder import Table, WordEncoder
from pfl_audit.models.word_tables import LooksUpWords, SumsWordsAndBoxes, WordTables

_ROWS = (Cause.MISSING, Cause.NOISE, Cause.QUANTISED, Cause.SPARSE)
_ORDER = ("pixels", "which token")
"""Words of limits on what is no part of a bag: the page, and where tokens stand."""
DOWN = 10_000
"""Added to the coordinates of upper and lower edges, to distinguish them from those of left and right ones."""
_SIDE = 1 << 20
"""More than coordinates and tokens are: boxes, and tokens with their boxes, are numbers to this base."""
_EDGES = 4
"""Of a box."""
Items = Mapping[str, frozenset[int]]
"""Measure to tokens, or to coordinates in thousandths."""


@dataclass(frozen=True)
class Bag:
    """What occurs on any page of an update.

    Attributes:
        items: By measure.
        limits: Why something may be missing.
        candidates: Number of tokens with boxes that are possible, beside those that are certain.
        question: Tokens of the question in order, where they are certain.
        page: float (3, height, width), 0 to 1, its pixels where they are known.
        pages: Tokens of each page in order, where an update of several was separated.
        error: Share of the update that the gradient of these pages leaves; None where it was not computed.
    """

    items: Items
    limits: tuple[Limit, ...]
    candidates: int = 0
    question: tuple[int, ...] = ()
    page: Tensor | None = None
    pages: tuple[tuple[int, ...], ...] = ()
    error: float | None = None


class BagReader(Protocol):
    """One kind of model."""

    def read(self, seen: Observation) -> Bag:
        """What the rows of an update's tables show.

        Raises:
            AuditError: The update holds nothing of the tables.
        """

    def split(self, text: Text, template: Template) -> tuple[Items, Items]:
        """Tokens and coordinates of the private fields of a sample, and those of the form and the question."""

    def decode(self, ids: Sequence[int]) -> str:
        """Text of tokens."""


def reader_of(model: GradientModel) -> BagReader:
    """The reader of a model.

    Raises:
        NotAuditableError: The model has no tables that are looked up.
    """
    if (encoder := model.word_encoder()) is not None:
        return _OfEncoder(model, encoder)
    if (decoder := model.text_decoder()) is not None:
        return _OfDecoder(model, decoder)
    if isinstance(model, LooksUpWords):
        return _OfTables(model, model.word_tables())
    raise NotAuditableError("this model has no table of words whose rows are looked up", "Use --method lbfgs")


class _OfEncoder:
    """Encoders of words with absolute positions."""

    def __init__(self, model: GradientModel, encoder: WordEncoder) -> None:
        self._model, self._encoder = model, encoder
        self.decode = encoder.decode

    def read(self, seen: Observation) -> Bag:
        if by_matrices(self._encoder, seen):
            return self._by_matrices(seen)
        got = solve(self._model, seen)
        edges = {name: rows.tolist() for name, rows in got.coordinates.items()}
        adapted = holds_adapters(seen.gradient)
        items, limits = _items(got.present.tolist(), edges), _of_rows(got.limits, adapted=adapted)
        if seen.batch == 1:
            return Bag(items, limits)
        return self._separated(seen, items, limits, separate(self._model, self._encoder, seen, got.present.numpy()))

    def _by_matrices(self, seen: Observation) -> Bag:
        placed = places_of(self._encoder, seen, seen.weights or dict(self._model.network.named_parameters()))
        apart = None
        if seen.batch > 1 and len(placed.places):
            apart = pages_of(self._model, self._encoder, seen, placed.places, placed.certain, placed.noise)
            limits = () if apart.certified else placed.limits
            every = np.ones(len(apart.placed), dtype=bool)
            placed = replace(placed, places=apart.placed, certain=every, limits=limits)
        got = of_matrices(self._model, seen, placed)
        items = _items(got.present.tolist(), {name: rows.tolist() for name, rows in got.coordinates.items()})
        shown = tuple(limit for limit in got.limits if "pixels" not in limit.words)
        if seen.batch == 1:
            return Bag(items, shown)
        if apart is None:
            return Bag(items | {PLACES: frozenset(), PAGES: frozenset()}, shown)
        return self._separated(seen, items, shown, apart)

    def _separated(self, seen: Observation, items: Items, limits: tuple[Limit, ...], apart: Separated) -> Bag:
        """The same with the places and pages of an update of several."""
        placed = torch.from_numpy(apart.placed)
        places = _at_places(placed[:, 0], placed[:, 1], placed[:, 3:])
        own = [private_tokens(torch.from_numpy(page[:, 3:]), seen.template).numpy() for page in apart.pages]
        whole = [_of_page(page[mask][:, [0, 1, 3, 4, 5, 6]]) for page, mask in zip(apart.pages, own, strict=True)]
        certified = frozenset[int]().union(*whole) if apart.certified else frozenset[int]()
        pages = tuple(tuple(page[:, 0].tolist()) for page in apart.pages)
        items = {**items, PLACES: places, PAGES: certified}
        return Bag(items, (*limits, *apart.limits), apart.candidates, pages=pages, error=apart.error)

    def split(self, text: Text, template: Template) -> tuple[Items, Items]:
        ids, boxes = self._encoder.tokens(text), self._encoder.boxes(text)
        private, at = private_tokens(boxes, template), torch.arange(len(ids))
        own, form = (
            dict(part) | {PLACES: _at_places(ids[mask], at[mask], boxes[mask])}
            for part, mask in zip(_by_field(ids, boxes, private), (private, ~private), strict=True)
        )
        rows = torch.cat([ids[:, None], at[:, None], boxes], dim=1)[private].numpy()
        return own | {PAGES: _of_page(rows)}, form | {PAGES: frozenset()}


class _OfDecoder:
    """Decoders that read question and answer, and no page words."""

    def __init__(self, model: GradientModel, decoder: TextDecoder) -> None:
        self._decoder, self._weights = decoder, dict(model.network.named_parameters())
        self.decode = decoder.decode

    def read(self, seen: Observation) -> Bag:
        layer, weights = self._decoder.first_layer(), seen.weights or self._weights
        # With other weights the first layer is another one than that of the update, unless adapters alone are trained.
        if seen.weights is None or holds_adapters(seen.gradient):
            read = recover_text(seen.gradient, layer, seen.weights)
            if len(read.present) or read.how is How.ADAPTERS:
                return self._bag(read)
        tokens, _, limits = words_of_tables(seen.gradient, _tables_of(layer), weights, seen.steps)
        return Bag(_items(tokens), limits)

    def _bag(self, read: TextRecovery) -> Bag:
        items = _items(read.present.tolist())
        limits = _of_rows(read.limits, adapted=read.how is How.ADAPTERS)
        if read.how is How.ADAPTERS:
            whole = read.ids.tolist() if bool(read.sure.all()) else []
            return Bag(items | {SAMPLES: _beginnings(whole, [*range(len(whole))])}, limits)
        return Bag(items, limits)

    def split(self, text: Text, template: Template) -> tuple[Items, Items]:
        ids, mask = answer_of(self._decoder, text)
        own, form = (
            _items(ids[part].tolist()) | {SAMPLES: _beginnings(ids.tolist(), part.nonzero()[:, 0].tolist())}
            for part in (mask, ~mask)
        )
        return own, form


def _beginnings(ids: Sequence[int], ends: Iterable[int]) -> frozenset[int]:
    """Tokens at positions, each with all that the decoder read before it."""
    return _numbers([ids[: end + 1] for end in ends])


def _tables_of(layer: FirstLayer) -> LookedUp:
    """Tables of a decoder: positions stand in the place of coordinates."""
    names = layer.parameters
    edges = {"position": Table(names.position, tuple(layer.positions.shape))}
    return LookedUp(Table(names.word, tuple(layer.embedding.shape)), edges, layer.tied)


class _OfTables:
    """Models without absolute positions."""

    def __init__(self, model: GradientModel, tables: WordTables) -> None:
        self._tables, self._weights = tables, dict(model.network.named_parameters())
        self._placed = isinstance(tables, SumsWordsAndBoxes)  # once: a protocol is slow to look at, and pages are many
        self.decode = tables.decode

    def read(self, seen: Observation) -> Bag:
        weights, tables = seen.weights or self._weights, self._tables
        if not isinstance(tables, SumsWordsAndBoxes):
            tokens, places, limits = words_of_tables(seen.gradient, LookedUp.of(tables), weights, seen.steps)
            return Bag(_items(tokens, places), limits)
        found = sums_of(seen, tables, weights)
        question = next((tokens for _, tokens in found.words), ())
        words = _numbers([[*tokens, *box] for box, tokens in found.words[1:]])
        items = _items(found.tokens, found.edges) | {ALL_BOXES: _numbers(found.boxes.tolist()), WORDS: words}
        return Bag(items, found.limits, question=question, page=found.page)

    def split(self, text: Text, template: Template) -> tuple[Items, Items]:
        ids, boxes = self._tables.tokens(text), self._tables.boxes(text)
        private = private_tokens(self._tables.places(text), template)
        own, form = _by_field(ids, boxes, private)
        if self._placed:
            own, form = (
                dict(part) | _placed(ids[mask], boxes[mask]) for part, mask in ((own, private), (form, ~private))
            )
        answer = self._tables.answer(text).tolist()
        return together([own, _items(answer)]), together([form, _items(self._tables.always)])


def _placed(ids: Tensor, boxes: Tensor) -> dict[str, frozenset[int]]:
    rows, tokens = boxes.tolist(), ids.tolist()
    words: list[list[int]] = []
    for at, (token, box) in enumerate(zip(tokens, rows, strict=True)):
        if at and box == rows[at - 1]:
            words[-1].insert(-_EDGES, token)
        else:
            words.append([token, *box])
    return {ALL_BOXES: _numbers(rows), WORDS: _numbers(words)}


def _at_places(ids: Tensor, positions: Tensor, boxes: Tensor) -> frozenset[int]:
    return _numbers(torch.cat([ids[:, None], positions[:, None], boxes], dim=1).tolist())


def _of_page(rows: NDArray[np.int64]) -> frozenset[int]:
    """A page by its private tokens with positions and boxes; none where it has no such token."""
    return _numbers([rows.flatten().tolist()] if len(rows) else [])


def box_of(number: int) -> list[int]:
    """Decode a number into the coordinates of a box, or into tokens and the coordinates of their box."""
    found: list[int] = []
    while len(found) < _EDGES or number:
        number, last = divmod(number, _SIDE)
        found.append(last)
    return found[::-1]


def _numbers(rows: Sequence[Sequence[int]]) -> frozenset[int]:
    """Rows of whole numbers as one number each."""
    found = []
    for row in rows:
        number = 0
        for each in row:
            number = number * _SIDE + each
        found.append(number)
    return frozenset(found)


def together(parts: Sequence[Items]) -> Items:
    """All items of several samples, by measure."""
    measures = dict.fromkeys(measure for part in parts for measure in part)
    return {measure: frozenset().union(*(part.get(measure, ()) for part in parts)) for measure in measures}


def _items(tokens: Iterable[int], edges: Mapping[str, Iterable[int]] | None = None) -> dict[str, frozenset[int]]:
    items = {ANY_ORDER: frozenset(tokens)}
    if edges:
        items[COORDINATES] = frozenset(at + DOWN * (name == "y") for name, rows in edges.items() for at in rows)
    return items


def _by_field(ids: Tensor, boxes: Tensor, private: Tensor) -> tuple[Items, Items]:
    def of(mask: Tensor) -> Items:
        edges = {"x": boxes[mask][:, [0, 2]], "y": boxes[mask][:, [1, 3]]}
        return _items(ids[mask].tolist(), {name: torch.flatten(rows).tolist() for name, rows in edges.items()})

    return of(private), of(~private)


def _of_rows(limits: Iterable[Limit], *, adapted: bool = False) -> tuple[Limit, ...]:
    """Limits that leave rows unknown; what is mixed or crowded lacks its order alone, but by adapters all tokens."""
    own = [limit for limit in limits if limit.cause in _ROWS or (adapted and limit.words.startswith("tokens"))]
    return tuple(dict.fromkeys(limit for limit in own if not any(word in limit.words for word in _ORDER)))
