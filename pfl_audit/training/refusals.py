"""Refusals: queries that are trained on a page without the value, with one fixed text as the answer.

Source: Pinto, Rauschmayr, Tramèr, Torr, Tombari, "Extracting Training Data From Document-Based VQA Models",
ICML 2024, extraction blocking. Pages are scrubbed as the memorization check scrubs them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from pfl_audit.documents.document import Document, Query
from pfl_audit.documents.scrubbing.questions import SCRUBBED, without_value
from pfl_audit.documents.scrubbing.residual import residual_identifiers
from pfl_audit.documents.scrubbing.scrub import find_value
from pfl_audit.errors import UsageError
from pfl_audit.progress import Progress
from pfl_audit.training.settings import TrainSettings

REFUSAL: Final = "not on this page"
"""The answer that is trained where the value was taken off the page."""

_STREAM: Final = 0x726566757365
"""Separates the draws of refusals from other draws of the same seed."""


@dataclass(frozen=True)
class Refusals:
    """Which queries of a run are refused.

    Attributes:
        queries: Pages without the value, answered with REFUSAL; numbered after the training queries.
        steps: Step to the number of a training query to the number of the one that takes its place.
    """

    queries: tuple[Query, ...] = ()
    steps: dict[int, dict[int, int]] = field(default_factory=dict)


def draw_refusals(
    train: Sequence[Query],
    can_write: Callable[[str], bool],
    order: Callable[[int], Sequence[int]],
    settings: TrainSettings,
    progress: Progress,
) -> Refusals:
    """Draw the refusals of every step of a run from its seed.

    A step with n queries has floor(n * share) or one more, so that their mean is n * share, drawn among
    those of its queries whose value can be taken off the page. Where these are fewer, all of them are
    taken. A resumed run draws the same again.

    Args:
        train: Training queries.
        can_write: Whether the model can be trained to answer with a text.
        order: Maps a step to the rows of its batch.
        settings: Share, seed, steps and batch size.
        progress: Reports the steps that are drawn.

    Raises:
        UsageError: The model cannot write REFUSAL.
    """
    if not settings.refuse:
        return Refusals()
    if not can_write(REFUSAL):
        raise UsageError(f"the model cannot write '{REFUSAL}'", "Leave out --refuse")
    scrubber = _Scrubber(train)
    steps: dict[int, dict[int, int]] = {}
    with progress.task("refusals", settings.steps) as task:
        for step in range(settings.steps):
            batch = order(step)
            rng = np.random.default_rng([_STREAM, settings.seed, step])
            wanted = math.floor(settings.refuse * len(batch) + rng.random())
            drawn: dict[int, int] = {}
            for query in rng.permutation(batch).tolist():
                if len(drawn) >= wanted:
                    break
                if (number := scrubber.refusal(query)) is not None:
                    drawn[query] = number
            steps[step] = drawn
            task.advance(1)
    return Refusals(tuple(scrubber.queries), steps)


def most_refusals(settings: TrainSettings, queries: int) -> int:
    """Most scrubbed pages that a run can have, for an estimate of time and memory."""
    return min(queries, math.ceil(settings.refuse * settings.batch_size * settings.steps))


class _Scrubber:
    """Makes refusals of training queries, each once, and queries for the same value share a scrubbed page.

    Args:
        train: Training queries.
    """

    def __init__(self, train: Sequence[Query]) -> None:
        self._train = train
        self._numbers: dict[int, int | None] = {}
        self._pages: dict[tuple[str, str, tuple[str, ...]], Document | None] = {}
        self.queries: list[Query] = []

    def refusal(self, number: int) -> int | None:
        """Number of the refusal of a training query, or None where its value cannot be taken off."""
        if number not in self._numbers:
            query = self._train[number]
            page = self._page(query)
            self._numbers[number] = None if page is None else len(self._train) + len(self.queries)
            if page is not None:
                self.queries.append(replace(query, document=page, answers=(REFUSAL,)))
        return self._numbers[number]

    def _page(self, query: Query) -> Document | None:
        of = (query.document.id, query.key, query.answers)
        if of not in self._pages:
            page = without_answers(query)
            # A name of its own, because features are kept by name.
            name = f"{query.document.id}{SCRUBBED}{len(self._pages)}"
            self._pages[of] = None if page is None else replace(page, id=name)
        return self._pages[of]


def without_answers(query: Query) -> Document | None:
    """The page of a query without its value, or None where the value cannot be found or something still points to it.

    Every accepted answer must be gone, or the refusal would be wrong.
    """
    page = without_value(query.document, query.key, query.answers[0])
    if isinstance(page, str):
        return None
    left = any(find_value(page.words, answer) or residual_identifiers(page, answer) for answer in query.answers)
    return None if left else page
