"""Questions that messages may have been trained on, with the words and coordinates of each.

Chance is what other companies' pages would have matched: the companies are permuted, in all messages of the federation
in the same way, and every question is replaced by that of the company in its place. Items that every question has, such
as the words of the prompt, do not count.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from scipy.sparse import csr_matrix

from pfl_audit.attacks.inversion.bag_readers import Items
from pfl_audit.documents.document import Query
from pfl_audit.metrics.arrays import Integers


class Pages:
    """Questions of a corpus.

    Args:
        queries: At least one.
        items: Tokens and coordinates of each: of its page, its question and its answer.
    """

    def __init__(self, queries: Sequence[Query], items: Sequence[Items]) -> None:
        order = sorted(range(len(queries)), key=lambda at: (queries[at].document.provider, queries[at].document.id))
        self._row = {queries[at].id: row for row, at in enumerate(order)}
        names = [queries[at].document.provider for at in order]
        _, self._starts, self._company, self._sizes = np.unique(
            names, return_index=True, return_inverse=True, return_counts=True
        )
        sources = [queries[order[at]].document.source for at in self._starts]
        _, self._kinds = np.unique(sources, return_inverse=True)
        self._clients = np.array([-1 if (client := queries[at].document.client) is None else client for at in order])
        self._columns: dict[str, dict[int, int]] = {}
        self._tables: dict[str, csr_matrix] = {}
        for measure in dict.fromkeys(name for one in items for name in one):
            own = [items[at].get(measure, frozenset()) for at in order]
            public = frozenset.intersection(*own) if len(own) > 1 else frozenset[int]()
            columns = {item: at for at, item in enumerate(sorted(frozenset().union(*own) - public))}
            pairs = [(row, columns[item]) for row, some in enumerate(own) for item in some if item in columns]
            rows, at = zip(*pairs, strict=True) if pairs else ((), ())
            shape = (len(own), max(1, len(columns)))
            self._tables[measure] = csr_matrix((np.ones(len(pairs), np.int32), (rows, at)), shape=shape)
            self._columns[measure] = columns | dict.fromkeys(public, -1)

    @property
    def companies(self) -> int:
        """Number of companies."""
        return len(self._starts)

    def rows(self, ids: Sequence[str]) -> Integers | None:
        """Rows of questions, int64 (n,); None if one is not in the corpus."""
        found = [self._row.get(name) for name in ids]
        return None if None in found else np.array(found, dtype=np.int64)

    def rows_of(self, clients: Sequence[int]) -> Integers:
        """Rows of all questions of clients, int64 (n,)."""
        return np.flatnonzero(np.isin(self._clients, clients))

    def permutations(self, count: int, rng: np.random.Generator) -> Integers:
        """Other companies in the places of the companies, of the same source each: int64 (count, companies)."""
        drawn = np.empty((count, self.companies), dtype=np.int64)
        for kind in np.unique(self._kinds):
            members = np.flatnonzero(self._kinds == kind)
            for row in drawn:
                row[members] = rng.permutation(members)
        return drawn

    def counts(self, named: Items, rows: Integers, permutations: Integers) -> Mapping[str, Integers]:
        """By measure of the pages how many items came back, how many there are and how many were named.

        Args:
            named: What was read in a message.
            rows: Questions that it was trained on, int64 (n,), at least one.
            permutations: As of ``permutations``.

        Returns:
            int64 (1 + count, 3): against the own questions, then against those of other companies.
        """
        company = self._company[rows]
        place = rows - self._starts[company]
        others = permutations[:, company]
        mapped = np.concatenate([rows[None], self._starts[others] + place % self._sizes[others]])
        count, width = mapped.shape
        chosen = csr_matrix(
            (np.ones(mapped.size, np.int32), (np.repeat(np.arange(count), width), mapped.ravel())),
            shape=(count, len(self._company)),
        )
        found = {}
        for measure, table in self._tables.items():
            columns, items = self._columns[measure], named.get(measure, frozenset[int]())
            present = (chosen @ table) > 0
            mark = np.zeros(table.shape[1], dtype=np.int64)
            mark[[columns[item] for item in items if columns.get(item, -1) >= 0]] = 1
            wanted = np.asarray(present.sum(axis=1)).ravel()
            right = np.asarray(present @ mark).ravel()
            many = sum(columns.get(item, 0) >= 0 for item in items)
            found[measure] = np.stack([right, wanted, np.full(count, many)], axis=1).astype(np.int64)
        return found
