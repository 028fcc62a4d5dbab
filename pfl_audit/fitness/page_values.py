"""Pages without text, and answers that do not occur on their page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from rapidfuzz import fuzz

from pfl_audit.documents.document import Query
from pfl_audit.documents.scrubbing.normalization import normalize_text
from pfl_audit.progress import Progress

_SIMILAR: Final = 90
"""Smallest similarity of a long answer and a passage, 0 to 100: one letter in ten may be misread."""
_LONG: Final = 8
"""Letters from which an answer may be misread."""


@dataclass(frozen=True)
class PageValues:
    """Answers and the text of their pages.

    Attributes:
        without_text: Ids of pages without a word, in the order of the corpus.
        asked: Key to the number of questions on pages with text.
        missing: Key to the number of these of which no accepted answer occurs on the page.
    """

    without_text: tuple[str, ...]
    asked: Mapping[str, int]
    missing: Mapping[str, int]


def page_values(queries: Sequence[Query], progress: Progress) -> PageValues:
    """Search the answers of questions on their pages, without case, accents, spaces and punctuation."""
    asked: Counter[str] = Counter()
    missing: Counter[str] = Counter()
    without_text: dict[str, None] = {}
    page, text = "", ""
    with progress.task("answers on their pages", len(queries)) as task:
        for query in queries:
            task.advance()
            if not query.document.words:
                without_text[query.document.id] = None
                continue
            if query.document.id != page:
                page, text = query.document.id, "".join(map(normalize_text, query.document.words))
            asked[query.key] += 1
            missing[query.key] += not any(_occurs(normalize_text(answer), text) for answer in query.answers)
    return PageValues(tuple(without_text), asked, +missing)


def _occurs(answer: str, text: str) -> bool:
    return answer in text or (
        _LONG <= len(answer) <= len(text)  # of two texts, the shorter is what partial_ratio looks for
        and fuzz.partial_ratio(answer, text, score_cutoff=_SIMILAR) >= _SIMILAR
    )
