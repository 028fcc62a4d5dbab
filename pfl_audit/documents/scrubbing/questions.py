"""Questions about scrubbed pages: an answer that a model still gives is memorized.

Used by the memorization test and by the membership features derived from it (privacy-aware-docvqa, section 5.1 and
appendix D.1).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from pfl_audit.documents.corpus import Corpus, Problem
from pfl_audit.documents.document import Document, Query
from pfl_audit.documents.keys import PROVIDER_KEYS, draw_question
from pfl_audit.documents.page_ink import not_on_ink
from pfl_audit.documents.scrubbing.ocr_lines import OcrLine, ReadOcrLines, shows_value, value_boxes
from pfl_audit.documents.scrubbing.scrub import THRESHOLD, contains_value, scrub
from pfl_audit.provider_identity import provider_identity

SCRUBBED = "/scrubbed/"
"""Separator of page id and key in the id of a question about a scrubbed page."""

UNKNOWN = "the corpus does not give the value"
ABSENT = "the value is not among its words, so nothing can be removed"
IMAGE_ONLY = "its words imply the name without containing it, so the image may show it where nothing can be blurred"
MISPLACED = "nothing is printed where its words say that the value is, so the picture still shows it"
"""Reasons why a page is left out of a test set."""


@dataclass(frozen=True)
class ScrubbedQuestions:
    """Test set of one key.

    Attributes:
        queries: One per page; the document is the scrubbed page, the answer is the removed value.
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
    read: ReadOcrLines | None = None,
) -> ScrubbedQuestions:
    """Build the test set of a key: every page once, scrubbed of its answer, with one of the key's questions.

    Args:
        corpus: RED corpus.
        seed: Seed of the choice of templates; the choice for a page depends on the page alone.
        blue: Training corpus; supplies the value of a member if RED does not give it (appendix D.1.3).
        read: Reads the images by OCR; lines that contain the value are blurred as well.
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
    """Id of a page's question in the test set of ``key``, which recorded answers refer to."""
    return f"{document.id}{SCRUBBED}{key}"


def without_value(
    document: Document, key: str, value: str, threshold: float = THRESHOLD, lines: Sequence[OcrLine] = ()
) -> Document | str:
    """The scrubbed page, or the reason why it cannot be tested.

    A name is often a drawn logo. If the words contain it only in a domain or in part, the rest of it is in the image,
    and without a box it cannot be blurred.

    Args:
        lines: OCR lines of the image; lines that contain the value are blurred as well.
    """
    scrubbed = scrub(document, value, threshold)
    boxes = value_boxes(lines, value, threshold)
    if not scrubbed.removed and not boxes:
        return ABSENT
    page = scrubbed.document
    if page.image is None or document.image is None:
        return page
    if key == "provider_name" and not (
        contains_value(document.words, value, threshold) or shows_value(lines, value, threshold)
    ):
        return IMAGE_ONLY
    if scrubbed.removed and document.printed is not None and not_on_ink(document.printed[list(scrubbed.removed)]):
        return MISPLACED
    return replace(page, image=page.image.blur(boxes)) if boxes else page


def _question(document: Document, left: Document, key: str, value: str, seed: int) -> Query:
    digest = hashlib.sha256(f"{seed}/{scrubbed_id(document, key)}".encode()).digest()
    rng = np.random.default_rng(int.from_bytes(digest[:8], "little"))
    return Query(scrubbed_id(document, key), left, draw_question(key, rng), (value,), key)


def _values(corpus: Corpus, key: str, blue: Corpus | None) -> dict[str, str]:
    """Page to value: the answer to its own question, else (for the name) its provider, else the value in BLUE."""
    asked = {query.document.id: query.answers[0] for query in corpus.queries if query.key == key}
    trained: Mapping[str, str] = {}
    if blue is not None and key in PROVIDER_KEYS:
        trained = {
            provider_identity(query.document.provider): query.answers[0] for query in blue.queries if query.key == key
        }
    values: dict[str, str] = {}
    for document in corpus.documents:
        value = asked.get(document.id)
        if value is None and key == "provider_name":
            value = document.provider
        value = value or trained.get(provider_identity(document.provider))
        if value is not None:
            values[document.id] = value
    return values
