"""Features of units of privacy from their documents alone, without any model: the input of the blind baseline."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

import numpy as np
import pandas as pd
from sklearn.feature_extraction.text import TfidfVectorizer

from pfl_audit.documents.corpus import Corpus
from pfl_audit.documents.document import Document, Query
from pfl_audit.fitness.page_look import PageLook, page_look
from pfl_audit.metrics.arrays import Floats
from pfl_audit.progress import Progress

_ENGLISH: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTHS: Final = {name: number for number, name in enumerate(_ENGLISH, 1)} | {"mär": 3, "mai": 5, "okt": 10, "dez": 12}
"""First three letters, English and German."""
_NAME: Final = r"(?P<name>[^\W\d_]{3,9})\.?"
_YEAR: Final = r"(?P<year>(?:19|20)\d\d)"
_END: Final = r"(?![\w]|[./-]\d)"
_FORMS: Final = tuple(
    re.compile(form, re.IGNORECASE)
    for form in (
        rf"(?<![\w./-]){_YEAR}[-/.](?P<a>\d{{1,2}})[-/.]\d{{1,2}}{_END}",
        rf"(?<![\w./-])(?P<a>\d{{1,2}})(?P<sign>[-/.])(?P<b>\d{{1,2}})(?P=sign)(?P<year>(?:19|20)?\d\d){_END}",
        rf"(?<!\w)\d{{1,2}}(?P<dash>[-/\s]){_NAME}(?P=dash)(?P<year>\d\d){_END}",
        rf"(?<![^\W\d_]){_NAME}[\s,-]{{1,3}}(?:\d{{1,2}}(?:st|nd|rd|th)?,?\s{{1,2}})?{_YEAR}(?!\w)",
    )
)
_PIVOT: Final = 50
"""Two-digit years below are of this century."""


def dates_in(text: str) -> list[tuple[int, int]]:
    """Year and month of every date that a text prints: 2022-09-07, 09/07/22, 7.9.2022, 7-Sep-22, September 2022.

    With slashes and hyphens the month comes first, unless it cannot; with points the day does. What has no month
    within 1 to 12 is no date.

    Returns:
        Year (1900 to 2099) and month (1 to 12), by form and place.
    """
    return [date for form in _FORMS for match in form.finditer(text) if (date := _date(match)) is not None]


def _date(match: re.Match[str]) -> tuple[int, int] | None:
    parts = match.groupdict()
    year = int(parts["year"])
    if len(parts["year"]) == 2:
        year += 2000 if year < _PIVOT else 1900
    return next(((year, month) for month in _months(parts) if 1 <= month <= 12), None)


def _months(parts: dict[str, str | None]) -> Iterator[int]:
    """What may be the month, the likeliest first."""
    if name := parts.get("name"):
        yield _MONTHS.get(name[:3].casefold(), 0)
    elif parts.get("sign") == ".":
        yield int(parts["b"] or 0)
    elif parts.get("a"):
        yield int(parts["a"] or 0)
        yield int(parts.get("b") or 0)


KINDS: Final = {
    "counts": "numbers of documents, pages and questions, length of answers",
    "keys": "share of each key among the questions",
    "text": "words a page, their length, digits, capitals",
    "layout": "size and place of the words, covered area, margins",
    "dates": "years and months of the dates on the pages",
    "images": "size, brightness, contrast, sharpness and colour of the page images",
    "words": "the words themselves, without digits",
}
"""Kinds of features, and what they hold."""
MAX_WORDS: Final = 2000
"""Columns of the words: those that occur most often in the corpus."""
MAX_IMAGES: Final = 10
"""Page images that are opened of one unit, spread evenly over its pages."""
_WORD: Final = r"(?u)\b[^\W\d_]{2,}\b"
_DIGIT: Final = re.compile(r"\d")


@dataclass(frozen=True)
class DocumentFeatures:
    """One row a unit of privacy.

    Attributes:
        units: Their names, sorted.
        tables: Kind of feature (``counts``, ``keys``, ``text``, ``layout``, ``dates``, ``images``) to its columns,
            float64, indexed by unit; NaN where the pages of a unit do not have it.
        words: TF-IDF of the words without digits, float64 (units, at most MAX_WORDS), rows of length one, or zero
            where a unit has no such word.
        vocabulary: The word of each column of ``words``.
    """

    units: tuple[str, ...]
    tables: Mapping[str, pd.DataFrame]
    words: Floats
    vocabulary: tuple[str, ...] = ()


def document_features(
    corpus: Corpus, progress: Progress, look: Callable[[Document], PageLook | None] = page_look
) -> DocumentFeatures:
    """Describe every unit of privacy of a corpus by its documents, questions and page images.

    Labels of membership, names of files and the order of the records are not used. An image that cannot be read
    counts as missing.

    Args:
        corpus: At least one question.
        look: Describes the image of a page; None where there is none.
    """
    groups = corpus.by_unit()
    keys = sorted({query.key for query in corpus.queries})
    rows: dict[str, list[dict[str, float]]] = {}
    texts = []
    with progress.task("images for the blind baseline", len(groups)) as task:
        for queries in groups.values():
            pages = list({query.document.id: query.document for query in queries}.values())
            found = {
                "counts": _counts(queries, pages),
                "keys": {key: sum(query.key == key for query in queries) / len(queries) for key in keys},
                "text": _mean([_text(page) for page in pages]),
                "layout": _mean([_layout(page) for page in pages]),
                "dates": _dates(pages),
                "images": _mean([seen.statistics for page in spread(pages) if (seen := look(page)) is not None]),
            }
            for kind, row in found.items():
                rows.setdefault(kind, []).append(row)
            texts.append(" ".join(word for page in pages for word in page.words))
            task.advance()
    index = pd.Index(groups, name="unit")
    tables = {kind: pd.DataFrame(several, index=index, dtype=np.float64) for kind, several in rows.items()}
    return DocumentFeatures(tuple(groups), tables, *_words(texts))


def _counts(queries: Sequence[Query], pages: Sequence[Document]) -> dict[str, float]:
    files = len({page.file for page in pages})
    asked = [len(list(group)) for _, group in groupby(sorted(query.document.id for query in queries))]
    return {
        "documents": files,
        "pages": len(pages),
        "questions": len(queries),
        "questions a page": len(queries) / len(pages),
        "spread of questions": float(np.std(asked)),
        "accepted answers": float(np.mean([len(query.answers) for query in queries])),
        "length of the answer": float(np.mean([len(query.answers[0]) for query in queries])),
        "length of the question": float(np.mean([len(query.question) for query in queries])),
    }


def _text(page: Document) -> dict[str, float]:
    text = "".join(page.words)
    letters = max(1, len(text))
    words = max(1, len(page.words))
    return {
        "words": len(page.words),
        "word length": len(text) / words,
        "digits": len(_DIGIT.findall(text)) / letters,
        "capitals": sum(map(str.isupper, text)) / letters,
        "letters beyond ASCII": sum(letter > "\x7f" for letter in text) / letters,
        "words with digits": sum(_DIGIT.search(word) is not None for word in page.words) / words,
    }


def _layout(page: Document) -> dict[str, float]:
    if not len(page.boxes):
        return {}
    left, top, right, bottom = page.boxes.astype(np.float64).T
    return {
        "box height": float(np.mean(bottom - top)),
        "box width": float(np.mean(right - left)),
        "covered area": float(np.sum((right - left) * (bottom - top))),
        "centre across": float(np.mean(left + right) / 2),
        "centre down": float(np.mean(top + bottom) / 2),
        "spread across": float(np.std(left)),
        "spread down": float(np.std(top)),
        "left margin": float(np.quantile(left, 0.05)),
        "top margin": float(np.min(top)),
        "bottom edge": float(np.max(bottom)),
    }


def _dates(pages: Sequence[Document]) -> dict[str, float]:
    found = [dates_in(" ".join(page.words)) for page in pages]
    every = [date for dates in found for date in dates]
    counts = {"dates a page": len(every) / len(pages)}
    if not every:
        return counts
    times = [year + (month - 1) / 12 for year, month in every]
    months = [month for _, month in every]
    return counts | {
        "mean year": float(np.mean([year for year, _ in every])),
        "mean time": float(np.mean(times)),
        "earliest": min(times),
        "latest": max(times),
        "mean month": float(np.mean(months)),
    }


def spread(pages: Sequence[Document]) -> list[Document]:
    """At most MAX_IMAGES of the pages, evenly."""
    step = math.ceil(len(pages) / MAX_IMAGES)
    return list(pages[::step])


def _mean(rows: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Mean of every column over the rows that have it."""
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: float(np.mean([row[name] for row in rows if name in row])) for name in names}


def _words(texts: Sequence[str]) -> tuple[Floats, tuple[str, ...]]:
    vectors = TfidfVectorizer(token_pattern=_WORD, max_features=MAX_WORDS, min_df=2, sublinear_tf=True)
    try:
        found: Floats = vectors.fit_transform(texts).toarray()
    except ValueError:  # no word is on the pages of two units
        return np.zeros((len(texts), 0)), ()
    return found, tuple(vectors.get_feature_names_out())
