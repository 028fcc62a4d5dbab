"""Near-duplicate pages of different groups: members, non-members, training pages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from pfl_audit.documents.document import Document
from pfl_audit.documents.near_duplicates import Numbers, shingles, similar_sets
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
_SAME_BITS: Final = (_BITS - _DIFFERENT) / (_BITS + _DIFFERENT)
_CORRELATION: Final = 0.95
"""Smallest correlation of the thumbnails of pages that are compared by their images alone."""


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
        int (n, groups): the index of a near-duplicate, or -1.
    """
    images = _Images(pages, looks)
    few = np.array([len(page.words) < FEW_WORDS for page in pages])
    texts = [frozenset() if short else shingles(page.words) for page, short in zip(pages, few, strict=True)]
    found = np.full((len(pages), int(groups.max(initial=-1)) + 1), -1)
    by_image = few.any() and images.known.any()
    with progress.task("near-duplicates", len(pages) * (3 if by_image else 2)) as task:

        def note(page: int, others: Numbers) -> None:
            others = others[groups[others] != groups[page]]
            found[page, groups[others]] = others
            task.advance()

        for page, others in enumerate(similar_sets(texts, ALIKE)):
            note(page, others)
        for page, others in enumerate(similar_sets(texts, CONFIRMED)):
            note(page, others[images.agree(page, others)])
        for page, alike in enumerate(similar_sets(images.elements(), _SAME_BITS) if by_image else ()):
            others = alike[few[alike] | few[page]]
            note(page, others[images.agree(page, others) & images.correlate(page, others)])
    return found


class _Images:
    """Hashes and thumbnails of pages.

    Attributes:
        known: bool (n,), whether the image of a page was opened.
    """

    def __init__(self, pages: Sequence[Document], looks: PageLooks) -> None:
        seen = [looks.of(page) for page in pages]
        blank = np.zeros(THUMBNAIL**2, np.uint8)
        self.known: Bools = np.array([look is not None for look in seen], dtype=bool)
        self._bits = np.array([look.bits if look else np.zeros(_BITS, bool) for look in seen]).reshape(-1, _BITS)
        self._thumbnails = np.array([look.thumbnail.ravel() if look else blank for look in seen])

    def agree(self, page: int, others: Numbers) -> Bools:
        """Whether the hashes agree, bool (others,)."""
        different = (self._bits[others] != self._bits[page]).sum(axis=1)
        return np.asarray((different <= _DIFFERENT) & self.known[others] & self.known[page])

    def correlate(self, page: int, others: Numbers) -> Bools:
        """Whether the thumbnails correlate, bool (others,); those of a blank page do not."""
        one = self._thumbnails[page].astype(np.float32)
        several = self._thumbnails[others].astype(np.float32)
        one, several = one - one.mean(), several - several.mean(axis=1, keepdims=True)
        sizes = np.linalg.norm(one) * np.linalg.norm(several, axis=1)
        return np.asarray((sizes > 0) & (several @ one >= _CORRELATION * sizes))

    def elements(self) -> list[frozenset[tuple[int, bool]]]:
        """The bits of each hash as a set, so that hashes that agree have a Jaccard index of _SAME_BITS at least."""
        return [
            frozenset(enumerate(bits.tolist())) if known else frozenset()
            for bits, known in zip(self._bits, self.known, strict=True)
        ]
