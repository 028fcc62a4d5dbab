"""A corpus of pages that were read and their labels."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence

from pfl_audit.documents.corpus import Corpus, Problem
from pfl_audit.documents.document import Document, Membership, Query
from pfl_audit.documents.images import PageImage
from pfl_audit.documents.record_validation import MAX_NAME
from pfl_audit.importing.labels import Row
from pfl_audit.importing.questions import Questions
from pfl_audit.importing.reading import ReadPage

FORMAT = "documents"


def by_document(pages: Sequence[ReadPage]) -> dict[str, list[ReadPage]]:
    """Document to its pages, in their order."""
    found: defaultdict[str, list[ReadPage]] = defaultdict(list)
    for page in pages:
        found[page.file].append(page)
    return dict(found)


def build_corpus(
    documents: Mapping[str, Sequence[ReadPage]], rows: Mapping[str, Row], questions: Questions, seed: int
) -> Corpus:
    """Ask for every value on the first page that shows it, else on the first page of its document.

    Args:
        documents: Document to its pages.
        rows: Document to its labels; a document without labels or without a value is a problem of the corpus.
        questions: Question templates.
        seed: Seed of the choice among them.
    """
    queries: list[Query] = []
    problems: list[Problem] = []
    membership: dict[str, Membership] = {}
    for name, pages in documents.items():
        row = rows.get(name)
        if row is None or not row.values:
            reason = "the table has no row for it" if row is None else "its row has no value"
            problems.append(Problem(name, reason, is_page=True))
            continue
        provider = row.provider or name
        membership[provider] = row.membership
        made: dict[int, Document] = {}
        for key, answers in row.values.items():
            at = _page_of(pages, answers)
            page = made.setdefault(at, _document(pages[at], provider, row))
            if len(f"{page.id}-{key}") > MAX_NAME:
                problems.append(Problem(name, f"its name and a key have more than {MAX_NAME:,} letters", is_page=True))
                continue
            question = questions.draw(key, page.id, seed)
            queries.append(Query(f"{page.id}-{key}", page, question, answers, key))
    return Corpus(tuple(queries), membership, FORMAT, tuple(problems))


def _document(page: ReadPage, provider: str, row: Row) -> Document:
    name, image = f"{page.file}_{page.number}", PageImage(page.picture)
    return Document(name, provider, page.words, page.boxes, image, row.split, person=row.person)


def _page_of(pages: Sequence[ReadPage], answers: Sequence[str]) -> int:
    wanted = [text for answer in answers if (text := _letters(answer))]
    for at, page in enumerate(pages):
        text = _letters(" ".join(page.words))
        if any(answer in text for answer in wanted):
            return at
    return 0


def _letters(text: str) -> str:
    return re.sub(r"[\W_]+", "", text).casefold()
