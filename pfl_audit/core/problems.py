"""Records that could not be used, listed without the names of pages."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from pfl_audit.core.redaction import Redactor
from pfl_audit.documents.corpus import Problem

_LISTED = 100
_REASONS, _LONGEST = 20, 150
"""Reasons that are counted by themselves, the rest together, and characters of one."""
OTHERS = "other reasons"
_PLACE = re.compile(r"(?:.*/)?(?P<file>[^/]+\.(?:jsonl|npy))(?P<place> (?:line|row) \d+)?")
"""How a reader names a record by its position; everything else is the name of a page or of its file."""
_OURS = re.compile(r"(corpus|forms|docs)\.jsonl|(red|blue)(_(train|valid|val|test|positive|negative|client|\d+))*\.npy")
"""File names that a format prescribes, which identify no company."""


def list_problems(read: Iterable[Problem], pages: Iterable[Problem], redactor: Redactor) -> list[str]:
    """The first problems: records by their position in a file, pages by pseudonym and in its order.

    Args:
        read: Problems of a reader, with a line or row of a file, or of a page.
        pages: Problems of pages, by name.
        redactor: Makes the pseudonyms.
    """
    places = []
    named = [f"{redactor.page(problem.record)}: {_reason(problem, redactor)}" for problem in pages]
    for problem in read:
        place = _PLACE.fullmatch(problem.record)
        reason = _reason_read(problem, redactor)
        if redactor.reveal:
            places.append(f"{problem.record}: {reason}")
        elif place is None:
            named.append(f"{redactor.page(problem.record)}: {reason}")
        else:
            file = place["file"] if _OURS.fullmatch(place["file"]) else "a file"
            places.append(f"{file}{place['place'] or ''}: {reason}")
    return [*places, *sorted(named)][:_LISTED]


def count_problems(read: Iterable[Problem], pages: Iterable[Problem], redactor: Redactor) -> dict[str, int]:
    """Number of all problems by reason, the most frequent first; the arguments are those of ``list_problems``."""
    counts = Counter(
        reason[:_LONGEST]
        for reason in (
            *(_reason_read(problem, redactor) for problem in read),
            *(_reason(problem, redactor) for problem in pages),
        )
    )
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    rest = sum(count for _, count in ordered[_REASONS:])
    return dict(ordered[:_REASONS]) | ({OTHERS: rest} if rest else {})


def _reason_read(problem: Problem, redactor: Redactor) -> str:
    """Why a record that a reader left out cannot be used."""
    return problem.reason if _PLACE.fullmatch(problem.record) else _reason(problem, redactor)


def _reason(problem: Problem, redactor: Redactor) -> str:
    """Why it cannot be used, without the name of the page."""
    named = problem.record.split(".")[0] in problem.reason
    return "it cannot be read" if named and not redactor.reveal else problem.reason
