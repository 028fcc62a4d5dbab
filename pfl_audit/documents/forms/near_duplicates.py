"""Pages that say the same but for a few words."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence

SHINGLE = 2
"""Words that are looked at together: pages of one layout share its words, but not what follows them."""
_ROUNDING = 1e-9

Pair = tuple[int, int]


def near_duplicates(pages: Sequence[Sequence[str]], threshold: float) -> list[Pair]:
    """Every two pages whose runs of SHINGLE words have a Jaccard index of ``threshold`` or more.

    Exact, and without comparing all with all: two such pages must share one of their rarest runs
    (prefix filtering; Chaudhuri et al., ICDE 2006).

    Args:
        pages: Words of each page; case does not count.
        threshold: Above 0, up to 1.

    Returns:
        (lower number, higher number), sorted; pages without words are like no other.
    """
    sets = [shingles(page) for page in pages]
    counts = Counter(run for page in sets for run in page)
    seen: defaultdict[tuple[str, ...], list[int]] = defaultdict(list)
    pairs: list[Pair] = []
    for number, page in enumerate(sets):
        rarest = sorted(page, key=lambda run: (counts[run], run))
        prefix = rarest[: len(page) - math.ceil(threshold * len(page) - _ROUNDING) + 1]
        others = {earlier for run in prefix for earlier in seen[run]}
        pairs += [(other, number) for other in others if similarity(page, sets[other]) >= threshold - _ROUNDING]
        for run in prefix:
            seen[run].append(number)
    return sorted(pairs)


def shingles(words: Sequence[str]) -> frozenset[tuple[str, ...]]:
    """Runs of SHINGLE words, lower-cased; a shorter page is one run, an empty one none."""
    plain = [word.casefold() for word in words]
    last = max(len(plain) - SHINGLE + 1, min(len(plain), 1))
    return frozenset(tuple(plain[at : at + SHINGLE]) for at in range(last))


def similarity(one: frozenset[tuple[str, ...]], other: frozenset[tuple[str, ...]]) -> float:
    """Jaccard index, 0 to 1; 0 for two empty sets."""
    union = len(one | other)
    return len(one & other) / union if union else 0.0
