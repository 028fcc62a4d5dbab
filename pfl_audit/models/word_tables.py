"""Tables of words and coordinates of a model without absolute positions, as far as attacks on its gradient use them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from torch import Tensor

from pfl_audit.models.gradient_protocol import Text
from pfl_audit.models.word_encoder import Table


class WordTables(Protocol):
    """Tables that the tokens of question, page and answer look up.

    Attributes:
        word: Table of tokens.
        edges: Tables of coordinates: ``x`` and ``y``.
        always: Tokens that every sample has, such as the end.
        tied: Whether the table of tokens scores the tokens of the answer as well, so that every row has a gradient.
    """

    word: Table
    edges: dict[str, Table]
    always: frozenset[int]
    tied: bool

    def tokens(self, text: Text) -> Tensor:
        """Tokens of question and page, int64 (n,)."""

    def boxes(self, text: Text) -> Tensor:
        """Their boxes, int64 (n, 4): left, top, right, bottom as rows of the tables of coordinates."""

    def places(self, text: Text) -> Tensor:
        """Their boxes in thousandths of the page, int64 (n, 4)."""

    def answer(self, text: Text) -> Tensor:
        """Tokens of the answer, without its end, int64 (m,)."""

    def decode(self, ids: Sequence[int]) -> str:
        """Text of tokens."""


@runtime_checkable
class LooksUpWords(Protocol):
    """A GradientModel whose tables show which words occur, and not where."""

    def word_tables(self) -> WordTables:
        """The tables."""
