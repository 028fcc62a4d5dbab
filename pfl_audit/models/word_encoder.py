"""An encoder of words with boxes whose embeddings are one sum, as far as attacks on its gradient use it.

Every table that takes part in the sum gets the same error signal s_t = dL/de_t in the row that token t looked up, or a
slice of it where tables stand side by side. LayerNorm and dropout come after the sum and do not change that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, Protocol

import torch
from torch import Tensor

from pfl_audit.models.samples import Text

TableName = Literal["word", "position", "types", "x", "y", "h", "w", "patches", "projection", "bias"]
"""Tables of tokens, positions, token types and coordinates; position table, weight and bias of the patch embedding."""


class Table(NamedTuple):
    """A parameter of the embeddings."""

    name: str
    shape: tuple[int, ...]


class PixelScale(Protocol):
    """How a page becomes pixels."""

    @property
    def size(self) -> tuple[int, int]:
        """Width and height in pixels."""

    @property
    def mean(self) -> tuple[float, ...]:
        """Subtracted from each channel, after scaling to 0..1."""

    @property
    def std(self) -> tuple[float, ...]:
        """Divisor of each channel after that."""


@dataclass(frozen=True)
class EmbeddingLayout:
    """Tables of an embedding sum, and the part of the error signal that each gets.

    Attributes:
        width: Width of the embeddings.
        pad: Padding token; its row of the word table gets no gradient.
        first: Row of the position table that the first token looks up.
        padding_shows: Whether padding tokens have positions of their own; otherwise they share a row of the position
            table that gets no gradient.
        tables: Name to table, for those that the model has; ``word`` and ``position`` at least.
        slices: For x and y the slices of a signal that the table gets for the first and the second edge, for h and w
            the one slice; empty if there are no tables of coordinates.
        pixels: How the page becomes pixels, if it enters by patches with absolute positions; else None.
    """

    width: int
    pad: int
    first: int
    padding_shows: bool
    tables: Mapping[TableName, Table]
    slices: Mapping[str, tuple[slice, ...]] = field(default_factory=dict)
    pixels: PixelScale | None = None


class SpanHead(NamedTuple):
    """Layer whose two outputs score every token as the start and the end of the answer.

    Attributes:
        weight: Name of its weight.
    """

    weight: str
    layer: torch.nn.Module


class Norm(NamedTuple):
    """A LayerNorm: names of its weight and bias, and its epsilon."""

    gain: str
    shift: str
    epsilon: float


@dataclass(frozen=True)
class PatchStates:
    """Parameters that the page's patches meet beside those of the layout, before the first encoder layer.

    Attributes:
        start: What is put in front of the patches, (1, 1, width).
        norms: LayerNorms of the patches with their positions, in order.
    """

    start: str
    norms: tuple[Norm, ...]


@dataclass(frozen=True)
class EncoderInputs:
    """Parameters between the embedding sum and the first encoder layer, and of that layer those that have its inputs.

    Attributes:
        norms: LayerNorms that follow the sum, in order.
        attention: Weights of q, k and v, each with the normalised sum as its input.
        feed: Weight of the first feed-forward layer.
        start: Token at the first position of every sample, in an empty box.
        end: Token at the last position of every sample.
        patches: How patches become inputs; None if the model takes no image.
    """

    norms: tuple[Norm, ...]
    attention: tuple[str, ...]
    feed: str
    start: int
    end: int
    patches: PatchStates | None = None


class WordEncoder(Protocol):
    """How a model tokenises question and page, and the tables that the tokens look up."""

    @property
    def layout(self) -> EmbeddingLayout:
        """The embedding sum."""

    @property
    def head(self) -> SpanHead:
        """The layer that points to the answer."""

    @property
    def first(self) -> EncoderInputs:
        """The first encoder layer."""

    def continuations(self) -> Tensor:
        """Tokens that continue a word, bool (vocabulary,)."""

    def tokens(self, text: Text) -> Tensor:
        """Token ids of a sample, int64 (n,)."""

    def boxes(self, text: Text) -> Tensor:
        """Boxes of a sample's tokens, int64 (n, 4): left, top, right, bottom as rows of the tables of coordinates."""

    def text(self, tokens: Tensor, boxes: Tensor, types: Tensor, answer: tuple[int, int] = (0, 0)) -> Text:
        """The sample that has these tokens.

        Args:
            tokens: int64 (n,); -1 where unknown, for which the unknown token is taken.
            boxes: int64 (n, 4), clipped to the tables.
            types: int64 (n,), token types; -1 counts as 0.
            answer: First and last token of the answer.
        """

    def decode(self, ids: Sequence[int]) -> str:
        """Text of tokens; unknown ones (-1) are left out."""
