"""Words of a page in their normal forms, for searches."""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterable, Iterator
from functools import cached_property, lru_cache
from itertools import accumulate

from pfl_audit.documents.scrubbing.domains import domain_labels
from pfl_audit.documents.scrubbing.normalization import merge_ocr_confusions, normalize_text, to_latin
from pfl_audit.documents.scrubbing.stop_words import STOP_WORDS

_AMOUNT_OR_DATE = re.compile(
    r"[($€£+-]*\d{1,3}(,\d{3})*\.\d\d[)%]?|\(?[$€£]\s?[\d,.]+\)?|\d[\d,.]*[%$€£]|\d{1,3}(,\d{3})+"
    r"|\d{1,2}[/.]\d{1,2}[/.](\d{2}|\d{4})|\d{4}-\d\d-\d\d|\d{1,2}/\d{1,2}|\d{1,2}:\d\d(:\d\d)?(am|pm|a|p)?"
)


class PageWords:
    """Words of a page in reading order.

    Attributes:
        normalized: Result of ``normalize_text`` for each word.
        ocr_merged: Result of ``merge_ocr_confusions`` for each word.
    """

    def __init__(self, words: tuple[str, ...]) -> None:
        self.words = words
        self.normalized = [normalize_text(word) for word in words]
        self.ocr_merged = [merge_ocr_confusions(word) for word in self.normalized]

    @cached_property
    def has_capitals(self) -> bool:
        """Whether the page has capitals; some OCR engines fold case."""
        return any(word != word.lower() for word in self.words)

    def is_capitalized(self, index: int) -> bool:
        """Whether a word begins with a capital or a digit, as names do; always true on a page without capitals."""
        first = next((letter for letter in to_latin(self.words[index]) if letter.isalnum()), "")
        return not self.has_capitals or first.isdigit() or first != first.lower()

    def is_stop_word(self, index: int) -> bool:
        """Whether a word identifies no company by itself."""
        return self.normalized[index] in STOP_WORDS

    def has_distinctive(self, run: range) -> bool:
        """Whether a run holds a word that is no stop word."""
        return self._distinctive[run.stop] > self._distinctive[run.start]

    def is_named(self, run: range) -> bool:
        """Whether every word of a run that holds letters or digits is capitalized, or a domain."""
        return self._unnamed[run.stop] == self._unnamed[run.start]

    @cached_property
    def _distinctive(self) -> list[int]:
        """Words that are no stop words before each place, and in all: values repeat over thousands of runs."""
        flags = (bool(text) and text not in STOP_WORDS for text in self.normalized)
        return list(accumulate(flags, initial=0))

    @cached_property
    def _unnamed(self) -> list[int]:
        """Words that are neither capitalized nor a domain before each place, and in all."""
        flags = (
            bool(text) and not (self.is_capitalized(index) or domain_labels(self.words[index]))
            for index, text in enumerate(self.normalized)
        )
        return list(accumulate(flags, initial=0))

    def is_amount_or_date(self, index: int) -> bool:
        """Whether a word has the format of a price, a percentage, a date or a time."""
        return _is_amount_or_date(self.words[index])

    def runs_of(self, texts: Iterable[str]) -> Iterator[range]:
        """Runs of whole words whose letters together are one of ``texts``, up to OCR confusions.

        Args:
            texts: Normalized texts.
        """
        for text in texts:
            yield from _whole_words(text, *self._joined_normalized)
            yield from _whole_words(merge_ocr_confusions(text), *self._joined_merged)

    @cached_property
    def _joined_normalized(self) -> tuple[str, list[int]]:
        return _join(self.normalized)

    @cached_property
    def _joined_merged(self) -> tuple[str, list[int]]:
        return _join(self.ocr_merged)


@lru_cache(maxsize=65536)
def _is_amount_or_date(word: str) -> bool:
    return _AMOUNT_OR_DATE.fullmatch(to_latin(word).casefold().strip(",;")) is not None


def _join(texts: list[str]) -> tuple[str, list[int]]:
    """Concatenation of all texts, and the start of each, followed by the end of the last."""
    starts = [0]
    for text in texts:
        starts.append(starts[-1] + len(text))
    return "".join(texts), starts


def _whole_words(text: str, joined: str, starts: list[int]) -> Iterator[range]:
    if text not in joined:
        return
    for first, at in enumerate(starts[:-1]):
        if joined.startswith(text, at):
            end = bisect.bisect_left(starts, at + len(text))
            if starts[end] == at + len(text) and starts[first + 1] > at:
                yield range(first, end)
