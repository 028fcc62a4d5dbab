"""Which values of pages are secrets: no page of another company has them, and nothing on their own page reveals them.

The unit of privacy takes the place of the single form of reconstruction: a company's value occurs on all of its pages.
Members and non-members are counted alike, so that non-members are a control for secrets too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pfl_audit.attacks.guesses.field import Occurrences, count_in
from pfl_audit.documents.corpus import Corpus
from pfl_audit.documents.document import Document, Query
from pfl_audit.documents.scrubbing.normalization import merge_ocr_confusions, normalize_text
from pfl_audit.documents.scrubbing.page_words import PageWords


@dataclass(frozen=True)
class _Page:
    """A page with its words joined, in which a value is looked for before its words are."""

    unit: str
    words: PageWords
    text: str
    merged: str

    @classmethod
    def of(cls, document: Document) -> _Page:
        words = PageWords(document.words)
        return cls(document.unit, words, "".join(words.normalized), "".join(words.ocr_merged))


class Texts:
    """The pages of an audit and the values that are asked for on them, in which values are counted.

    Args:
        red: Audited pages.
        blue: Training corpus, or None.
        members: Unit of privacy to whether it was trained on, of those of which that is known.
    """

    def __init__(self, red: Corpus, blue: Corpus | None, members: Mapping[str, bool]) -> None:
        corpora = [red] if blue is None else [red, blue]
        self._pages = [_Page.of(document) for corpus in corpora for document in corpus.documents]
        self._held: dict[str, Counter[str]] = {}
        for query in (query for corpus in corpora for query in corpus.queries):
            for answer in query.answers:
                self._held.setdefault(normalize_text(answer), Counter())[query.document.unit] += 1
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

    def _counted(self, unit: str, value: str) -> tuple[int, int]:
        merged = merge_ocr_confusions(value)
        found = Counter({other: count for other, count in self._held.get(value, Counter()).items() if other != unit})
        for page in self._pages:
            if page.unit != unit and (value in page.text or merged in page.merged):
                found[page.unit] += count_in(page.words, value)
        public = sum(count for other, count in found.items() if other in self._public)
        return sum(found.values()) - public, public
