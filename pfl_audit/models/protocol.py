"""What an attack may ask of a model, whatever its family."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from pfl_audit.documents.document import Query
from pfl_audit.models.family import Capability as Capability


@dataclass(frozen=True)
class Response:
    """What a model says to one query.

    Attributes:
        answer: Its most likely answer, as decoded.
        confidence: Product of the probabilities of the answer's tokens, 0 to 1, or None.
        loss: Mean negative log-likelihood of the tokens of the query's first accepted answer
            (natural logarithm, end-of-sequence included), or None.
        tokens: Number of those tokens, or None.
    """

    answer: str
    confidence: float | None = None
    loss: float | None = None
    tokens: int | None = None


@dataclass(frozen=True)
class Score:
    """How likely a model takes one value to be the answer.

    Attributes:
        loss: Mean negative log-likelihood of its tokens (natural logarithm, end-of-sequence included).
        tokens: Number of them.
    """

    loss: float
    tokens: int


@runtime_checkable
class DocumentModel(Protocol):
    """A model that answers questions about pages."""

    @property
    def family(self) -> str:
        """Name of the architecture, such as ``vt5``."""
        ...

    @property
    def fingerprint(self) -> str:
        """SHA-256 of everything that decides what it answers: weights, configuration, tokenizer, adapter."""
        ...

    @property
    def capabilities(self) -> frozenset[Capability]:
        """What it can be asked for."""
        ...

    def describe(self) -> dict[str, Any]:
        """Facts for the report: family, path, parameters, how it was opened."""
        ...

    def cost(self, query: Query) -> int:
        """Length of the model's input for ``query``, in tokens; batches are made of similar lengths."""
        ...

    def batch_size(self, cost: int) -> int:
        """How many queries of that length fit into one batch."""
        ...

    def respond(self, queries: Sequence[Query]) -> list[Response]:
        """Answer a batch, in order. Deterministic, and independent of what else is in the batch.

        Raises:
            UnanswerableError: One of the queries cannot be answered, such as for its page image.
        """
        ...


@runtime_checkable
class CandidateModel(Protocol):
    """What a model whose answers can be compared with others without answering anew offers besides."""

    def candidate_losses(self, query: Query, values: Sequence[str]) -> list[Score]:
        """The losses of several answers to one question, with the page read once.

        Args:
            query: Whose own answers play no part.
            values: Answers that are scored, one at least.

        Returns:
            In order; for the query's first accepted answer the loss that ``respond`` gives.

        Raises:
            UnanswerableError: The page's image cannot be read.
        """
        ...
