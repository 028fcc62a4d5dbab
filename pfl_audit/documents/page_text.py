"""The words of a page, prepared for looking something up in them."""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterable, Iterator
from functools import cached_property, lru_cache

from pfl_audit.documents.ordinary_words import ORDINARY
from pfl_audit.documents.plain import clean, compact, skeleton

_AMOUNT_OR_DATE = re.compile(
    r"[($€£+-]*\d{1,3}(,\d{3})*\.\d\d[)%]?|\(?[$€£]\s?[\d,.]+\)?|\d[\d,.]*[%$€£]|\d{1,3}(,\d{3})+"
    r"|\d{1,2}[/.]\d{1,2}[/.](\d{2}|\d{4})|\d{4}-\d\d-\d\d|\d{1,2}/\d{1,2}|\d{1,2}:\d\d(:\d\d)?(am|pm|a|p)?"
)


class PageText:
    """Words in reading order, in every normal form.

    Args:
        words: Of the page.
    """

    def __init__(self, words: tuple[str, ...]) -> None:
        self.words = words
        self.plain = [compact(word) for word in words]
        self.skeletons = [skeleton(plain) for plain in self.plain]

    @cached_property
    def cased(self) -> bool:
        """Whether the page has capitals; some OCR folds them."""
        return any(word != word.lower() for word in self.words)

    def capital(self, index: int) -> bool:
        """Whether a word begins with a capital or a digit, as a name does."""
        first = next((letter for letter in clean(self.words[index]) if letter.isalnum()), "")
        return not self.cased or first.isdigit() or first != first.lower()

    def ordinary(self, index: int) -> bool:
        """Whether a word points to no company by itself."""
        return self.plain[index] in ORDINARY

    def amount_or_date(self, index: int) -> bool:
        """Whether a word is written as a price, a share, a date or a time."""
        return _is_amount_or_date(self.words[index])

    def runs_of(self, texts: Iterable[str]) -> Iterator[range]:
        """Runs of whole words whose letters together are one of ``texts``, up to confusions of OCR.

        Args:
            texts: Compact.
        """
        for text in texts:
            yield from _whole_words(text, *self._joined_plain)
            yield from _whole_words(skeleton(text), *self._joined_skeletons)

    @cached_property
    def _joined_plain(self) -> tuple[str, list[int]]:
        return _join(self.plain)

    @cached_property
    def _joined_skeletons(self) -> tuple[str, list[int]]:
        return _join(self.skeletons)


@lru_cache(maxsize=65536)
def _is_amount_or_date(word: str) -> bool:
    return _AMOUNT_OR_DATE.fullmatch(clean(word).casefold().strip(",;")) is not None


def _join(texts: list[str]) -> tuple[str, list[int]]:
    """All texts as one, and where each begins, with the end of the last."""
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
