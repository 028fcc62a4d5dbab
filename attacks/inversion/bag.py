"""Words and coordinates of all pages of an update, in any order: rows of tables show that they occur, not where."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from pfl_audit.attacks.inversion.analytic.limits import Limit
from pfl_audit.attacks.inversion.bag_readers import DOWN, Bag, box_of, reader_of, together
from pfl_audit.attacks.inversion.calls import Read, read_each
from pfl_audit.attacks.inversion.canvas import picture_of
from pfl_audit.attacks.inversion.context import Case, GradientContext, keep_page, texts_of
from pfl_audit.attacks.inversion.controls import (
    ALL_BOXES,
    ANY_ORDER,
    COORDINATES,
    PAGES,
    WORDS,
    Counts,
    noise_like,
)
from pfl_audit.models.gradient_protocol import GradientModel
from pfl_audit.progress import Task


@dataclass(frozen=True)
class Bagged:
    """Result on one update. Counts are of private fields alone.

    Attributes:
        pages: Number of pages of the update.
        found: Measure to how many came back, how many there are, and how many were named.
        counts: The same as one share, the lower of precision and recall, against the client's own pages and against
            other fillings of their forms.
        candidates: Number of tokens with boxes that are possible, beside those that are certain.
        error: Share of the update that the gradient of its pages leaves, where they were separated.
        noise: The same, of Gaussian noise of the update's size, against the own pages.
    """

    name: str
    pages: int
    found: Mapping[str, tuple[int, int, int]]
    counts: Mapping[str, Counts]
    noise: Mapping[str, Counts]
    limits: tuple[Limit, ...]
    candidates: int = 0
    error: float | None = None


def attack(context: GradientContext) -> list[Bagged]:
    """Read the rows of every update.

    Raises:
        NotAuditableError: The model has no tables that are looked up, or there is no truth to compare with.
        AuditError: The update holds nothing of the tables.
    """
    found = read_each(context, "words in any order", "words", _read)
    for at, read in found.items():
        if read.page is not None and read.compared is not None:
            keep_page(context, "words", context.cases[at], read.page)
    return [read.compared for read in found.values() if read.compared is not None]


def _read(model: GradientModel, case: Case, task: Task, *, rng: np.random.Generator) -> Read[Bagged]:
    bag = bag_of(model, case)
    page = None if bag.page is None else picture_of(bag.page)
    if case.truths:
        return Read(_compare(model, case, bag, rng), {}, page)
    return Read(None, named_of(model, bag), page)


def bag_of(model: GradientModel, case: Case) -> Bag:
    """What the rows of an update's tables show.

    Raises:
        NotAuditableError: The model has no tables that are looked up.
        AuditError: The update holds nothing of the tables.
    """
    return reader_of(model).read(case.seen)


def _compare(model: GradientModel, case: Case, bag: Bag, rng: np.random.Generator) -> Bagged:
    quiet = noise_like(case.seen.gradient, rng)
    nothing = bag_of(model, Case(replace(case.seen, gradient=quiet)))
    nothing = replace(nothing, items={measure: nothing.items.get(measure, frozenset()) for measure in bag.items})
    found = counts_of(model, case, bag)
    of_noise = counts_of(model, Case(case.seen, case.truths), nothing)
    return Bagged(
        case.seen.name,
        case.seen.batch,
        {measure: (int(right), int(wanted), int(named)) for measure, ((right, wanted, named), *_) in found.items()},
        scored(found),
        scored(of_noise),
        bag.limits,
        bag.candidates,
        bag.error,
    )


def counts_of(model: GradientModel, case: Case, bag: Bag) -> dict[str, NDArray[np.int64]]:
    """By measure how many came back, how many there are and how many were named, int64 (1 + fillings, 3)."""
    reader = reader_of(model)
    samples = [[reader.split(text, case.seen.template) for text in texts] for texts in texts_of(case)]
    private = [together([own for own, _ in some]) for some in samples]
    form = together([other for some in samples for _, other in some])
    found = {}
    for measure, items in bag.items.items():
        wanted, named = [own[measure] - form[measure] for own in private], items - form[measure]
        found[measure] = np.array([(len(each & named), len(each), len(named)) for each in wanted])
    return found


def lower_share(rows: NDArray[np.int64]) -> Counts:
    """The lower of precision and recall, as a count and of how many: naming everything is worth nothing."""
    return np.stack([rows[:, 0], rows[:, 1:].max(axis=1)], axis=1)


def scored(found: Mapping[str, NDArray[np.int64]]) -> dict[str, Counts]:
    """What the level is decided by, by measure: whole pages are too few to count."""
    return {measure: lower_share(rows) for measure, rows in found.items() if measure != PAGES}


def named_of(model: GradientModel, bag: Bag) -> dict[str, object]:
    """What is kept where there is no truth: texts of the tokens, and coordinates."""
    reader, tokens = reader_of(model), sorted(bag.items[ANY_ORDER])
    words = [reader.decode([token]).strip() for token in tokens]
    places = sorted(bag.items.get(COORDINATES, ()))
    return {
        "words": words,
        "tokens": tokens,
        "x": [value for value in places if value < DOWN],
        "y": [value - DOWN for value in places if value >= DOWN],
        "boxes": sorted(map(box_of, bag.items.get(ALL_BOXES, ()))),
        "candidates": bag.candidates,
        "pages": [reader.decode(list(page)) for page in bag.pages],
        "question": reader.decode(list(bag.question)),
        "text": [[reader.decode(word[:-4]), *word[-4:]] for word in sorted(map(box_of, bag.items.get(WORDS, ())))],
        "limits": [limit.words for limit in bag.limits],
    }
