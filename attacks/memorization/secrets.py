"""Occurrences of values: secrets, and the number of training pages with a value.

A secret is on no page of another company, and nothing on its own page reveals it.

The unit of privacy takes the place of the single form of reconstruction: a company's value occurs on all of its pages.
Members and non-members are counted alike, so that non-members are a control for secrets too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from pfl_audit.attacks.guesses.field import Occurrences, count_in
from pfl_audit.documents.corpus import Corpus, is_training
from pfl_audit.documents.document import Document, Membership, Query
from pfl_audit.documents.scrubbing.normalization import normalize_text
from pfl_audit.documents.scrubbing.page_words import PageWords
from pfl_audit.documents.units import DOCUMENT


class Texts:
    """The pages of an audit and the values that are asked for on them, in which values are counted.

    Args:
        red: Audited pages.
        blue: Training corpus, or None.
        members: Unit of privacy to whether it was trained on, of those of which that is known.
    """

    def __init__(self, red: Corpus, blue: Corpus | None, members: Mapping[str, bool]) -> None:
        corpora = [red] if blue is None else [red, blue]
        self._pages = [(page, PageWords(page.words)) for corpus in corpora for page in corpus.documents]
        self._asked: dict[str, list[Document]] = {}
        for query in (query for corpus in corpora for query in corpus.queries):
            for answer in query.answers:
                self._asked.setdefault(normalize_text(answer), []).append(query.document)
        self._public = frozenset(unit for unit, trained in members.items() if not trained)
        self._known: dict[tuple[str, str], tuple[int, int]] = {}

    def occurrences(self, query: Query, clues: Sequence[object]) -> Occurrences:
        """Occurrences of the value that a question asks for outside the pages of its unit.

        Args:
            query: About a page from which the value was scrubbed.
            clues: What is left on that page and points to the value.

        Returns:
            Clues, occurrences on pages and among the values of other units, and of these those of non-members.
        """
        unit, value = query.document.unit, normalize_text(query.answers[0])
        if (unit, value) not in self._known:
            self._known[unit, value] = self._counted(unit, value)
        elsewhere, public = self._known[unit, value]
        return Occurrences(len(clues), elsewhere, public)

    def pages_with(self, text: str) -> int:
        """Number of pages on which a value stands, or of which it is the answer to a question."""
        value = normalize_text(text)
        asked = {page.id for page in self._asked.get(value, ())}
        return len(asked | {page.id for page, words in self._pages if count_in(words, value)}) if value else 0

    def _counted(self, unit: str, value: str) -> tuple[int, int]:
        found = Counter(page.unit for page in self._asked.get(value, ()) if page.unit != unit)
        for page, words in self._pages:
            if page.unit != unit:
                found[page.unit] += count_in(words, value)
        public = sum(count for other, count in found.items() if other in self._public)
        return sum(found.values()) - public, public


def training_texts(red: Corpus, blue: Corpus | None) -> Texts | None:
    """The training pages: those of BLUE, else of RED's members where the document is the unit; None elsewhere."""
    if blue is None and red.unit == DOCUMENT.name:
        blue = red.where(lambda query: red.label(query.document.unit) is Membership.MEMBER)
    if blue is None:
        return None
    used = blue.where(lambda query: is_training(query.document))  # of a corpus without splits, all of it
    return Texts(used if used.queries else blue, None, {})
