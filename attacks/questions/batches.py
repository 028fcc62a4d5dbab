"""Batches of questions of similar length."""

from __future__ import annotations

from collections.abc import Mapping

from pfl_audit.documents.document import Query
from pfl_audit.models.protocol import DocumentModel


def form_batches(model: DocumentModel, pending: Mapping[str, Query], rows: int = 1) -> list[dict[str, Query]]:
    """Group by length, longest first (what does not fit shows at once), a page's questions together.

    Args:
        pending: Key to query.
        rows: Rows that the model computes for a query.
    """
    costs = {key: model.cost(query) for key, query in pending.items()}
    pages: dict[str, int] = {}
    for key, query in pending.items():
        pages[query.document.id] = max(pages.get(query.document.id, 0), costs[key])
    order = sorted(pending, key=lambda key: (-pages[pending[key].document.id], pending[key].document.id, key))
    batches: list[dict[str, Query]] = []
    longest = 0
    for key in order:
        if not batches or len(batches[-1]) >= max(1, model.batch_size(max(longest, costs[key])) // rows):
            batches.append({})
            longest = 0
        batches[-1][key] = pending[key]
        longest = max(longest, costs[key])
    return batches
