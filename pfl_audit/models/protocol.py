"""What an attack may ask of a model, whatever its family."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from pfl_audit.documents.document import Query

if TYPE_CHECKING:
    from pfl_audit.models.gradient_protocol import GradientModel


class Capability(StrEnum):
    """Something that a target can be asked for."""

    ANSWER = "answer"
    """The answer to a question about a page."""
    CONFIDENCE = "confidence"
    """The probability that the model gives to its own answer."""
    LOSS = "loss"
    """The loss of the right answer."""
    LIVE = "live"
    """Questions that have not been asked before, such as ones about a scrubbed page."""
    TOKENS = "tokens"
    """Likely tokens of a masked place on a form."""
    FORM_LOSS = "form loss"
    """The training loss of a form, however its fields are filled in."""


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


class ModelFamily(Protocol):
    """Opens checkpoints of one family."""

    name: str

    def recognises(self, config: dict[str, Any], tensors: frozenset[str]) -> bool:
        """Whether a checkpoint with this ``config.json`` and these tensor names is of the family."""
        ...

    def open(self, folder: Path, *, device: str) -> DocumentModel:
        """Open the checkpoint.

        Raises:
            AuditError: It cannot be opened, with the tensor or setting named.
        """
        ...


@runtime_checkable
class GradientFamily(Protocol):
    """What a family whose training gradient can be taken offers besides."""

    name: str

    def open_gradients(self, folder: Path, *, device: str) -> GradientModel:
        """Open the checkpoint for its gradient.

        Raises:
            AuditError: It cannot be opened, with the tensor or setting named.
        """
        ...
