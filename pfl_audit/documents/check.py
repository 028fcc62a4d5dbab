"""Counts of a corpus, as in the paper's Table 5, or of forms, and their unusable records."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pfl_audit.documents.corpus import Corpus, Problem
from pfl_audit.documents.document import Document
from pfl_audit.documents.forms.form import PARTS, FormCorpus
from pfl_audit.documents.forms.partition import partition_forms
from pfl_audit.errors import AuditError, UnanswerableError
from pfl_audit.progress import Progress


@dataclass(frozen=True)
class CorpusCheck:
    """Result of a check.

    Attributes:
        counts: One row per split and client: ``split``, ``client``, ``providers``, ``documents``,
            ``pages``, ``questions`` (privacy-aware-docvqa, Table 5).
        problems: Records that cannot be used.
    """

    counts: tuple[dict[str, Any], ...]
    problems: tuple[Problem, ...]

    def to_dict(self) -> dict[str, Any]:
        """As JSON."""
        return {"counts": list(self.counts), "problems": [problem.to_dict() for problem in self.problems]}


def check_corpus(
    corpus: Corpus, progress: Progress, *, images: bool = True, why_not: Callable[[Document], str | None] | None = None
) -> CorpusCheck:
    """Count a corpus, and open its page images.

    Args:
        corpus: Corpus to check; its own problems are included in the result.
        progress: Reports the pages that are done.
        images: Whether to open the page images.
        why_not: Opens the image of a page, and returns the reason where it cannot; ``unusable`` if left out.
    """
    problems = list(corpus.problems)
    if images:
        problems += check_pages(corpus.documents, progress, why_not or unusable)
    questions: defaultdict[tuple[str, int | None], int] = defaultdict(int)
    pages_of: defaultdict[tuple[str, int | None], list[Document]] = defaultdict(list)
    for query in corpus.queries:
        questions[query.document.split, query.document.client] += 1
    for page in corpus.documents:
        pages_of[page.split, page.client].append(page)
    counts = []
    for (split, client), number in sorted(questions.items(), key=lambda item: (item[0][0], item[0][1] or 0)):
        pages = pages_of[split, client]
        counts.append(
            {
                "split": split or "-",
                "client": "-" if client is None else client,
                "providers": len({page.provider for page in pages}),
                "documents": len({page.file for page in pages}),
                "pages": len(pages),
                "questions": number,
            }
        )
    return CorpusCheck(tuple(counts), tuple(problems))


def unusable(document: Document) -> str | None:
    """Reason why the page image cannot be opened, or None."""
    if document.image is None:
        return None
    try:
        document.image.open()
    except UnanswerableError as error:
        return error.reason
    return None


def check_pages(
    documents: Sequence[Document], progress: Progress, why_not: Callable[[Document], str | None] = unusable
) -> list[Problem]:
    """Pages that cannot be used.

    Args:
        documents: Pages to check.
        progress: Reports the pages that are done.
        why_not: Returns the reason why a page cannot be used, or None.

    Returns:
        One problem per unusable page, in the order of the pages.
    """
    problems = []
    with progress.task("page images", len(documents)) as task:
        for document in documents:
            if (reason := why_not(document)) is not None:
                problems.append(Problem(document.id, reason, is_page=True))
            task.advance()
    return problems


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
