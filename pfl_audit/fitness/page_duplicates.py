"""Near-duplicate pages of different groups: members, non-members, training pages."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

import numpy as np

from pfl_audit.documents.document import Document
from pfl_audit.documents.near_duplicates import word_pairs
from pfl_audit.documents.similar_sets import last_similar
from pfl_audit.fitness.page_look import THUMBNAIL, PageLooks
from pfl_audit.metrics.arrays import Bools, Integers
from pfl_audit.progress import Progress

ALIKE: Final = 0.7
"""Smallest Jaccard index of word pairs of near-duplicates by text alone."""
CONFIRMED: Final = 0.5
"""Smallest index where the images agree too: the same page, of which about one word in six is misread."""
FEW_WORDS: Final = 10
"""Words below which a page is compared by its image alone."""
_BITS: Final = 64
_DIFFERENT: Final = 6
"""Largest number of different bits of the perceptual hashes of images that agree."""
_CORRELATION: Final = 0.95
"""Smallest correlation of the thumbnails of pages that are compared by their images alone."""
_COMPARED: Final = 64
"""Thumbnails that are compared at once."""


def duplicates(pages: Sequence[Document], groups: Integers, looks: PageLooks, progress: Progress) -> Integers:
    """A near-duplicate of each page in every other group.

    Two pages are near-duplicates if the Jaccard index of their word pairs is ALIKE, or CONFIRMED and their images
    agree (at most 6 of 64 bits of the perceptual hash differ). Where one of them has fewer than FEW_WORDS words, their
    images must agree and their thumbnails correlate.

    Args:
        pages: Pages of all groups.
        groups: Number of the group of each page, int (n,), from 0.
        looks: Looks of the pages; pages without one are compared by text alone.

    Returns:
        int (n, groups): the index of a near-duplicate, the last by the first rule that holds for any, or -1.
    """
    images = _Images(pages, looks)
    few = np.array([len(page.words) < FEW_WORDS for page in pages], dtype=bool)
    texts = word_pairs(() if short else page.words for page, short in zip(pages, few, strict=True))
    found = np.full((len(pages), int(groups.max(initial=-1)) + 1), -1)
    rules: tuple[Callable[[Integers, Integers], Iterator[int]], ...] = (
        lambda asked, among: last_similar(texts, asked, among, ALIKE),
        lambda asked, among: last_similar(texts, asked, among, CONFIRMED, images.agree),
        lambda asked, among: images.last_alike(asked, among, few),
    )
    with progress.task("near-duplicates", len(pages) * (found.shape[1] - 1) * len(rules)) as task:
        for group in range(found.shape[1]):
            among = np.flatnonzero(groups == group)
            for rule in rules:
                asked = np.flatnonzero((groups != group) & (found[:, group] < 0))
                task.advance(len(pages) - len(among) - len(asked))
                for page, other in zip(asked, rule(asked, among), strict=True):
                    found[page, group] = other
                    task.advance()
    return found


class _Images:
    """Hashes and thumbnails of pages."""

    def __init__(self, pages: Sequence[Document], looks: PageLooks) -> None:
        seen = [looks.of(page) for page in pages]
        blank = np.zeros(THUMBNAIL**2, np.uint8)
        self._known = np.array([look is not None for look in seen], dtype=bool)
        bits = np.array([look.bits if look else np.zeros(_BITS, bool) for look in seen]).reshape(-1, _BITS)
        self._hashes = np.packbits(bits, axis=1).view(np.uint64)[:, 0]
        self._thumbnails = np.array([look.thumbnail.ravel() if look else blank for look in seen])
        self._plain = np.ptp(self._thumbnails, axis=1) == 0 if len(pages) else self._known

    def agree(self, page: int, others: Integers) -> Bools:
        """Whether the hashes agree, bool (others,)."""
        different = np.bitwise_count(self._hashes[others] ^ self._hashes[page])
        return np.asarray((different <= _DIFFERENT) & self._known[others] & self._known[page])

    def last_alike(self, asked: Integers, among: Integers, few: Bools) -> Iterator[int]:
        """For each page, the last of others whose hash agrees and whose thumbnail correlates, or -1.

        Args:
            asked: Pages.
            among: Others, rising.
            few: Pages one of which each pair must have, bool (n,).
        """
        usable = among[self._known[among] & ~self._plain[among]]
        both = {True: usable, False: usable[few[usable]]}
        for page in asked.tolist():
            others = both[bool(few[page])] if self._known[page] and not self._plain[page] else usable[:0]
            others = others[self.agree(page, others)][::-1]
            parts = (others[start : start + _COMPARED] for start in range(0, len(others), _COMPARED))
            yield next((int(part[alike][0]) for part in parts if (alike := self._correlate(page, part)).any()), -1)

    def _correlate(self, page: int, others: Integers) -> Bools:
        """Whether the thumbnails correlate, bool (others,)."""
        one = self._thumbnails[page].astype(np.float32)
        several = self._thumbnails[others].astype(np.float32)
        one, several = one - one.mean(), several - several.mean(axis=1, keepdims=True)
        sizes = np.linalg.norm(one) * np.linalg.norm(several, axis=1)
        return np.asarray(several @ one >= _CORRELATION * sizes)
