"""Scrubbed pages and questions for a model that only its vendor can ask."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from pathlib import Path

from pfl_audit.attacks.questions.corpora import audited_corpus, read_corpus
from pfl_audit.attacks.questions.inputs import QuestionInputs
from pfl_audit.core.redaction import Redactor
from pfl_audit.documents.scrubbing.questions import scrubbed_questions
from pfl_audit.documents.writers import write_questions
from pfl_audit.errors import NotAuditableError


@dataclass(frozen=True)
class Export:
    """What was written.

    Attributes:
        pages: Number of scrubbed pages.
        skipped: Page, key and reason of every question that was left out.
    """

    questions: int
    pages: int
    folder: str
    skipped: tuple[dict[str, str], ...]


def export_questions(
    folder: Path, inputs: QuestionInputs, keys: tuple[str, ...], seed: int, threshold: float, *, reveal: bool
) -> Export:
    """Write a vendor's questions.

    Args:
        keys: Keys to ask for.
        threshold: Similarity from which words count as the value.
        reveal: Whether names of pages are shown.

    Raises:
        UsageError: The documents are not given.
        NotAuditableError: No question can be written.
    """
    corpus = audited_corpus(inputs)
    trained = read_corpus(inputs.blue, "blue") if inputs.blue is not None else None
    sets = [scrubbed_questions(corpus, key, seed=seed, blue=trained, threshold=threshold) for key in keys]
    queries = [query for found in sets for query in found.queries]
    unreadable = {problem.record: problem.reason for problem in write_questions(queries, folder)}
    asked = [query for query in queries if query.id not in unreadable]
    if unreadable and not asked:
        reason = next(iter(unreadable.values()))
        raise NotAuditableError(f"no question can be written: {reason}", "Run 'pfl-audit data check'")
    skipped = [(problem.record, found.key, problem.reason) for found in sets for problem in found.skipped]
    skipped += [(query.document.id, query.key, unreadable[query.id]) for query in queries if query.id in unreadable]
    redactor = Redactor(secrets.token_hex(), reveal=reveal)
    return Export(
        questions=len(asked),
        pages=len({query.document.id for query in asked}),
        folder=str(folder),
        skipped=tuple({"page": redactor.page(page), "key": key, "reason": reason} for page, key, reason in skipped),
    )
