"""Questions about pages from which the answer has been taken: what a model still knows is memorised.

Shared by the memorization test and by the membership features that come from it
(privacy-aware-docvqa, section 5.1 and appendix D.1).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from pfl_audit.documents.corpus import Corpus, Problem
from pfl_audit.documents.document import Document, Query
from pfl_audit.documents.keys import PROVIDER_KEYS, draw_question
from pfl_audit.documents.picture_lines import PictureLine, ReadLines, boxes_of_value, shows
from pfl_audit.documents.scrub import THRESHOLD, is_written_out, scrub

SCRUBBED = "/scrubbed/"
"""Between a page's name and a key, in the id of a question about the page without its value."""

UNKNOWN = "the corpus does not say what the value is"
ABSENT = "the value does not stand among its words, so nothing can be taken off"
PICTURE_ONLY = "its words point to the name and do not give it, so the picture may show it where nothing can be blurred"
"""Reasons for which a page is not asked about."""


@dataclass(frozen=True)
class ScrubbedQuestions:
    """The test set of one key.

    Attributes:
        key: What is asked for.
        queries: One a page; its document is the scrubbed page, its answer what was taken off.
        skipped: Pages that cannot be tested, with the reason.
    """

    key: str
    queries: tuple[Query, ...]
    skipped: tuple[Problem, ...]


def scrubbed_questions(
    corpus: Corpus,
    key: str,
    *,
    seed: int,
    blue: Corpus | None = None,
    threshold: float = THRESHOLD,
    read: ReadLines | None = None,
) -> ScrubbedQuestions:
    """Build the test set of a key: every page once, without the answer, with one of the key's questions.

    Args:
        corpus: RED.
        key: What is asked for.
        seed: Of the choice of templates; each page's choice depends on the page alone.
        blue: Training corpus; where RED does not give a member's value, its value there is taken
            (appendix D.1.3).
        threshold: Threshold of the fuzzy match.
        read: Reads the pictures by OCR; the lines that it finds the value in are blurred as well.
    """
    values = _values(corpus, key, blue)
    lines = read([page for page in corpus.documents if page.id in values and page.image is not None]) if read else {}
    queries: list[Query] = []
    skipped: list[Problem] = []
    for document in corpus.documents:
        value = values.get(document.id)
        left = UNKNOWN if value is None else without_value(document, key, value, threshold, lines.get(document.id, ()))
        if value is None or isinstance(left, str):
            skipped.append(Problem(document.id, str(left)))
        else:
            queries.append(_question(document, left, key, value, seed))
    return ScrubbedQuestions(key, tuple(queries), tuple(skipped))


def scrubbed_id(document: Document, key: str) -> str:
    """Id of a page's question in the test set of ``key``; recorded answers go by it."""
    return f"{document.id}{SCRUBBED}{key}"


def without_value(
    document: Document,
    key: str,
    value: str,
    threshold: float = THRESHOLD,
    lines: Sequence[PictureLine] = (),
) -> Document | str:
    """A page without a value, or why it cannot be asked about.

    A name is often a drawn logo. Where the words give it only in a domain or in part, the picture is where
    the rest of it is, and without a box it cannot be blurred.

    Args:
        document: The page.
        key: What is asked for.
        value: What is taken off.
        threshold: Threshold of the fuzzy match.
        lines: What OCR reads in the picture; lines that show the value are blurred as well.
    """
    scrubbed = scrub(document, value, threshold)
    boxes = boxes_of_value(lines, value, threshold)
    if not scrubbed.removed and not boxes:
        return ABSENT
    page = scrubbed.document
    if page.image is None:
        return page
    if key == "provider_name" and not (
        is_written_out(document.words, value, threshold) or shows(lines, value, threshold)
    ):
        return PICTURE_ONLY
    return replace(page, image=page.image.blur(boxes)) if boxes else page


def _question(document: Document, left: Document, key: str, value: str, seed: int) -> Query:
    digest = hashlib.sha256(f"{seed}/{scrubbed_id(document, key)}".encode()).digest()
    rng = np.random.default_rng(int.from_bytes(digest[:8], "little"))
    return Query(scrubbed_id(document, key), left, draw_question(key, rng), (value,), key)


def _values(corpus: Corpus, key: str, blue: Corpus | None) -> dict[str, str]:
    """Page to value: what its own question says, else (for the name) its provider, else BLUE's value."""
    asked = {query.document.id: query.answers[0] for query in corpus.queries if query.key == key}
    trained: Mapping[str, str] = {}
    if blue is not None and key in PROVIDER_KEYS:
        trained = {query.document.provider: query.answers[0] for query in blue.queries if query.key == key}
    values: dict[str, str] = {}
    for document in corpus.documents:
        value = asked.get(document.id)
        if value is None and key == "provider_name":
            value = document.provider
        value = value or trained.get(document.provider)
        if value is not None:
            values[document.id] = value
    return values
