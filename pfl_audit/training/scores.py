"""Scores of a validation: the mean over sources of the mean over their queries (federated-docvqa-pilot, section 4)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import fmean

from pfl_audit.documents.document import Query

Validate = Callable[[Sequence[Query]], dict[str, float]]


def mean_over_sources(validate: Validate, queries: Sequence[Query], most: int) -> dict[str, float]:
    """Score held-out queries; a corpus of one source has the mean over its queries.

    Args:
        validate: Mean scores of queries, by name.
        queries: Held-out queries.
        most: Largest number of queries; every source has an equal share, and one query at least.

    Returns:
        Mean scores by name; of several sources also those of each, named ``score/source``.
    """
    held: dict[str, list[Query]] = {}
    for query in queries:
        held.setdefault(query.document.source, []).append(query)
    found = {source: validate(some[: max(1, most // len(held))]) for source, some in held.items()}
    scores = list(found.values())
    mean = {name: fmean(one[name] for one in scores) for name in scores[0]} if scores else {}
    each = {f"{name}/{source}": value for source, one in found.items() for name, value in one.items()}
    return mean | (each if len(found) > 1 else {})
