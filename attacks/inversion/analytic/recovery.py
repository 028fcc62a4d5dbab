"""Closed-form recovery of a document from a gradient, with the limits of what is recovered.

Needed are the shapes of the model and one gradient. Neither the weights nor the loss nor anything of the client's
is asked for. Dropout hides nothing, since it comes after the sum of the embeddings; a gradient that was scaled or
clipped as a whole is as good.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pfl_audit.attacks.inversion.analytic.boxes import read_boxes
from pfl_audit.attacks.inversion.analytic.limits import (
    TOO_MUCH,
    Cause,
    Limit,
    missing,
    page_limits,
    reading_limits,
    restated,
    signs,
)
from pfl_audit.attacks.inversion.analytic.noise import Noise, noise_of
from pfl_audit.attacks.inversion.analytic.pixels import Page, read_pixels
from pfl_audit.attacks.inversion.analytic.signals import rows_of, signals_of, sums_of
from pfl_audit.attacks.inversion.analytic.signs import only_signs, tokens_by_direction, tokens_from_signs
from pfl_audit.attacks.inversion.analytic.tables import Tables, read_tables
from pfl_audit.attacks.inversion.analytic.tokens import Reading, read_tokens, read_types
from pfl_audit.attacks.inversion.update.traits import traits_of
from pfl_audit.errors import AuditError
from pfl_audit.metrics.arrays import Floats
from pfl_audit.models.word_encoder import EmbeddingLayout, PixelScale

_HIDDEN = 100.0
"""Times the energy of noise, from which on signals are missing among the positions."""


@dataclass(frozen=True)
class Recovery:
    """Recovered document.

    Attributes:
        tokens: int64 (n,), ids in their places, -1 where unknown.
        types: int64 (n,), token types, -1 where unknown.
        boxes: int64 (n, 4), left, top, right, bottom in 0..1000, -1 where unknown.
        sure: bool (n, 2), tokens and boxes that no other reading comes near; the rest is the likeliest reading.
        present: int64, ids that stand anywhere, in rising order.
        coordinates: int64 by "x" and "y", edges of boxes that stand anywhere, in rising order.
        pixels: float32 (3, height, width) in 0..1, or None.
        page: How far the pixels can be trusted, or None.
        noise: Standard deviation of the noise that was found in every entry; 0 for rounding only.
        limits: What was not recovered, with the cause.
    """

    tokens: Tensor
    types: Tensor
    boxes: Tensor
    sure: Tensor
    present: Tensor
    coordinates: Mapping[str, Tensor] = field(default_factory=dict)
    pixels: Tensor | None = None
    page: Page | None = None
    noise: float = 0.0
    limits: tuple[Limit, ...] = ()


def recover(
    gradient: Mapping[str, Tensor],
    layout: EmbeddingLayout,
    template: Tensor | None = None,
    goes_on: Tensor | None = None,
) -> Recovery:
    """Read the document out of a gradient of a model whose word embeddings are one sum with absolute positions.

    Args:
        gradient: Gradient of the training loss of one sample by parameter name, up to a factor.
        template: float (3, height, width) in 0..1, of the size of the model's pages: what the page is known to look
            like. Not needed, unless the page has more patches than the model is wide; white paper otherwise.
        goes_on: bool (vocabulary,), the tokens that continue a word; none if not given. Not needed, unless pages have
            many more tokens than a table of coordinates is wide.

    Raises:
        AuditError: Misshapen tensors or NaN, none of the tensors at all, or a template or list of tokens of another
            size.
    """
    tables = read_tables(gradient, layout)
    if tables.position is None and tables.word is None and tables.patches is None:
        raise AuditError(
            "the gradient holds nothing of the embeddings: no word, position or patch tensors, or zeros only",
            "Take the gradient before frozen layers are left out, or use another method",
        )
    vocabulary = layout.tables["word"].shape[0]
    if goes_on is not None and tuple(goes_on.shape) != (vocabulary,):
        raise AuditError(
            f"goes_on is {tuple(goes_on.shape)}, the vocabulary ({vocabulary},)",
            "Take the tokenizer that the model was trained with",
        )
    work = _Recoverer(layout, tables, goes_on)
    work.text()
    if layout.pixels is not None:
        work.image(layout.pixels, template)
    found = work.found()
    return replace(
        found, limits=restated(found.limits, traits_of(gradient, (table.name for table in layout.tables.values())))
    )


class _Recoverer:
    """State of the recovery of a document."""

    def __init__(self, layout: EmbeddingLayout, tables: Tables, goes_on: Tensor | None) -> None:
        self.layout, self.tables = layout, tables
        self.goes_on = np.zeros(0, dtype=bool) if goes_on is None else goes_on.bool().numpy()
        self.noise = _noise(layout, tables)
        self.limits: list[Limit] = []
        self.present: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        self.page: Page | None = None
        self.by_sign = tables.position is not None and only_signs(tables.position)
        self._size(0)

    def _size(self, count: int) -> None:
        self.tokens, self.types = np.full(count, -1), np.full(count, -1)
        self.boxes, self.sure = np.full((count, 4), -1), np.zeros((count, 2), dtype=bool)

    def text(self) -> None:
        """Tokens, types and boxes."""
        word, position = self.tables.word, self.tables.position
        if word is None:
            self.limits.append(missing("the word embeddings", "the tokens are unknown"))
        if position is None:
            lost = "which tokens stand where, and the boxes, are unknown"
            self.limits.append(missing("the position embeddings", lost))
            if word is not None:
                self.present = rows_of(word, self.noise)
        elif self.by_sign:
            self.limits.append(signs())
            if word is not None:
                read = tokens_from_signs(word, position, self.layout.first)
                self._size(len(read.values))
                self._take(read)
        else:
            signals = signals_of(position, self.layout.first, self.noise)
            self._size(len(signals))
            if len(signals):
                self._words(signals)
                self._places(signals)
            else:
                self.limits.append(Limit(Cause.NOISE, f"noise of {self.noise.sigma:.0e} an entry hides all positions"))

    def _take(self, read: Reading) -> None:
        self.tokens, self.sure[:, 0], self.present = read.values[:, 0], read.sure, read.present

    def _words(self, signals: Floats) -> None:
        if self.tables.word is not None:
            # An output layer that shares the table gives every row a gradient, as noise does.
            tied = not self.noise.everywhere and bool(self.tables.word.any(dim=1).double().mean() > 1 / 2)
            padding = self.layout.pad if self.layout.padding_shows else None
            read, spread = read_tokens(self.tables.word, signals, self.noise, tied=tied, padding=padding)
            self._take(read)
            if spread <= TOO_MUCH:  # a position of several pages has no one token
                self._likeliest(self.tables.word, signals)
            unsure, (count, width) = int((~read.sure).sum()), signals.shape
            self.limits += reading_limits("tokens", unsure, count, width, spread, self.noise, complete=read.complete)
        if self.tables.types is not None:
            padded = (self.tokens == self.layout.pad) & self.layout.padding_shows
            self.types = read_types(self.tables.types, signals, padded, self.noise).values[:, 0]

    def _likeliest(self, word: Tensor, signals: Floats) -> None:
        """Where no sum fits, the token whose row points in the direction of the signal."""
        open_ = np.flatnonzero(self.tokens < 0)
        if len(open_):
            sums = sums_of(word, signals, self.noise)
            self.tokens[open_] = tokens_by_direction(sums.values, sums.rows, signals[open_]).values[:, 0]

    def _places(self, signals: Floats) -> None:
        if not self.layout.slices:
            self.limits.append(
                Limit(Cause.UNSEEN, "boxes: the model sees them as distances of pairs of words, which add up")
            )
            return
        for name, edges in (("x", "left and right"), ("y", "top and bottom")):
            if self.tables.edge(name) is None:
                self.limits.append(missing(f"the {name} position embeddings", f"{edges} edges are unknown"))
        joined = self.sure[:, 0] & self.goes_on[self.tokens] if len(self.goes_on) else None
        found = read_boxes(self.tables, signals, self._hidden(signals), self.layout, self.noise, joined)
        self.boxes, self.sure[:, 1] = found.values, found.sure
        if self.tables.x is not None and self.tables.y is not None:
            width = int(self.tables.x.shape[1])
            mixed = any(limit.cause is Cause.MIXED for limit in self.limits)
            self.limits += reading_limits("boxes", int((~found.sure).sum()), len(signals), width,
                                          np.inf if mixed else 1.0, self.noise, complete=found.complete)  # fmt: skip

    def _hidden(self, signals: Floats) -> Floats:
        """The sum of the signals that no position shows: what the token types have beyond them."""
        if self.layout.padding_shows or self.tables.types is None:
            return np.zeros((0, self.layout.width))
        rest = self.tables.types.double().sum(dim=0).numpy() - signals.sum(axis=0)
        mass = float(np.linalg.norm(signals, axis=1).sum())
        bound = self.noise.most(self.noise.variance(len(signals) + 2, mass, len(rest)), len(rest))
        return rest[None] if rest @ rest > _HIDDEN * bound else np.zeros((0, len(rest)))

    def image(self, settings: PixelScale, template: Tensor | None) -> None:
        """The page's pixels."""
        width, height = settings.size
        known = torch.ones(3, height, width) if template is None else template
        if tuple(known.shape) != (3, height, width):
            raise AuditError(
                f"the template is {tuple(known.shape)}, the model's page (3, {height}, {width})",
                "Bring it to the size of the model's pages",
            )
        patches, projection = self.tables.patches, self.tables.projection
        if patches is None or projection is None or not patches[0, 1:].any():
            what = "the patch projection" if projection is None else "the visual positions"
            self.limits.append(missing(what, "the pixels are unknown"))
            return
        side = projection.shape[-1]
        if (height // side) * (width // side) != patches.shape[1] - 1:
            raise AuditError(
                f"{width} x {height} pixels do not make the {patches.shape[1] - 1} patches of the model",
                "Take the preprocessor_config.json that the model was trained with",
            )
        if not self.by_sign:
            self.page = read_pixels(patches, projection, self.tables.bias, self.noise, settings, known)
            self.limits += page_limits(self.page, self.noise)

    def found(self) -> Recovery:
        """The whole."""
        return Recovery(
            tokens=torch.from_numpy(self.tokens),
            types=torch.from_numpy(self.types),
            boxes=torch.from_numpy(self.boxes),
            sure=torch.from_numpy(self.sure),
            present=torch.from_numpy(self.present),
            coordinates={
                name: torch.from_numpy(rows_of(table, self.noise))
                for name in ("x", "y")
                if self.layout.slices and not self.by_sign and (table := self.tables.edge(name)) is not None
            },
            pixels=self.page.pixels if self.page else None,
            page=self.page,
            noise=self.noise.sigma if self.noise.everywhere else 0.0,
            limits=tuple(self.limits),
        )


def _noise(layout: EmbeddingLayout, tables: Tables) -> Noise:
    wide = [table for table in (tables.word, tables.x, tables.y, tables.h, tables.w) if table is not None]
    places = next(each for each in (tables.position, tables.word, tables.patches) if each is not None)
    balanced = None
    if tables.position is not None:
        balanced = tables.types if layout.padding_shows or tables.word is None else tables.word
    return noise_of(wide, places.flatten(0, -2), balanced)
