"""Counts of forms by label and part, and unusable records."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

from pfl_audit.documents.check import check_pages
from pfl_audit.documents.corpus import Problem
from pfl_audit.documents.forms.form import PARTS, FormCorpus
from pfl_audit.documents.forms.partition import partition_forms
from pfl_audit.errors import AuditError
from pfl_audit.progress import Progress


@dataclass(frozen=True)
class FormCheck:
    """Result of a check.

    Attributes:
        forms: Number of usable forms.
        documents: Number of documents that the forms are pages of.
        fields: Label to number of fields, sorted by label.
        links: Number of links between fields.
        parts: Part to number of forms, as given by the source or else drawn with seed 0; empty
            if there are too few forms to divide.
        drawn: Whether the parts are drawn.
        near_duplicates: Forms that have a near-duplicate, or None if there are too few to divide.
        left_out: Forms in no part, because an earlier part has a near-duplicate.
        problems: Records that cannot be used.
    """

    format: str
    forms: int
    documents: int
    fields: dict[str, int]
    links: int
    parts: dict[str, int]
    drawn: bool
    near_duplicates: int | None
    left_out: int
    problems: tuple[Problem, ...]

    def to_dict(self) -> dict[str, Any]:
        """As JSON."""
        return asdict(self) | {"problems": [problem.to_dict() for problem in self.problems]}


def check_forms(corpus: FormCorpus, progress: Progress, *, images: bool = True) -> FormCheck:
    """Count forms, divide them, and open their page images.

    Args:
        corpus: Forms to check; their own problems are included in the result.
        progress: Reports the pages that are done.
        images: Whether to open the page images.
    """
    problems = list(corpus.problems)
    if images:
        problems += check_pages([form.document for form in corpus.forms], progress)
    try:
        parts = partition_forms(corpus, seed=0)
    except AuditError as error:
        parts = None
        problems.append(Problem("parts", error.problem))
    labels = Counter(field.label for form in corpus.forms for field in form.fields)
    return FormCheck(
        format=corpus.format,
        forms=len(corpus.forms),
        documents=len({form.document.file for form in corpus.forms}),
        fields=dict(sorted(labels.items())),
        links=sum(len(form.links) for form in corpus.forms),
        parts={part: len(parts.of(part)) for part in PARTS} if parts else {},
        drawn=not corpus.parts,
        near_duplicates=parts.near_duplicates if parts else None,
        left_out=len(parts.left_out) if parts else 0,
        problems=tuple(problems),
    )
