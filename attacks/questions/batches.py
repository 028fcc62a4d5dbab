"""Batches of questions of similar length."""

from __future__ import annotations

from collections.abc import Container, Mapping

from pfl_audit.documents.document import Query
from pfl_audit.models.protocol import DocumentModel


def form_batches(
    model: DocumentModel, wanted: Mapping[str, Query], pending: Container[str], rows: int = 1
) -> list[dict[str, Query]]:
    """Batches of questions, the longest first, with the questions of a page together.

    The longest first show at once whether memory is enough. Once some batches are answered, the same call gives the
    other batches unchanged: questions are ordered by the longest question of their page, answered ones included, and
    the size of a batch depends on its first page alone. So an audit that was killed ends with the same losses to the
    last digit: their rounding depends on the questions that share a batch.

    Args:
        wanted: Key to query of all questions, also of those that are answered.
        pending: Keys of those that are not answered.
        rows: Rows that the model computes for a query.

    Returns:
        Key to query of each batch.
    """
    due = [key for key in wanted if key in pending]
    if not due:
        return []
    pages: dict[str, int] = {}
    for query in wanted.values():
        pages[query.document.id] = max(pages.get(query.document.id, 0), model.cost(query))
    due.sort(key=lambda key: (-pages[wanted[key].document.id], wanted[key].document.id, key))
    batches: list[dict[str, Query]] = []
    room = 0
    for key in due:
        if not room:
            batches.append({})
            room = max(1, model.batch_size(pages[wanted[key].document.id]) // rows)
        batches[-1][key] = wanted[key]
        room -= 1
    return batches
