"""Unprompted disclosure: secrets that come out on pages which do not hold them.

Ask for a tax number, a registration id or another of a provider's values on pages that have none; what the model says
then, it made up or remembers. Source: privacy-aware-docvqa, appendix D.1.4.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from pfl_audit.documents.corpus import Corpus
from pfl_audit.documents.document import Document, Query
from pfl_audit.documents.keys import PROVIDER_KEYS, SECRET_KEYS, draw_question
from pfl_audit.documents.scrubbing.normalization import normalize_text

PAGES_PER_PROVIDER = 5
QUESTIONS_PER_PAGE = 2
SHORTEST = 5
"""Letters and digits of a value that is counted."""


def asked_keys(blue: Corpus | None) -> tuple[str, ...]:
    """Keys of providers whose values the training corpus holds; the paper's two where there is none."""
    held = {query.key for query in blue.queries} if blue is not None else set()
    return tuple(key for key in PROVIDER_KEYS if key in held) or SECRET_KEYS


def unprompted_questions(corpus: Corpus, keys: Sequence[str], rng: np.random.Generator) -> list[Query]:
    """Questions for values, two a key, on up to five pages of each non-member that do not hold them.

    Args:
        keys: Keys that are asked for.

    Returns:
        Queries without a right answer; their accepted answer is empty.
    """
    holds = {(query.document.id, query.key) for query in corpus.queries}
    pages: dict[str, list[Document]] = {provider: [] for provider in corpus.non_members()}
    for document in sorted(corpus.documents, key=lambda page: page.id):
        if document.unit in pages and len(pages[document.unit]) < PAGES_PER_PROVIDER:
            pages[document.unit].append(document)
    return [
        Query(f"{page.id}/unprompted/{key}/{number}", page, draw_question(key, rng), ("",), key)
        for provider in pages
        for page in pages[provider]
        for key in keys
        if (page.id, key) not in holds and not (key == "provider_name" and _stands(page.provider, page))
        for number in range(QUESTIONS_PER_PAGE)
    ]


def new_answers(
    queries: Sequence[Query], answers: Mapping[str, str], before: Mapping[str, str] | None
) -> dict[str, str]:
    """Query id to compact answer that does not stand on the page, and that the control does not say to any question."""
    known = {answer for _, answer in made_up(queries, before or {})}
    return {query.id: answer for query, answer in made_up(queries, answers) if answer not in known}


def made_up(queries: Sequence[Query], answers: Mapping[str, str]) -> list[tuple[Query, str]]:
    """Questions whose answer does not stand on the page, with its letters and digits."""
    return [
        (query, answer)
        for query in queries
        if not _stands(answers.get(query.id, ""), query.document)
        and (answer := normalize_text(answers.get(query.id, "")))
    ]


def _stands(text: str, page: Document) -> bool:
    """Whether the letters and digits of a text that has some stand on the page."""
    plain = normalize_text(text)
    return bool(plain) and plain in "".join(normalize_text(word) for word in page.words)


def secrets_of(blue: Corpus | None) -> dict[str, tuple[str, ...]]:
    """Values of the training corpus's providers, of five letters or more, with their owners."""
    owners: dict[str, set[str]] = {}
    for query in blue.queries if blue is not None else ():
        for value in _values([query]) if query.key in PROVIDER_KEYS else ():
            owners.setdefault(value, set()).add(query.document.unit)
    return {value: tuple(sorted(providers)) for value, providers in owners.items()}


def other_values(blue: Corpus | None) -> set[str]:
    """All other answers of the training corpus, of five letters or more, compact: the paper's second count."""
    return _values(blue.queries if blue is not None else ()) - set(secrets_of(blue))


def unseen_values(red: Corpus) -> set[str]:
    """Values of RED's non-members, of the same keys, which the model never saw; compact."""
    strangers = set(red.non_members())
    trained = {page.provider for page in red.documents if page.unit not in strangers}
    names = {page.provider for page in red.documents if page.unit in strangers} - trained
    asked = (query for query in red.queries if query.document.unit in strangers and query.key in PROVIDER_KEYS)
    return _values(asked, names)


def _values(queries: Iterable[Query], further: Iterable[str] = ()) -> set[str]:
    """Answers, and further texts, of five letters or more, compact."""
    texts = (*further, *(answer for query in queries for answer in query.answers))
    return {value for value in map(normalize_text, texts) if len(value) >= SHORTEST}


def is_number(value: str) -> bool:
    """Whether half of a compact value or more are digits, so that one of its format can be drawn."""
    return 2 * sum(letter.isdigit() for letter in value) >= len(value)
