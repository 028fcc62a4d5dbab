"""A model that nobody has: answers that its vendor has given, from a file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pfl_audit.documents.document import Query
from pfl_audit.errors import AuditError, UnanswerableError
from pfl_audit.files import sha256_file
from pfl_audit.models.protocol import Capability, Response


class RecordedModel:
    """Answers by query id, from a ``.jsonl`` file.

    A line holds ``id`` (of the query) and ``answer``, and perhaps ``confidence`` (0 to 1) and
    ``loss``. Confidence and loss count as available where every line has them.

    Args:
        path: The file.

    Raises:
        AuditError: Not such a file (the line is named).
    """

    family = "recorded answers"

    def __init__(self, path: Path) -> None:
        self._path = path
        self._responses = _read(path)
        self._sha256 = sha256_file(path)
        kinds = {Capability.ANSWER}
        if all(response.confidence is not None for response in self._responses.values()):
            kinds.add(Capability.CONFIDENCE)
        if all(response.loss is not None for response in self._responses.values()):
            kinds.add(Capability.LOSS)
        self._capabilities = frozenset(kinds)

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the file."""
        return self._sha256

    @property
    def capabilities(self) -> frozenset[Capability]:
        """Answers, and what else every line has; never LIVE."""
        return self._capabilities

    def describe(self) -> dict[str, Any]:
        """Facts for the report."""
        return {
            "family": self.family,
            "path": str(self._path),
            "sha256": self._sha256,
            "parameters": None,
            "notes": [f"{len(self._responses)} recorded answers"],
        }

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
    try:
        with path.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, start=1):
                if line.strip():
                    query, response = _response(line, f"{path} line {number}")
                    if responses.setdefault(query, response) != response:
                        raise AuditError(
                            f"{path} line {number}: its query has another answer further up",
                            "Keep one answer to each query",
                        )
    except (OSError, UnicodeDecodeError) as error:
        raise AuditError(f"{path} cannot be read as UTF-8 text", "Check the path given to --answers") from error
    if not responses:
        raise AuditError(f"{path} holds no answer", "Record the vendor's answers, one JSON object a line")
    return responses


def _response(line: str, where: str) -> tuple[str, Response]:
    try:
        row = json.loads(line)
        confidence, loss = row.get("confidence"), row.get("loss")
        response = Response(
            answer=str(row["answer"]),
            confidence=None if confidence is None else float(confidence),
            loss=None if loss is None else float(loss),
        )
        query = str(row["id"])
        (query + response.answer).encode()  # half of a character can be written nowhere
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise AuditError(f"{where} is no answer", 'Write {"id": ..., "answer": ...}') from error
    if response.confidence is not None and not 0.0 <= response.confidence <= 1.0:
        raise AuditError(f"{where}: the confidence is not between 0 and 1", "Correct it")
    if response.loss is not None and not 0.0 <= response.loss < float("inf"):
        raise AuditError(f"{where}: the loss is not a number of 0 or more", "Correct it")
    return query, response
