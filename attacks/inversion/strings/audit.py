"""Reads the strings of every update, and compares them with what clients wrote and with other fillings of the forms."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import isfinite

import numpy as np

from pfl_audit.attacks.inversion.analytic.limits import Limit
from pfl_audit.attacks.inversion.calls import Work, recorded
from pfl_audit.attacks.inversion.context import Case, GradientContext, keep_text
from pfl_audit.attacks.inversion.controls import FILLINGS, STRINGS, Counts, noise_like
from pfl_audit.attacks.inversion.gradients import observation_key
from pfl_audit.attacks.inversion.strings.recovery import Reading, Strings, read_strings
from pfl_audit.errors import NotAuditableError
from pfl_audit.files import sha256_json
from pfl_audit.models.gradient_protocol import GradientModel
from pfl_audit.progress import Silent, Task

_VERSION = 2
"""Incremented whenever strings are read in another way."""
Values = Sequence[Mapping[str, str]]
"""Field id to what is written there, one a page."""


@dataclass(frozen=True)
class FieldStrings:
    """Result on one update. Holds personal data.

    Attributes:
        written: What clients wrote, by page.
        right: Strings that were read and are in their field.
        counts: Measure to the share of strings in their fields, against the client's own pages and other fillings.
        quiet: The same of noise of the update's size, against the own pages.
    """

    name: str
    readings: tuple[Reading, ...]
    written: tuple[Mapping[str, str], ...]
    right: int
    counts: Mapping[str, Counts]
    quiet: Mapping[str, Counts]
    limits: tuple[Limit, ...]

    @property
    def named(self) -> int:
        """Strings that were read."""
        return sum(reading.named for reading in self.readings)

    @property
    def wanted(self) -> int:
        """Fields that are filled in, of all pages."""
        return sum(len(page) for page in self.written)


def attack(context: GradientContext) -> list[FieldStrings]:
    """Read the strings of every update.

    Raises:
        NotAuditableError: The model has no patch projection, or what clients wrote is not known as text.
    """
    found: dict[int, FieldStrings] = {}
    for at, read in _each(context):
        case = context.cases[at]
        if case.drawn is None or any(truth.values is None for truth in case.truths) or not case.truths:
            keep_text(context, "strings", case, _named(read.own))
        else:
            found[at] = compare(case, read.own, read.quiet)
    if not found:
        raise NotAuditableError(
            "what the client wrote is not known as text, and strings cannot be scored; what was read is in private/",
            "Leave --document and --gradient out to score drawn values",
        )
    return [found[at] for at in sorted(found)]


@dataclass(frozen=True)
class _Read:
    """What an update gave, and noise of its size."""

    own: Strings
    quiet: Strings


def _each(context: GradientContext) -> Iterator[tuple[int, _Read]]:
    """The number of each case and what was read of it."""
    seen = [case.seen for case in context.cases]
    parts = [[_VERSION, observation_key(context.model, one), one.scaled, context.seed] for one in seen]
    keys = [sha256_json(["inversion", "strings", *some]) for some in parts]
    fields = [len(one.template.fields) for one in seen]

    def work(at: int) -> Work[_Read]:
        return partial(_read, rng=context.rng("inversion", "strings", seen[at].name))

    return recorded(context, keys, work, _Read, "strings by field", fields)


def _read(model: GradientModel, case: Case, task: Task, *, rng: np.random.Generator) -> _Read:
    own = read_strings(model, case.seen, rng, task)
    noise = replace(case.seen, gradient=noise_like(case.seen.gradient, rng))
    return _Read(own, read_strings(model, noise, rng, Silent()))


def compare(case: Case, own: Strings, quiet: Strings) -> FieldStrings:
    """Hold strings that were read against what clients wrote, and against other fillings."""
    written = tuple(dict(truth.values or {}) for truth in case.truths)
    others = [] if case.drawn is None else [case.drawn(number) for number in range(FILLINGS)]
    pages: list[Values] = [written, *others]
    counts = np.array([_counts(own.readings, values) for values in pages])
    return FieldStrings(
        case.seen.name,
        own.readings,
        written,
        int(counts[0, 0]),
        {STRINGS: counts},
        {STRINGS: np.array([_counts(quiet.readings, written)])},
        own.limits,
    )


def _counts(readings: Sequence[Reading], pages: Values) -> tuple[int, int]:
    """Read strings that are in their fields, and the larger of how many there are and how many were read."""
    left = Counter((field, " ".join(text.split())) for page in pages for field, text in page.items())
    wanted, named, right = left.total(), 0, 0
    for reading in readings:
        named += reading.named
        place = next((field for field in reading.fields if left[field, reading.text] > 0), None)
        if reading.named and place is not None:
            left[place, reading.text] -= 1
            right += 1
    return right, max(wanted, named)


def _named(found: Strings) -> dict[str, object]:
    return {
        "strings": [
            {"text": one.text, "fields": list(one.fields), "read": one.named, "excess": _finite(one.nearness.own),
             "excess with another letter": _finite(one.nearness.other),
             "excess of random strings": _finite(one.nearness.random)}
            for one in found.readings
        ],
        "limits": [limit.words for limit in found.limits],
    }  # fmt: skip


def _finite(excess: float) -> float | None:
    """An excess as JSON can hold it; None where there was nothing to compare with."""
    return excess if isfinite(excess) else None
