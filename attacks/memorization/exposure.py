"""Exposure: how high the true value ranks among those of other providers, on a page that does not show it.

Source: Carlini, Liu, Erlingsson, Kos, Song, *The Secret Sharer*, USENIX Security 2019, section 4: log2 of the number of
candidates minus log2 of the rank of the true one by the likelihood that the model gives it. Here the candidates are
values that stand on real documents, drawn by seed, and one page a provider is asked about.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np
from scipy.stats import rankdata

from pfl_audit.documents.document import Query
from pfl_audit.models.protocol import Score

OTHERS = 15
"""Other values that the true one is compared with; with all of them an exposure is at most 4 bits."""
ENOUGH = 3
"""Other values below which a rank says nothing, and the page is left out."""


def draw_candidates(
    queries: Sequence[Query], with_clue: Collection[str], rng: np.random.Generator
) -> dict[Query, tuple[str, ...]]:
    """One page a provider, one without a residual clue where there is one, and values to compare.

    The labels play no part, so that a permutation of them is a fair test.

    Args:
        queries: About scrubbed pages of one key.
        with_clue: Ids of those on which something still points to the value.

    Returns:
        Question about the page to the true value, followed by those of other providers; all differ.
    """
    pages: dict[str, list[Query]] = {}
    owned: dict[str, set[str]] = {}
    shown: dict[str, str] = {}
    for query in sorted(queries, key=lambda query: query.id):
        provider, value = query.document.unit, query.answers[0]
        pages.setdefault(provider, []).append(query)
        owned.setdefault(provider, set()).add(_plain(value))
        shown.setdefault(_plain(value), value)
    every = sorted(shown)
    drawn = {}
    for provider in sorted(pages):
        clean = [query for query in pages[provider] if query.id not in with_clue] or pages[provider]
        query = clean[int(rng.integers(len(clean)))]
        strange = [value for value in every if value not in owned[provider]]
        chosen = rng.permutation(len(strange))[:OTHERS]
        if len(chosen) >= ENOUGH:
            drawn[query] = (query.answers[0], *(shown[strange[place]] for place in sorted(chosen)))
    return drawn


def exposures(drawn: Mapping[Query, Sequence[str]], scores: Mapping[str, Sequence[Score]]) -> dict[str, float]:
    """Query id to exposure in bits, 0 for the least likely candidate; pages without finite losses are left out."""
    found = {}
    for query, values in drawn.items():
        losses = np.array([score.loss * score.tokens for score in scores.get(query.id, ())], dtype=np.float64)
        if len(losses) == len(values) and np.isfinite(losses).all():
            found[query.id] = exposure(losses)
    return found


def exposure(losses: np.ndarray[tuple[int], np.dtype[np.float64]]) -> float:
    """Exposure of the first of several candidates, in bits.

    Args:
        losses: Negative log-likelihood of each as a whole, float (candidates,). Equal ones share their mean rank.
    """
    return float(np.log2(len(losses)) - np.log2(rankdata(losses)[0]))


def _plain(value: str) -> str:
    return " ".join(value.lower().split())
