"""Counts of a message against own and other questions, one set of items after the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pfl_audit.documents.document import Query


def counts(
    queries: Sequence[Query],
    items: Sequence[frozenset[int]],
    named: frozenset[int],
    ids: Sequence[str],
    others: Mapping[str, str],
) -> tuple[int, int, int]:
    """Right, wanted and named items, with every company replaced by another one."""
    public = frozenset.intersection(*items)
    by_company: dict[str, list[int]] = {}
    for at in sorted(range(len(queries)), key=lambda at: (queries[at].document.provider, queries[at].document.id)):
        by_company.setdefault(queries[at].document.provider, []).append(at)
    wanted: set[int] = set()
    for name in ids:
        at = next(at for at, query in enumerate(queries) if query.id == name)
        company = queries[at].document.provider
        instead = by_company[others[company]]
        wanted |= items[instead[by_company[company].index(at) % len(instead)]]
    wanted -= public
    return len(wanted & named), len(wanted), len(named - public)
