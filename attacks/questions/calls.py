"""Batches of questions for a model, in this process or another, and checks of its results."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Final, Generic, TypeVar

from pydantic import TypeAdapter, ValidationError

from pfl_audit.core.store import Records
from pfl_audit.documents.document import Document, Query
from pfl_audit.errors import AuditError, WorkersError
from pfl_audit.models.protocol import CandidateModel, DocumentModel, DropoutModel, Guess, GuessingModel, Response, Score
from pfl_audit.progress import Task

T = TypeVar("T")
_LONGEST = 1 << 20
"""Letters of an answer."""
_GUESSES: Final = TypeAdapter(list[Guess])
UNANSWERABLE: Final = {"unanswerable": True}
"""Record of what a share asked and could not be answered, so that the others do not wait for it."""


@dataclass(frozen=True)
class Asked(Generic[T]):
    """A call that asks a model about queries, and states their pages as of AboutPages.

    Attributes:
        queries: What the model is asked about.
        ask: Asks a model about these queries.
    """

    queries: tuple[Query, ...]
    ask: Callable[[Sequence[Query], DocumentModel], T]

    def __call__(self, model: DocumentModel, task: Task) -> T:
        """Ask the model."""
        return self.ask(self.queries, model)

    @property
    def documents(self) -> list[Document]:
        """The pages of the queries, in order."""
        return [query.document for query in self.queries]


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


def batches_of_copies(wanted: Mapping[str, Query], pending: Container[str]) -> list[dict[str, Query]]:
    """Batches of the answers that are compared: of each query the copies that are pending, ``ID/NUMBER`` by id."""
    batches: defaultdict[str, dict[str, Query]] = defaultdict(dict)
    for key in wanted:
        if key in pending:
            batches[wanted[key].id.rpartition("/")[0]][key] = wanted[key]
    return list(batches.values())


def checked(found: object, count: int, is_one: Callable[[object], bool], *, here: bool = False) -> None:
    """Check what a call gave, which may come from another machine, or from a model of another package.

    Args:
        count: How many were asked for.
        is_one: Whether something is what was asked for.
        here: Whether this process asked the model.

    Raises:
        WorkersError: It is not.
        AuditError: It is not, and this process asked.
    """
    if not isinstance(found, list) or len(found) != count or not all(map(is_one, found)):
        if here:
            raise AuditError(
                "the model gave something else than losses of answers, such as no finite number",
                "Report it to whoever made its family of models",
            )
        raise WorkersError(
            "a process that asks the model gave back something else than answers",
            "Check that every machine has this version of pfl-audit and of its packages",
        )


def is_response(value: object) -> bool:
    """Whether a value is a response of a model."""
    return (
        isinstance(value, Response)
        and _is_text(value.answer)
        and (value.confidence is None or (_is_number(value.confidence) and 0 <= value.confidence <= 1 + 1e-6))
        and (value.loss is None or _is_number(value.loss))
        and (value.tokens is None or _is_count(value.tokens))
        and (value.token_losses is None or all(map(_is_number, value.token_losses)))
    )


def is_score(value: object) -> bool:
    """Whether a value is the likelihood of an answer."""
    return isinstance(value, Score) and _is_number(value.loss) and _is_count(value.tokens)


def are_guesses(value: object) -> bool:
    """Whether a value is a list of likely answers."""
    return isinstance(value, list) and all(
        isinstance(one, Guess) and _is_text(one.answer) and _is_number(one.loss) and _is_count(one.tokens)
        for one in value
    )


def kept_guesses(records: Records, key: str, width: int) -> list[Guess] | None:
    """Likely answers as they were kept, or None where there are none."""
    try:
        found = _GUESSES.validate_python((records.get(key) or {}).get("guesses"))
    except ValidationError:
        return None
    return found if len(found) <= width and all(isfinite(guess.loss) for guess in found) else None


def _is_text(value: object) -> bool:
    return isinstance(value, str) and len(value) <= _LONGEST


def _is_number(value: object) -> bool:
    return isinstance(value, float) and isfinite(value)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def respond(queries: Sequence[Query], model: DocumentModel) -> list[Response]:
    """Responses to a batch, in order."""
    return model.respond(queries)


def guess(width: int, queries: Sequence[Query], model: DocumentModel) -> list[list[Guess]]:
    """The likeliest answers to each query of a batch, in order."""
    if not isinstance(model, GuessingModel):
        raise TypeError("the model gives one answer only")
    return model.guess(queries, width)


def score(dropout: bool, queries: Sequence[Query], model: DocumentModel) -> list[Score]:
    """Losses of several answers to a query, each the first of a copy of it, in order; in training mode by dropout."""
    query, values = queries[0], [one.answers[0] for one in queries]
    if dropout and isinstance(model, DropoutModel):
        return model.dropout_losses(query, values)
    if not dropout and isinstance(model, CandidateModel):
        return model.candidate_losses(query, values)
    raise TypeError("the model cannot compare answers")
