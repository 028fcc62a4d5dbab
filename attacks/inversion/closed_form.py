"""Runs the closed form for encoders of words on every observation and scores the result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from time import monotonic

import numpy as np
from torch import Tensor

from pfl_audit.attacks.inversion.analytic.limits import Limit
from pfl_audit.attacks.inversion.analytic.recovery import Recovery
from pfl_audit.attacks.inversion.calls import Read, read_each
from pfl_audit.attacks.inversion.canvas import picture_of
from pfl_audit.attacks.inversion.context import Case, GradientContext, texts_of
from pfl_audit.attacks.inversion.controls import (
    BOXES,
    TOKENS,
    Counts,
    counts_in_place,
    noise_like,
    private_tokens,
)
from pfl_audit.attacks.inversion.fit import encoder_misfit, misfit_limits
from pfl_audit.attacks.inversion.reading import ReadingEngine
from pfl_audit.attacks.inversion.scoring import Scored, pack, scored_by, scoring
from pfl_audit.attacks.inversion.word_text import encoder_of, hindrance, solve
from pfl_audit.models.calls import Call, Calls
from pfl_audit.models.gradient_protocol import GradientModel
from pfl_audit.models.samples import Text
from pfl_audit.models.word_encoder import WordEncoder
from pfl_audit.progress import Task


@dataclass(frozen=True, eq=False)
class Solved:
    """Result of the closed form on one observation.

    Attributes:
        scored: Pictures and words; None where no pixels came back.
        right: Number of them recovered at their positions.
        boxes: Number of them recovered with all four edges.
        counts: Measure to the tokens of private fields that came back, against the client's own page and against other
            fillings of its form.
        quiet: The same of noise of the update's size, against the own page alone.
        misfit: ``fit.misfit`` of the update, or None where too little came back.
        sure: Number of tokens that the closed form calls sure.
        noise: Standard deviation of the noise found on every entry.
        limits: Why something is missing.
        goes_on: Whether a search can begin with what is here.
        seconds: Wall time.
    """

    scored: Scored | None
    name: str
    tokens: int
    right: int
    boxes: int
    counts: Mapping[str, Counts]
    quiet: Mapping[str, Counts]
    misfit: float | None
    sure: int
    noise: float
    limits: tuple[Limit, ...]
    goes_on: bool
    seconds: float


def attack(context: GradientContext, readers: Calls[ReadingEngine]) -> list[Solved]:
    """Solve every observation.

    Raises:
        NotAuditableError: The model has no encoder of words, or no truth to compare with.
        AuditError: The gradient holds nothing of the embeddings.
    """
    encoder_of(context.model)
    found = read_each(context, "closed form", "analytic", _solve)
    solved = {at: read.compared for at, read in found.items() if read.compared is not None}
    pages: dict[int, Call[ReadingEngine, Scored]] = {}
    for at in solved:
        case, page = context.cases[at], found[at].page
        if page is not None:
            pages[at] = scoring(case, [pack(page)], context.rng("inversion", "guesses", case.seen.name))
    scored = scored_by(readers, pages, context.progress) if pages else []
    by_page = dict(zip(sorted(pages), scored, strict=True))
    return [replace(one, scored=by_page.get(at)) for at, one in solved.items()]


def _solve(model: GradientModel, case: Case, task: Task, *, rng: np.random.Generator) -> Read[Solved]:
    encoder = encoder_of(model)
    began = monotonic()
    got = solve(model, case.seen)
    seconds = monotonic() - began
    page = picture_of(got.pixels) if got.pixels is not None else None
    if case.truths:
        return Read(_compare(model, encoder, case, got, rng, seconds), {}, page)
    return Read(None, _pieces(encoder, got), page)


def _compare(
    model: GradientModel, encoder: WordEncoder, case: Case, got: Recovery, rng: np.random.Generator, seconds: float
) -> Solved:
    truth = case.truths[0].text
    ids, boxes = encoder.tokens(truth), encoder.boxes(truth)
    count = min(len(ids), len(got.tokens))
    of_noise = solve(model, replace(case.seen, gradient=noise_like(case.seen.gradient, rng)))
    apart = encoder_misfit(model, case.seen, got)
    return Solved(
        scored=None,
        name=case.seen.name,
        tokens=len(ids),
        right=int((ids[:count] == got.tokens[:count]).sum()),
        boxes=int((boxes[:count] == got.boxes[:count]).all(dim=1).sum()),
        counts=counts_of(encoder, case, got),
        quiet=counts_of(encoder, Case(case.seen, case.truths), of_noise),
        misfit=apart,
        sure=int(got.sure[:, 0].sum()),
        noise=got.noise,
        limits=(*got.limits, *misfit_limits(apart)),
        goes_on=model.sees_page and hindrance(model, case.seen, got) is None,
        seconds=seconds,
    )


def counts_of(encoder: WordEncoder, case: Case, got: Recovery) -> dict[str, Counts]:
    """Tokens of private fields in place, with their boxes, and in any order: of the own page, and of other fillings."""

    def read(text: Text) -> tuple[tuple[Tensor, ...], Tensor]:
        boxes = encoder.boxes(text)
        return (encoder.tokens(text), boxes), private_tokens(boxes, case.seen.template)

    pages = [[read(text) for text in texts] for texts in texts_of(case)]
    return counts_in_place(pages, {TOKENS: got.tokens, BOXES: got.boxes}, got.present)


def _pieces(encoder: WordEncoder, got: Recovery) -> dict[str, object]:
    return {
        "text": encoder.decode(got.tokens.tolist()),
        "tokens": got.tokens.tolist(),
        "boxes": got.boxes.tolist(),
        "sure": got.sure.tolist(),
        "present": got.present.tolist(),
        "limits": [limit.words for limit in got.limits],
    }
