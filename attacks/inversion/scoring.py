"""Scores of a reconstruction: picture quality, readable words, and the chance level of guesses."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from pfl_audit.attacks.inversion.context import Case, unscored
from pfl_audit.attacks.inversion.reading import ReadingEngine
from pfl_audit.attacks.inversion.template.values import draw_values
from pfl_audit.attacks.inversion.word_scores import FieldReading, read_fields
from pfl_audit.metrics.images import ImageScores, image_scores
from pfl_audit.metrics.intervals import Estimate, all_or_nothing, bootstrap_weights, resampled_mean
from pfl_audit.models.calls import Call, Calls, taken
from pfl_audit.progress import Progress, Task

FEWEST_DOCUMENTS = 5
"""Fewer are too few to be resampled; then it is the fields."""
_GUESSES = 20
"""Values that are drawn anew for every field, to tell what a guess would hit."""


@dataclass(frozen=True, eq=False)
class Scored:
    """Scores of one reconstructed document.

    Attributes:
        page: uint8 (height, width, 3), what came back; of a batch, what is nearest to its first sample.
        fields: Picture scores inside the private fields.
        whole: On all of the page.
        gain: PSNR inside the private fields over that of the empty form, in decibels.
        guessed: Share of the words in values drawn anew that would have passed for hits.
        steps: Gradients of the model that it took; 0 for a closed form.
        objective: Distance that was left, or None.
    """

    name: str
    page: NDArray[np.uint8]
    fields: ImageScores
    whole: ImageScores
    gain: float
    read: Sequence[FieldReading]
    guessed: float
    steps: int = 0
    objective: float | None = None


def scoring(
    case: Case, pages: Sequence[bytes], rng: np.random.Generator, steps: int = 0, objective: float | None = None
) -> Call[ReadingEngine, Scored]:
    """The call of an engine that scores the reconstruction of the first sample; it takes no gradient along.

    Args:
        pages: From ``pack``, one a sample, in any order.
        steps: Number of gradients that the search took.
        objective: Final objective of the search, or None.
    """
    bare = replace(case, seen=replace(case.seen, gradient={}, weights=None), filling=None, bound=None, drawn=None)
    return partial(_score, bare, pages, _other_values(case, rng), steps, objective)


def scored_by(
    readers: Calls[ReadingEngine], works: Mapping[int, Call[ReadingEngine, Scored]], progress: Progress
) -> list[Scored]:
    """What calls from ``scoring`` give, in the order of their numbers.

    Raises:
        NotAuditableError: There is none.
    """
    if not works:
        raise unscored()
    order = sorted(works)
    with progress.task("reading of what came back", len(works)) as task:
        calls = [works[at] for at in order]
        found = dict(taken(readers, calls, lambda one: isinstance(one, Scored), task, [1] * len(works)))
    return [found[at] for at in range(len(order))]


def pack(page: NDArray[np.uint8]) -> bytes:
    """A page, uint8 (height, width, 3), as PNG."""
    content = io.BytesIO()
    Image.fromarray(page).save(content, "PNG")
    return content.getvalue()


def unpack(page: bytes) -> NDArray[np.uint8]:
    """As it was before ``pack``."""
    with Image.open(io.BytesIO(page)) as image:
        return np.array(image.convert("RGB"), dtype=np.uint8)


def _score(
    case: Case,
    packed: Sequence[bytes],
    others: Sequence[Mapping[str, str]],
    steps: int,
    objective: float | None,
    engine: ReadingEngine,
    task: Task,
) -> Scored:
    pages = map(unpack, packed)
    truth, template = case.truths[0], case.seen.template
    mask = template.mask()
    page = min(pages, key=lambda one: float(((one[mask].astype(float) - truth.page[mask]) ** 2).mean()))
    fields, whole = (image_scores(page / 255, truth.page / 255, where) for where in (mask, None))
    form = image_scores(template.pixels / 255, truth.page / 255, mask)
    read = read_fields(engine, template, truth.page, page, truth.values)
    guessed = _guessed(read, others)
    return Scored(case.seen.name, page, fields, whole, fields.psnr - form.psnr, read, guessed, steps, objective)


def _other_values(case: Case, rng: np.random.Generator) -> list[Mapping[str, str]]:
    """Values that clients might have written on the first page instead.

    They are drawn for the form in the size that clients write in: on a smaller view of the model long values fit no
    field, and only short ones would be drawn.
    """
    if case.drawn is not None:
        return [case.drawn(number)[0] for number in range(_GUESSES)]
    return [draw_values(case.seen.template, int(seed)) for seed in rng.integers(1 << 31, size=_GUESSES)]


def _guessed(read: Sequence[FieldReading], guesses: Sequence[Mapping[str, str]]) -> float:
    """Share of the words of other values that are found in what was read: chance, with this reader on these fields."""
    tried = [
        FieldReading(one.field, guess[one.field], "", one.read)
        for guess in guesses
        for one in read
        if one.field in guess
    ]
    words = sum(field.words for field in tried)
    return sum(field.exact for field in tried) / words if words else 0.0


@dataclass(frozen=True)
class Summary:
    """Scores over documents.

    Attributes:
        unit: Unit that is resampled: documents, or fields where there are too few of these.
        exact: Share of the words that are read exactly (the paper's Binary).
        relative: The same of the words that the engine reads on the original.
        ratio: Mean fuzz ratio of the fields.
        original: Share of the words that the engine reads on the original.
        pictures: psnr, fft2d and mse, inside the fields and on the page, each over documents; and the gain in psnr
            over the empty form, inside the fields.
        guessed: Chance level of ``exact``.
    """

    unit: str
    units: int
    documents: int
    words: int
    exact: Estimate
    relative: Estimate
    ratio: Estimate
    original: Estimate
    pictures: Mapping[tuple[str, str], Estimate]
    guessed: float


def summarise(scored: Sequence[Scored], rng: np.random.Generator) -> Summary:
    """Aggregate the scores of documents."""
    many = len(scored) >= FEWEST_DOCUMENTS
    groups = [list(one.read) for one in scored] if many else [[field] for one in scored for field in one.read]
    weights = bootstrap_weights(np.zeros(len(groups), dtype=bool), rng)

    def share(parts: list[float], of: list[float]) -> Estimate:
        found = resampled_mean(np.array(parts, dtype=float), np.array(of, dtype=float), weights)
        return all_or_nothing(found, sum(count > 0 for count in of))

    words = [float(sum(field.words for field in group)) for group in groups]
    readable = [float(sum(field.readable for field in group)) for group in groups]
    ratios = np.array([sum(field.ratio for field in group) for group in groups], dtype=float)
    own = bootstrap_weights(np.zeros(len(scored), dtype=bool), rng)
    ones = np.ones(len(scored))
    pictures = {
        (name, place): resampled_mean(
            np.array([float(getattr(getattr(one, place), name)) for one in scored]), ones, own
        )
        for place in ("fields", "whole")
        for name in ("psnr", "fft2d", "mse")
    }
    pictures["gain", "fields"] = resampled_mean(np.array([one.gain for one in scored]), ones, own)
    return Summary(
        unit="documents" if many else "fields",
        units=len(groups),
        documents=len(scored),
        words=int(sum(words)),
        exact=share([sum(field.exact for field in group) for group in groups], words),
        relative=share([sum(field.both for field in group) for group in groups], readable),
        ratio=resampled_mean(ratios, np.array([len(group) for group in groups], dtype=float), weights),
        original=share(readable, words),
        pictures=pictures,
        guessed=float(np.mean([one.guessed for one in scored])) if scored else 0.0,
    )
