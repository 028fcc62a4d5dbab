"""Protocol of models that read the tokens of forms."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from pfl_audit.documents.document import Boxes
from pfl_audit.documents.forms.form import Field, Form
from pfl_audit.models.encoders.kinds import FormTask
from pfl_audit.models.protocol import Capability, OpenedModel

TokenIds = NDArray[np.int64]


@dataclass(frozen=True)
class TokenSpan:
    """Token range [start, stop) of a field in a window."""

    field: Field
    start: int
    stop: int


@dataclass(frozen=True, eq=False)
class Window:
    """Consecutive tokens of a form that fit the model's input.

    Attributes:
        form: Form that it is a part of.
        number: Index of the window in its form, from 0.
        ids: int64 (n,), special tokens included.
        boxes: float32 (n, 4), the box of each token's word as shares of the page; of special tokens as the model
            defines it.
        words: int64 (n,), index of each token's word, or -1 for special tokens.
        spans: Fields that the window holds completely.
    """

    form: Form
    number: int
    ids: TokenIds
    boxes: Boxes
    words: TokenIds
    spans: tuple[TokenSpan, ...]


@dataclass(frozen=True, eq=False)
class Blank:
    """A window in which one field was scrubbed, as the adversary has it. It does not hold the field's tokens.

    Attributes:
        window: ``ids`` has the mask token all over the field; its form's image is whole, and a reader of it
            must put ``patch`` over it.
        span: Token range of the field; its label is public, as are its box and its number of tokens.
        patch: float32 (words, 4), the boxes of the field's words, as shares of the page.
    """

    window: Window
    span: TokenSpan
    patch: Boxes

    @property
    def length(self) -> int:
        """Number of tokens of the field."""
        return self.span.stop - self.span.start


@dataclass(frozen=True, eq=False)
class Attempt:
    """A blank with its first tokens filled in and the others still masked.

    Attributes:
        tokens: Ids of the first tokens, at most ``blank.length``.
    """

    blank: Blank
    tokens: tuple[int, ...] = ()


@runtime_checkable
class FormModel(OpenedModel, Protocol):
    """A model that reads the tokens of forms."""

    @property
    def capabilities(self) -> frozenset[Capability]:
        """FORM_LOSS; with a masked-language head TOKENS, with another one perhaps LOSS_ESTIMATES."""

    @property
    def task(self) -> FormTask:
        """Task of its head."""

    @property
    def vocabulary(self) -> tuple[str, ...]:
        """Tokens by id; models that are used together need the same vocabulary."""

    @property
    def sees_page(self) -> bool:
        """Whether it takes the page's image."""

    def require_labels(self, labels: Collection[str]) -> tuple[str, ...]:
        """Field labels that the head does not have, and reads as outside of fields; a head without labels has none.

        Raises:
            AuditError: It has none of the labels; the message names some.
        """

    def blanks(self, form: Form) -> list[tuple[Blank, tuple[int, ...]]]:
        """Each field of a form scrubbed in turn, with its true ids, which are for scoring only."""

    def token_logits(self, attempts: Sequence[Attempt]) -> NDArray[np.float32]:
        """Logits of the next open token of each attempt, float32 (attempts, vocabulary). Only with TOKENS.

        Special and unused tokens get minus infinity. Independent of what else is in the call.
        """

    def losses(self, attempts: Sequence[Attempt]) -> NDArray[np.float64]:
        """Training loss at the last token of each attempt, float64 (attempts,); never averaged over them."""

    def estimated_losses(self, attempts: Sequence[Attempt]) -> NDArray[np.float32]:
        """Estimate of the loss with each token in place of the next open one, from one gradient an attempt.

        Only with LOSS_ESTIMATES.

        Returns:
            float32 (attempts, vocabulary); plus infinity for special and unused tokens.
        """
