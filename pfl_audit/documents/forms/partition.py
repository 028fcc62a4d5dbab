"""Three parts of forms: to validate with, to train what everybody may have, and to train the model under audit."""

from __future__ import annotations

import hashlib
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pfl_audit.documents.forms.form import PARTS, Form, FormCorpus, FormPart
from pfl_audit.documents.forms.near_duplicates import near_duplicates
from pfl_audit.errors import AuditError, UsageError

SHARES = (0.2, 0.4, 0.4)
"""Of validation, public and private, about as in cdmi-reconstruction, Table 4."""
THRESHOLD = 0.7
"""Jaccard index from which two pages are near-duplicates."""
MOST_FORMS = 20_000
"""All forms are compared with all: this many take about a minute."""


@dataclass(frozen=True, eq=False)
class FormPartition:
    """Forms, part by part; no form, document or near-duplicate stands in two of them.

    Attributes:
        validation: To choose checkpoints by; sorted by id, as are the others.
        public: To train the adversary's own model.
        private: To train the model under audit.
        near_duplicates: How many forms have a near-duplicate.
        left_out: Ids of forms that stand in no part, because an earlier part of the source has a
            near-duplicate; sorted.
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
    """Divide forms by document, near-duplicates kept together.

    Where the source names the parts, those are taken, and a form is left out where an earlier part
    (validation, public, private) holds a near-duplicate of it. Else pages of one document, and
    near-duplicates, are dealt out as one group. Which form goes where follows from the ids, the words
    and the seed, not from the order of the source.

    Args:
        corpus: Forms to divide.
        seed: Of the chance by which groups are dealt out.
        shares: Of the forms that validation, public and private get; they sum to 1.
        threshold: Jaccard index of the pages' runs of words from which they are near-duplicates.

    Raises:
        UsageError: Shares or threshold are out of range.
        AuditError: There are more than MOST_FORMS, too few documents that differ, or one of the source's own parts
            is empty.
    """
    if min(shares) < 0 or not math.isclose(sum(shares), 1.0, abs_tol=1e-6):
        raise UsageError("shares of the parts must be 0 or more and sum to 1", "Correct the shares")
    if not 0 < threshold <= 1:
        raise UsageError("the threshold for near-duplicates must be above 0 and at most 1", "Correct the threshold")
    if len(corpus.forms) > MOST_FORMS:
        raise AuditError(f"there are more than {MOST_FORMS:,} forms", "Divide them, and give one folder at a time")
    forms = sorted(corpus.forms, key=lambda form: form.id)
    if corpus.parts:
        dealt, alike = _as_named(forms, corpus.parts, threshold)
        wanted = set(corpus.parts.values())
    else:
        groups, alike = _groups(forms, threshold)
        dealt = _deal(groups, seed, shares)
        wanted = {part for part, share in zip(PARTS, shares, strict=True) if share}
    if empty := [part for part in PARTS if part in wanted and not dealt[part]]:
        documents = len({form.document.file for form in forms})
        raise AuditError(
            f"{len(forms)} forms of {documents} documents (ids are read as document_page) leave the {empty[0]} part "
            "empty, as near-duplicates never stand in two parts",
            "Give more forms that differ, ids of the form document_page, or a part for every form",
        )
    standing = {form.id for part in PARTS for form in dealt[part]}
    validation, public, private = (tuple(sorted(dealt[part], key=lambda form: form.id)) for part in PARTS)
    return FormPartition(
        validation,
        public,
        private,
        near_duplicates=alike,
        left_out=tuple(form.id for form in forms if form.id not in standing),
    )


def _as_named(
    forms: Sequence[Form], parts: Mapping[str, FormPart], threshold: float
) -> tuple[dict[FormPart, list[Form]], int]:
    """Forms by the part that the source names, and how many of all have a near-duplicate."""
    ranks = {part: rank for rank, part in enumerate(PARTS)}
    ordered = sorted(forms, key=lambda form: ranks[parts[form.id]])
    rank = np.array([ranks[parts[form.id]] for form in ordered])
    kept = np.ones(len(ordered), dtype=bool)
    alike = 0
    for number, others in enumerate(near_duplicates([form.document.words for form in ordered], threshold)):
        kept[number] = not (kept[others] & (rank[others] < rank[number])).any()
        alike += bool(len(others))
    dealt: dict[FormPart, list[Form]] = {part: [] for part in PARTS}
    for form, keep in zip(ordered, kept, strict=True):
        if keep:
            dealt[parts[form.id]].append(form)
    return dealt, alike


def _groups(forms: Sequence[Form], threshold: float) -> tuple[list[list[Form]], int]:
    """Forms that must stand together (of one document, or near-duplicates, or so over others); how many are alike."""
    first: dict[str, int] = {}
    group = np.array([first.setdefault(form.document.file, number) for number, form in enumerate(forms)])
    alike = 0
    for number, others in enumerate(near_duplicates([form.document.words for form in forms], threshold)):
        alike += bool(len(others))
        for other in np.unique(group[others]):
            group[group == other] = group[number]
    groups: defaultdict[int, list[Form]] = defaultdict(list)
    for form, leader in zip(forms, group.tolist(), strict=True):
        groups[leader].append(form)
    return list(groups.values()), alike


def _deal(groups: list[list[Form]], seed: int, shares: Sequence[float]) -> dict[FormPart, list[Form]]:
    """Every group to the part that lacks most; large groups first, groups of a size in drawn order."""
    total = sum(map(len, groups))
    dealt: dict[FormPart, list[Form]] = {part: [] for part in PARTS}
    for group in sorted(groups, key=lambda group: (-len(group), _draw(seed, group[0].id))):
        lacks = {part: share * total - len(dealt[part]) for part, share in zip(PARTS, shares, strict=True) if share}
        dealt[max(lacks, key=lambda part: lacks[part])].extend(group)
    return dealt


def _draw(seed: int, name: str) -> bytes:
    return hashlib.sha256(f"{seed}/{name}".encode()).digest()
