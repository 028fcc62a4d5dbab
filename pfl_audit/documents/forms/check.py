"""What forms hold: counted by label and part, and what of them cannot be used."""

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
    """What was found.

    Attributes:
        format: Of the source.
        forms: How many can be used.
        documents: Whose pages they are.
        fields: Label to number of fields, sorted by label.
        links: Number of links between fields.
        parts: Part to number of forms, as the source names them or else as seed 0 draws them; empty
            where there are too few forms to divide.
        drawn: Whether the parts are drawn.
        near_duplicates: Forms that have a near-duplicate, or None where there are too few to divide.
        left_out: Forms that stand in no part, because an earlier one holds a near-duplicate.
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
        corpus: As read; its own problems are passed on.
        progress: Told of every page.
        images: Whether to open the images.
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
