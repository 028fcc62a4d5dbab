"""A model that is not at hand: answers that its vendor has given, from a file."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pfl_audit.documents.corpus import Corpus
from pfl_audit.documents.document import Query
from pfl_audit.documents.readers.json_lines import parse_json_line, read_json_lines
from pfl_audit.documents.record_validation import MAX_NAME, RecordError, field_of, texts
from pfl_audit.documents.scrubbing.questions import SCRUBBED
from pfl_audit.errors import AuditError, UnanswerableError
from pfl_audit.inputs import sha256_input
from pfl_audit.models.protocol import Capability, Response

MAX_RECORDED = 10_000
"""Letters of a recorded answer."""
_LARGEST = 1e30


class RecordedModel:
    """Answers by query id, from a ``.jsonl`` file.

    A line holds ``id`` (of the query) and ``answer``, and perhaps ``confidence`` (0 to 1), ``loss``
    and ``token_losses`` (a list). Confidence and loss count as available where every line has them.

    Raises:
        UsageError: There is no such file.
        AuditError: Not such a file (the line is named).
    """

    family = "recorded answers"

    def __init__(self, path: Path) -> None:
        self._path = path
        self._responses = _read(path)
        self.fingerprint = sha256_input(path)
        self._notes = [f"{len(self._responses)} recorded answers"]
        kinds = {Capability.ANSWER}
        if all(response.confidence is not None for response in self._responses.values()):
            kinds.add(Capability.CONFIDENCE)
        if all(response.loss is not None for response in self._responses.values()):
            kinds.add(Capability.LOSS)
        self.capabilities = frozenset(kinds)

    def describe(self) -> dict[str, Any]:
        """Facts for the report."""
        return {
            "family": self.family,
            "path": str(self._path),
            "sha256": self.fingerprint,
            "parameters": None,
            "notes": list(self._notes),
        }

    def require_answers_to(self, corpus: Corpus) -> None:
        """Check that some answer is one to a question of the corpus, as it is or about a scrubbed page.

        Raises:
            AuditError: None is: the answers are those of another corpus.
        """
        questions = {query.id for query in corpus.queries}
        pages = {page.id for page in corpus.documents}
        known = sum(name in questions or name.partition(SCRUBBED)[0] in pages for name in self._responses)
        if not known:
            raise AuditError(
                f"none of the {len(self._responses):,} ids in {self._path} is the id of a question of the corpus",
                "Give the answers to this corpus, under the ids that 'pfl-audit memorize --export' or corpus.jsonl has",
            )
        if left := len(self._responses) - known:
            self._notes.append(f"{left} of them are under ids that no question of the corpus has")

    def cost(self, query: Query) -> int:
        """Nothing to compute."""
        return 1

    def batch_size(self, cost: int) -> int:
        """Any number."""
        return 1024

    def respond(self, queries: Sequence[Query]) -> list[Response]:
        """Look the queries up.

        Raises:
            UnanswerableError: One of them is not in the file.
        """
        for query in queries:
            if query.id not in self._responses:
                raise UnanswerableError(
                    f"{self._path} has no answer to query {query.id}", "Ask the vendor for it", "no answer is recorded"
                )
        return [self._responses[query.id] for query in queries]


def _read(path: Path) -> dict[str, Response]:
    responses: dict[str, Response] = {}
    for where, line in read_json_lines(path, 'Save it as UTF-8, one {"id": ..., "answer": ...} a line'):
        place = f"{path.parent / where}"
        try:
            query, response = _response(parse_json_line(line))
        except RecordError as error:
            raise AuditError(f"{place} is no answer: {error}", 'Write {"id": ..., "answer": ...}') from error
        if responses.setdefault(query, response) != response:
            raise AuditError(f"{place}: its query has another answer further up", "Keep one answer to each query")
    if not responses:
        raise AuditError(f"{path} holds no answer", "Record the vendor's answers, one JSON object a line")
    return responses


def _response(row: dict[str, Any]) -> tuple[str, Response]:
    (query,) = texts([field_of(row, "id")], "id", MAX_NAME)
    (answer,) = texts([field_of(row, "answer")], "answer", MAX_RECORDED)
    each = _token_losses(row)
    loss = _number(row, "loss", _LARGEST)
    return query, Response(answer, _number(row, "confidence", 1.0), loss, len(each) if each else None, each)


def _token_losses(row: dict[str, Any]) -> tuple[float, ...] | None:
    """Losses of tokens in single precision, as a store keeps them."""
    given = row.get("token_losses")
    if given is None:
        return None
    losses = (
        [_number({"token_losses": one}, "token_losses", _LARGEST) for one in given] if isinstance(given, list) else []
    )
    known = [loss for loss in losses if loss is not None]
    if not 1 <= len(known) == len(losses) <= MAX_RECORDED:
        raise RecordError(f"token_losses is not a list of 1 to {MAX_RECORDED} numbers")
    return tuple(array("f", known))


def _number(row: dict[str, Any], name: str, most: float) -> float | None:
    value = row.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= most:
        raise RecordError(f"{name} is not a number from 0 to {most:g}")
    return float(value)
