"""A decoder that reads question and answer as one sequence of tokens, as far as attacks on its gradient use it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor
from torch.nn import functional

from pfl_audit.models.samples import Text

Norm = tuple[Tensor, Tensor, float]
"""Weight and bias of a layer normalisation, float64 (width,), and its epsilon."""


@dataclass(frozen=True)
class TextParameters:
    """Endings of the names of the parameters whose gradients depend on the text.

    Attributes:
        word: Embedding of the tokens.
        position: Table of positions.
        attention: Query, key and value projections of the first self-attention, each (width, width).
        output: Output layer, which holds the embedding's gradient where the two are tied.
    """

    word: str
    position: str
    attention: tuple[str, ...]
    output: str


@dataclass(frozen=True)
class FirstLayer:
    """Weights of a decoder up to its first self-attention.

    The token v at position p enters as e(v, p) = scale E[v] + P[p + offset], and the attention's projections see
    LN'(LN(e)).

    Attributes:
        embedding: E, (vocabulary, width).
        positions: P, (offset + positions, width).
        behind: LN, after the sum of the embeddings.
        before: LN', before the first self-attention.
        scale: Factor of the embedding.
        offset: Row of the first position.
        pad: Padding token; its row of the embedding gets no gradient.
        tied: Whether the embedding is the output layer as well.
    """

    embedding: Tensor
    positions: Tensor
    behind: Norm
    before: Norm
    scale: float
    offset: int
    pad: int
    tied: bool
    parameters: TextParameters

    @property
    def width(self) -> int:
        """Width of the decoder."""
        return int(self.embedding.shape[1])

    @property
    def places(self) -> int:
        """Largest number of tokens."""
        return len(self.positions) - self.offset

    def word_part(self, tokens: Tensor) -> Tensor:
        """Scaled rows scale E[v] of tokens int64 (n,), as float64 (n, width)."""
        return self.scale * self.embedding[tokens].double()

    def position_part(self, places: Tensor) -> Tensor:
        """P[p + offset] of positions int64 (n,), which start at -offset, as float64 (n, width)."""
        return self.positions[places + self.offset].double()

    def attention_input(self, sums: Tensor) -> Tensor:
        """LN'(LN(e)) of e float64 (..., width)."""
        for weight, bias, epsilon in (self.behind, self.before):
            sums = functional.layer_norm(sums, weight.shape, weight, bias, epsilon)
        return sums


class TextDecoder(Protocol):
    """How a model tokenises a question and its answer, and the first weights that the tokens meet."""

    @property
    def vocabulary(self) -> int:
        """Number of token ids."""

    @property
    def markers(self) -> frozenset[int]:
        """Tokens that stand around every question and answer, whatever their text."""

    def first_layer(self) -> FirstLayer:
        """The current weights up to the first self-attention, on the CPU."""

    @property
    def end(self) -> int:
        """Token that ends every answer, and is the last that the decoder reads."""

    def ids(self, text: Text) -> Tensor:
        """What the decoder reads of a sample, int64 (tokens,)."""

    def text(self, ids: Sequence[int]) -> Text:
        """The sample that has these tokens, with the labels that follow from them.

        Args:
            ids: What the decoder reads; -1 where a token is unknown, for which a placeholder is taken.
        """

    def answer_at(self, ids: Sequence[int]) -> int | None:
        """Index of the first token of the answer, or None if the marker before it is missing."""

    def decode(self, ids: Sequence[int]) -> str:
        """Text of tokens; markers and unknown tokens (-1) are left out."""
