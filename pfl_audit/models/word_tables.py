"""Tables of words and coordinates of a model without absolute positions, as far as attacks on its gradient use them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from pfl_audit.documents.document import Boxes
from pfl_audit.models.samples import Text
from pfl_audit.models.word_encoder import PixelScale, Table


class WordTables(Protocol):
    """Tables that the tokens of question, page and answer look up.

    Attributes:
        word: Table of tokens.
        edges: Tables of coordinates: ``x`` and ``y``.
        always: Tokens that tell nothing of a sample: every sample has them, such as the end, or no page, such as masks.
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


@dataclass(frozen=True)
class SummedInputs:
    """How inputs of the first encoder layer are made, by endings of the parameters' names.

    An input is norm * scaled(E[token] + W LayerNorm(X[left] + Y[top] + X[right] + Y[bottom]) + c).

    Attributes:
        word: E, (vocabulary, width).
        across: X, (coordinates, width).
        down: Y, (coordinates, width).
        gain: Weight of LayerNorm, (width,).
        shift: Bias of LayerNorm, (width,).
        epsilon: Of LayerNorm.
        matcher: W, (width, width).
        offset: c, (width,).
        norm: (width,), multiplies the columns of a scaled input.
        attention: Weights that are given the inputs, (outputs, width) each.
        patches: (width, features), is given the features of the page's patches, and makes inputs of them.
        patches_offset: (width,), is added.
        pairs: Tokens with boxes that every sample has, such as the prompt and the end: int64 (n, 5).
        dropout: Rate of dropout on the inputs of matcher and attention in training; the higher one of the two.
    """

    word: str
    across: str
    down: str
    gain: str
    shift: str
    epsilon: float
    matcher: str
    offset: str
    norm: str
    attention: tuple[str, ...]
    patches: str
    patches_offset: str
    pairs: Tensor
    dropout: float = 0.0


@dataclass(frozen=True)
class FirstAttention:
    """The first self-attention of encoder or decoder and what is given its result, by endings of the parameters' names.

    Attributes:
        norm: Gain of the norm before the attention, (width,).
        query: (inner, width), heads one below the other; ``key`` and ``value`` too.
        out: (width, inner).
        second: Gain of the norm of the result, (width,).
        feed: Weights that are given what that norm makes, (outputs, width) each.
        epsilon: Epsilon of the layer norms.
        heads: Number of heads.
    """

    norm: str
    query: str
    key: str
    value: str
    out: str
    second: str
    feed: tuple[str, ...]
    epsilon: float
    heads: int


@dataclass(frozen=True)
class PageInput:
    """How a page becomes patches, by endings of the parameters' names.

    Attributes:
        positions: (1, 1 + patches, width).
        projection: (width, channels, side, side).
        bias: (width,).
        scale: How a page becomes pixels.
    """

    positions: str
    projection: str
    bias: str
    scale: PixelScale


@runtime_checkable
class SumsWordsAndBoxes(WordTables, Protocol):
    """WordTables of a model that adds up tokens and boxes in front of its first layer, and puts a page behind them."""

    def summed(self) -> SummedInputs:
        """How they are added up."""

    def layer(self) -> FirstAttention:
        """What they are given to, up to the feed-forward layer."""

    def page(self) -> PageInput:
        """What pixels are given to."""

    def patches(self, page: Tensor) -> Tensor:
        """Inputs of the first layer that a page becomes: float (3, height, width), 0 to 1, to (patches, width)."""

    def bias(self, length: int) -> Tensor:
        """What is added to the scores of the first attention, float (heads, length, length), queries first."""

    def frame(self) -> tuple[list[int], list[int]]:
        """Tokens of the prompt before the question and behind it."""

    def starts_word(self, token: int) -> bool:
        """Whether a token begins a word."""

    def pieces(self, word: str) -> list[int]:
        """Tokens of a word of the page."""

    def rows(self, boxes: Boxes) -> NDArray[np.int64]:
        """Rows of the tables of coordinates of boxes, int64 (n, 4); boxes are float32 (n, 4), shares of the page."""
