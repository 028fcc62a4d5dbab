"""Near-duplicate pages, by the Jaccard index of their word pairs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from pfl_audit.documents.set_index import SetIndex

_BITS = 32
"""Of the number of a word."""


def word_pairs(pages: Iterable[Sequence[str]]) -> SetIndex:
    """The pairs of consecutive words of each page, case-folded.

    Pages of one layout share words, but not the words that follow them. A page of one word is that word, a page
    without words has no pair.

    Args:
        pages: Words of each page.
    """
    return SetIndex(_numbered_pairs(pages))


def _numbered_pairs(pages: Iterable[Sequence[str]]) -> Iterator[NDArray[np.int64]]:
    numbers: dict[str, int] = {}
    for words in pages:
        found = np.array([numbers.setdefault(word.casefold(), len(numbers) + 1) for word in words], dtype=np.int64)
        yield np.unique((found[:-1] << _BITS) | found[1:] if len(found) > 1 else found)
