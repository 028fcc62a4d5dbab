"""Partition of forms into validation, public and private parts without near-duplicates across parts."""

from __future__ import annotations

import hashlib
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from pfl_audit.documents.forms.form import PARTS, Form, FormCorpus, FormPart
from pfl_audit.documents.near_duplicates import word_pairs
from pfl_audit.documents.similar_sets import last_similar, similar_groups
from pfl_audit.errors import AuditError, UsageError

SHARES = (0.2, 0.4, 0.4)
"""Shares of validation, public and private, about as in cdmi-reconstruction, Table 4."""
THRESHOLD = 0.7
"""Smallest Jaccard index of near-duplicates."""
MAX_FORMS = 100_000
"""Largest number of forms, which takes minutes."""


@dataclass(frozen=True, eq=False)
class FormPartition:
    """Forms by part; no form, document or near-duplicate is in two parts. All are sorted by id.

    Attributes:
        validation: Forms for the selection of checkpoints.
        public: Training forms of the adversary's own model.
        private: Training forms of the model under audit.
        near_duplicates: Number of forms that have a near-duplicate.
        left_out: Ids of forms in no part, because an earlier part of the source has a near-duplicate.
    """

    validation: tuple[Form, ...]
    public: tuple[Form, ...]
    private: tuple[Form, ...]
    near_duplicates: int = 0
    left_out: tuple[str, ...] = ()

    def of(self, part: FormPart) -> tuple[Form, ...]:
        """The forms of a part."""
        return {"validation": self.validation, "public": self.public, "private": self.private}[part]


def partition_forms(
    corpus: FormCorpus, *, seed: int, shares: tuple[float, float, float] = SHARES, threshold: float = THRESHOLD
) -> FormPartition:
    """Divide forms by document, with near-duplicates in one part.

    Parts given by the source are kept, but a form is left out if an earlier part (validation, public, private) has a
    near-duplicate of it. Otherwise pages of one document, and near-duplicates, are assigned as one group. The
    assignment depends on the ids, the words and the seed, not on the order of the source.

    Args:
        corpus: Forms to divide.
        seed: Seed of the assignment of groups.
        shares: Shares of validation, public and private; they sum to 1.
        threshold: Smallest Jaccard index of near-duplicates.

    Raises:
        UsageError: Shares or threshold are out of range.
        AuditError: There are more than MAX_FORMS, too few documents that differ, or a part of the source is empty.
    """
    if min(shares) < 0 or not math.isclose(sum(shares), 1.0, abs_tol=1e-6):
        raise UsageError("shares of the parts must be 0 or more and sum to 1", "Correct the shares")
    if not 0 < threshold <= 1:
        raise UsageError("the threshold for near-duplicates must be above 0 and at most 1", "Correct the threshold")
    if len(corpus.forms) > MAX_FORMS:
        raise AuditError(f"there are more than {MAX_FORMS:,} forms", "Divide them, and give one folder at a time")
    forms = sorted(corpus.forms, key=lambda form: form.id)
    if corpus.parts:
        assigned, with_duplicate = _assign_given(forms, corpus.parts, threshold)
        wanted = set(corpus.parts.values())
    else:
        groups, with_duplicate = group_forms(forms, threshold)
        assigned = _assign_groups(groups, seed, shares)
        wanted = {part for part, share in zip(PARTS, shares, strict=True) if share}
    if empty := [part for part in PARTS if part in wanted and not assigned[part]]:
        documents = len({form.document.file for form in forms})
        raise AuditError(
            f"{len(forms)} forms of {documents} documents (ids are read as document_page) leave the {empty[0]} part "
            "empty, as near-duplicates are never in two parts",
            "Give more forms that differ, ids of the form document_page, or a part for every form",
        )
    kept = {form.id for part in PARTS for form in assigned[part]}
    validation, public, private = (tuple(sorted(assigned[part], key=lambda form: form.id)) for part in PARTS)
    return FormPartition(
        validation,
        public,
        private,
        near_duplicates=with_duplicate,
        left_out=tuple(form.id for form in forms if form.id not in kept),
    )


def _assign_given(
    forms: Sequence[Form], parts: Mapping[str, FormPart], threshold: float
) -> tuple[dict[FormPart, list[Form]], int]:
    """Forms by the parts of the source, and the number of forms with a near-duplicate."""
    ranks = np.array([PARTS.index(parts[form.id]) for form in forms])
    pages = word_pairs(form.document.words for form in forms)
    kept = np.ones(len(forms), dtype=bool)
    for rank in range(1, len(PARTS)):
        own, before = np.flatnonzero(ranks == rank), np.flatnonzero(kept & (ranks < rank))
        kept[own] = [found < 0 for found in last_similar(pages, own, before, threshold)]
    assigned: dict[FormPart, list[Form]] = {part: [] for part in PARTS}
    for form, keep in zip(forms, kept, strict=True):
        if keep:
            assigned[parts[form.id]].append(form)
    return assigned, _in_groups(similar_groups(pages, threshold))


def group_forms(forms: Sequence[Form], threshold: float) -> tuple[list[list[Form]], int]:
    """Groups of forms linked by document or near-duplicates, and the number of forms with a near-duplicate.

    Args:
        threshold: Smallest Jaccard index of near-duplicates, above 0, up to 1.
    """
    alike = similar_groups(word_pairs(form.document.words for form in forms), threshold)
    documents = {form.document.file: number for number, form in enumerate(forms)}
    linked = np.array([documents[form.document.file] for form in forms], dtype=np.int64) + len(forms)
    ends = np.concatenate([alike, linked]), np.tile(np.arange(len(forms)), 2)
    _, joined = connected_components(
        csr_array((np.ones(len(ends[0])), ends), shape=(2 * len(forms),) * 2), directed=False
    )
    groups: defaultdict[int, list[Form]] = defaultdict(list)
    for form, group in zip(forms, joined[: len(forms)].tolist(), strict=True):
        groups[group].append(form)
    return list(groups.values()), _in_groups(alike)


def _in_groups(groups: NDArray[np.int64]) -> int:
    """How many are in a group of two at least."""
    sizes = np.bincount(groups) if len(groups) else groups
    return int(sizes[sizes > 1].sum())


def _assign_groups(groups: list[list[Form]], seed: int, shares: Sequence[float]) -> dict[FormPart, list[Form]]:
    """Assign groups at random, stratified by size: of groups of similar size every part gets its share.

    The largest groups would otherwise all fall to the largest parts, and validation, the control of an audit, would
    have none. A stratum is as many groups, of the largest that are left, as the smallest part has one of.
    """
    wanted = {part: share for part, share in zip(PARTS, shares, strict=True) if share}
    stratum = round(1 / min(wanted.values()))
    ordered = sorted(groups, key=lambda group: (-len(group), _draw(seed, group[0].id)))
    assigned: dict[FormPart, list[Form]] = {part: [] for part in PARTS}
    given = dict.fromkeys(wanted, 0)
    for at in range(0, len(ordered), stratum):
        for group in sorted(ordered[at : at + stratum], key=lambda group: _draw(seed, f"order {group[0].id}")):
            lacking = {part: share * (1 + sum(given.values())) - given[part] for part, share in wanted.items()}
            part = max(lacking, key=lambda part: lacking[part])
            assigned[part].extend(group)
            given[part] += 1
    return assigned


def _draw(seed: int, name: str) -> bytes:
    return hashlib.sha256(f"{seed}/{name}".encode()).digest()
