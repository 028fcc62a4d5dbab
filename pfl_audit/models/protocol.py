"""What models can be asked for, and the protocol of those that answer questions about pages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:  # documents bring numpy, which 'pfl-audit list' can do without
    from pfl_audit.documents.document import Query
    from pfl_audit.errors import UnanswerableError


class Capability(StrEnum):
    """Something that a model can be asked for."""

    ANSWER = "answer"
    """The answer to a question about a page."""
    CONFIDENCE = "confidence"
    """The probability that the model gives to its own answer."""
    LOSS = "loss"
    """The loss of the right answer."""
    GUESSES = "likely answers"
    """The likeliest answers to a question, by beam search (`GuessingModel`)."""
    LIVE = "live"
    """Questions that have not been asked before, such as ones about a scrubbed page."""
    TOKENS = "tokens"
    """Likely tokens of a masked place on a form."""
    FORM_LOSS = "form loss"
    """The training loss of a form, however its fields are filled in."""
    LOSS_ESTIMATES = "estimated losses"
    """Estimates of the training loss of a form with each token of the vocabulary at a masked place."""
    GRADIENT = "training gradient"
    """The gradient of the training loss, and derivatives of that gradient with respect to the page's pixels."""
    TEXT_DECODER = "decoder of question and answer"
    """A decoder that reads question and answer as one sequence of tokens (`text_decoder.TextDecoder`)."""
    WORD_ENCODER = "encoder of words with position tables"
    """An encoder that adds up embedding tables of words, positions and boxes (`word_encoder.WordEncoder`)."""
    WORD_TABLES = "tables of words"
    """Tables of words and coordinates, without positions (`word_tables.LooksUpWords`)."""
    TRAINABLE = "trainable"
    """Training by ``pfl-audit train``."""


QUESTIONS = frozenset({Capability.ANSWER, Capability.CONFIDENCE, Capability.LOSS, Capability.LIVE})
"""Capabilities of a model that answers questions with probabilities."""


class OpenedModel(Protocol):
    """What every opened model has."""

    @property
    def family(self) -> str:
        """Name of the architecture, such as ``vt5``."""

    @property
    def fingerprint(self) -> str:
        """SHA-256 of everything that determines its outputs: weights, configuration, tokenizer, adapter."""

    def describe(self) -> dict[str, Any]:
        """Facts for the report: family, path, sha256, parameters, notes."""


@dataclass(frozen=True)
class Response:
    """Response of a model to one query.

    Attributes:
        answer: Most likely answer, decoded.
        confidence: Product of the probabilities of the answer's tokens, 0 to 1, or None.
        loss: Mean negative log-likelihood of the tokens of the query's first accepted answer
            (natural logarithm, end-of-sequence included), or None.
        tokens: Number of tokens that the loss averages over, or None.
        token_losses: Negative log-likelihood of each of these tokens in order (nats, single precision), or None.
    """

    answer: str
    confidence: float | None = None
    loss: float | None = None
    tokens: int | None = None
    token_losses: tuple[float, ...] | None = None


@dataclass(frozen=True)
class Score:
    """Likelihood of one value as the answer to a question.

    Attributes:
        loss: Mean negative log-likelihood of the value's tokens (natural logarithm, end-of-sequence included).
        tokens: Number of tokens that the loss averages over.
        token_losses: Negative log-likelihood of each token, in single precision, where the model has just computed it.
    """

    loss: float
    tokens: int
    token_losses: tuple[float, ...] | None = field(default=None, compare=False)

    def response(self, answer: str, confidence: float) -> Response:
        """The response to a query of which this is the score of the first accepted answer."""
        return Response(answer, confidence, self.loss, self.tokens, self.token_losses)


@dataclass(frozen=True)
class Guess:
    """One of the likely answers to a question.

    Attributes:
        answer: The answer, decoded.
        loss: Mean negative log-likelihood of its tokens, as the tokenizer cuts the text, when they are given to the
            decoder (natural logarithm, end-of-sequence included); what ``CandidateModel`` gives for it.
        tokens: Number of tokens that the loss averages over.
    """

    answer: str
    loss: float
    tokens: int


def sorted_guesses(answers: Sequence[str], scores: Sequence[Score]) -> list[Guess]:
    """Answers with their scores, the lowest loss first, equal ones by their text."""
    guesses = [Guess(text, score.loss, score.tokens) for text, score in zip(answers, scores, strict=True)]
    return sorted(guesses, key=lambda one: (one.loss, one.answer))


@runtime_checkable
class DocumentModel(OpenedModel, Protocol):
    """A model that answers questions about pages."""

    @property
    def capabilities(self) -> frozenset[Capability]:
        """Capabilities of the opened model."""

    def cost(self, query: Query) -> int:
        """Length of the model's input for ``query``, in tokens; batches are made of similar lengths."""

    def batch_size(self, cost: int) -> int:
        """Largest number of queries of that length in one batch."""

    def respond(self, queries: Sequence[Query]) -> list[Response]:
        """Answer a batch, in order. Deterministic, and independent of what else is in the batch.

        Raises:
            UnanswerableError: One of the queries cannot be answered, such as for its page image.
        """


@runtime_checkable
class ConcurrentModel(Protocol):
    """A model that answers several questions at once, each in its own time."""

    def respond_each(self, queries: Sequence[Query]) -> Iterator[tuple[int, Response | UnanswerableError]]:
        """Answer questions in any order.

        A further question starts only when an answer has been taken, so that a caller that stores every answer before
        it takes the next one loses no more than those in flight.

        Yields:
            Index of a query with its response, or with the reason why it cannot be answered.
        """

    def work(self) -> dict[str, int]:
        """Counts of what this run has used."""


@runtime_checkable
class FieldModel(Protocol):
    """A model that takes no question and gives all fields of a page; a query is asked by its key."""

    def require_field(self, query: Query) -> None:
        """Check that the model can give the field of a query.

        Raises:
            UnanswerableError: It has no field of this key.
        """


@runtime_checkable
class CandidateModel(Protocol):
    """A model that computes the losses of several candidate answers to one question at once."""

    def candidate_losses(self, query: Query, values: Sequence[str]) -> list[Score]:
        """Losses of several answers to one question, with the page encoded once.

        Args:
            query: Question and page; its own answers have no effect.
            values: Answers to score, at least one.

        Returns:
            In order; for the query's first accepted answer the loss that ``respond`` gives.

        Raises:
            UnanswerableError: The page's image cannot be read.
        """


@runtime_checkable
class DropoutModel(Protocol):
    """A model that computes losses in training mode as well, as the reference code of privacy-aware-docvqa does."""

    def dropout_losses(self, query: Query, values: Sequence[str]) -> list[Score]:
        """Losses of answers to one question with dropout, each in a pass of its own.

        Page, question and answer seed the dropout, so that a loss is the same in every run.

        Returns:
            Scores in the order of ``values``.

        Raises:
            UnanswerableError: The page's image cannot be read.
            AuditError: The model computes NaN or infinite losses.
        """


@runtime_checkable
class GuessingModel(Protocol):
    """A model that gives several likely answers to a question."""

    def guess(self, queries: Sequence[Query], width: int) -> list[list[Guess]]:
        """The likeliest answers to each question that a beam search finds.

        Args:
            queries: Questions and pages; their own answers have no effect, and neither have the other queries.
            width: Prefixes that are continued at a time, and most answers to a question.

        Returns:
            In order; the answers to a question with the lowest loss first, no two of the same text.

        Raises:
            UnanswerableError: The image of a page cannot be read.
            AuditError: The model computes NaN or infinite losses.
        """
