"""What an attack may ask of a model that reads the tokens of forms."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from pfl_audit.documents.document import Boxes
from pfl_audit.documents.forms.form import Field, Form
from pfl_audit.models.protocol import Capability

FormTask = Literal["mlm", "ee-bio", "ee-spade", "el"]
"""Masked language modelling; entity extraction by BIO or SPADE tags; entity linking."""
TokenIds = NDArray[np.int64]


@dataclass(frozen=True)
class TokenSpan:
    """Where a field stands among the tokens of a window: [start, stop)."""

    field: Field
    start: int
    stop: int


@dataclass(frozen=True, eq=False)
class Window:
    """A stretch of a form that a model reads at once.

    Attributes:
        form: Of which it is a part.
        number: Of the window in its form, from 0.
        ids: int64 (n,), special tokens included.
        boxes: float32 (n, 4), the box of each token's word as shares of the page; special tokens as the model has them.
        words: int64 (n,), the word of each token, or -1.
        spans: Fields that stand in it, whole.
    """

    form: Form
    number: int
    ids: TokenIds
    boxes: Boxes
    words: TokenIds
    spans: tuple[TokenSpan, ...]


@dataclass(frozen=True, eq=False)
class Blank:
    """A window in which one field was scrubbed: what the adversary holds. What stood there is not in it.

    Attributes:
        window: ``ids`` has the mask token all over the field; its form's image is whole, and whoever reads it
            must put ``patch`` over it.
        span: Where the field stood; its label is public, as are its box and its number of tokens.
        patch: float32 (words, 4), the boxes of the field's words, as shares of the page.
    """

    window: Window
    span: TokenSpan
    patch: Boxes

    @property
    def length(self) -> int:
        """Tokens of the field."""
        return self.span.stop - self.span.start


@dataclass(frozen=True, eq=False)
class Attempt:
    """A blank with its first tokens filled in, the others masked still.

    Attributes:
        blank: Of which field.
        tokens: Ids so far, at most ``blank.length``.
    """

    blank: Blank
    tokens: tuple[int, ...] = ()


@runtime_checkable
class FormModel(Protocol):
    """A model that reads the tokens of forms."""

    @property
    def family(self) -> str:
        """Name of the architecture: ``layoutlm``, ``bros`` or ``bert``."""
        ...

    @property
    def fingerprint(self) -> str:
        """SHA-256 of everything that decides what it says."""
        ...

    @property
    def capabilities(self) -> frozenset[Capability]:
        """FORM_LOSS, and with a masked-language head TOKENS."""
        ...

    @property
    def task(self) -> FormTask:
        """What its head does."""
        ...

    @property
    def vocabulary(self) -> tuple[str, ...]:
        """Tokens by id; models that work together must have the same."""
        ...

    @property
    def sees_page(self) -> bool:
        """Whether it takes the page's image."""
        ...

    def require_labels(self, labels: Collection[str]) -> None:
        """Check that the head knows these field labels; a head without labels accepts all.

        Raises:
            AuditError: One is unknown; the message names it.
        """
        ...

    def describe(self) -> dict[str, Any]:
        """Facts for the report: family, path, sha256, parameters, notes."""
        ...

    def blanks(self, form: Form) -> list[tuple[Blank, tuple[int, ...]]]:
        """Every field of a form scrubbed, one at a time, with the ids that stood there, for scoring alone."""
        ...

    def token_logits(self, attempts: Sequence[Attempt]) -> NDArray[np.float32]:
        """Logits of the next open token of each attempt, float32 (attempts, vocabulary). Only with TOKENS.

        Special and unused tokens get minus infinity. Independent of what else is in the call.
        """
        ...

    def losses(self, attempts: Sequence[Attempt]) -> NDArray[np.float64]:
        """Training loss at the last token of each attempt, float64 (attempts,); never averaged over them."""
        ...
