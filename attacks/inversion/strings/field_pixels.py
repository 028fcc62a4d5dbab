"""One private field on the grid of patches: its form, and which of its pixels a line of text can cover."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from pfl_audit.attacks.inversion.strings.patches import PatchInput
from pfl_audit.attacks.inversion.strings.typeset import Typeset
from pfl_audit.attacks.inversion.template.template import Template, TemplateField, Window
from pfl_audit.metrics.arrays import Bools, Floats

Cover = NDArray[np.uint8]
_LEVELS = 255


@dataclass(frozen=True, eq=False)
class Vectors:
    """How patches become vectors of the span.

    Attributes:
        grey: Whether the channels are averaged, as they are alike on a grey page.
        bias: Whether vectors end with a one, for the gradient of the bias.
    """

    given: PatchInput
    grey: bool
    bias: bool

    def of(self, page: Floats) -> Floats:
        """Vectors of a page's patches.

        Args:
            page: float (..., height, width, 3), 0 to 1.

        Returns:
            float64 (..., rows, columns, width).
        """
        return self._flat(self.given.cut(self.given.black + page * (self.given.white - self.given.black)))

    def rows(self, weight: Floats, bias: Floats | None) -> Floats:
        """Gradient as rows of the same coordinates, float64 (outputs, width)."""
        found = (weight.mean(axis=1) if self.grey else weight).reshape(len(weight), -1)
        return np.concatenate([found, bias[:, None]], axis=1) if bias is not None else found

    def errors(self, weight: Floats, rows: Floats, rounding: float) -> Floats:
        """Size of the errors of each row, float64 (outputs,): channels of a grey page differ by errors alone.

        Args:
            weight: float64 (outputs, 3, side, side).
            rows: As of ``rows``.
            rounding: Relative error of an entry.
        """
        found = np.square(rounding * rows).mean(axis=1)
        if self.grey and np.ptp(self.given.black) == np.ptp(self.given.white) == 0:
            found = found + weight.var(axis=1, ddof=1).reshape(len(weight), -1).mean(axis=1) / 3
        return np.asarray(np.sqrt(np.maximum(found, max(1e-6 * found.max(), 1e-300))))

    def mask(self, pixels: Bools) -> Bools:
        """Pixels of patches, bool (..., side, side), as a mask of vectors, bool (..., width)."""
        flat = pixels.reshape(*pixels.shape[:-2], -1)
        flat = flat if self.grey else np.concatenate([flat] * 3, axis=-1)
        return np.concatenate([flat, np.zeros((*flat.shape[:-1], 1), dtype=bool)], axis=-1) if self.bias else flat

    def _flat(self, cut: Floats) -> Floats:
        found = cut.mean(axis=-3) if self.grey else cut
        found = found.reshape(*cut.shape[:-3], -1)
        if not self.bias:
            return found
        return np.concatenate([found, np.ones((*found.shape[:-1], 1))], axis=-1)


@dataclass(frozen=True, eq=False)
class FieldPixels:
    """A field and the patches that it touches.

    Attributes:
        form: float64 (height, width, 3), 0 to 1, the form on these patches.
        window: Left, top, right, bottom of the field in them.
        others: bool (height, width), pixels of other private fields, which are never known.
    """

    vectors: Vectors
    form: Floats
    window: Window
    others: Bools

    @classmethod
    def of(cls, vectors: Vectors, template: Template, field: TemplateField) -> FieldPixels | None:
        """The patches of a field; None where the patches end before it does."""
        side = vectors.given.side
        left, top, right, bottom = template.window(field)
        x, y = left // side * side, top // side * side
        width, height = -(-right // side) * side, -(-bottom // side) * side
        form = template.pixels[y:height, x:width] / _LEVELS
        if form.shape[:2] != (height - y, width - x):
            return None
        others = template.mask([other for other in template.fields if other is not field])[y:height, x:width]
        return cls(vectors, form, (left - x, top - y, right - x, bottom - y), others)

    @property
    def size(self) -> tuple[int, int]:
        """Width and height of the field."""
        left, top, right, bottom = self.window
        return right - left, bottom - top

    @cached_property
    def plain(self) -> Floats:
        """Vectors of the empty form, float64 (rows, columns, width)."""
        return self.vectors.of(self.form)

    @property
    def blank(self) -> Cover:
        """What nothing covers, uint8 (height, width)."""
        return np.zeros(self.form.shape[:2], dtype=np.uint8)

    def unknown(self, typeset: Typeset, known: int) -> Bools:
        """Which numbers of the patches are unknown: what a line can still cover right of ``known``, and other fields.

        Returns:
            bool (rows, columns, width).
        """
        left, top, right, bottom = self.window
        above, below = typeset.reach
        found = self.others.copy()
        found[top + max(0, above) : min(bottom, top + below), min(right, left + max(0, known)) : right] = True
        side = self.vectors.given.side
        rows, columns = self.plain.shape[:2]
        return self.vectors.mask(found.reshape(rows, side, columns, side).swapaxes(1, 2))

    def changes(self, numbers: Floats, row: int, column: int) -> tuple[Floats, Floats]:
        """What covering a pixel of a patch changes in linear functions of its vector.

        Args:
            numbers: float64 (functions, width).

        Returns:
            With black ink, and in addition for each level of ink from 0 to 1: float64 (side * side, functions) each.
        """
        side, scale = self.vectors.given.side, self.vectors.given.white - self.vectors.given.black
        form = self.form[row * side : (row + 1) * side, column * side : (column + 1) * side].reshape(-1, 3)
        pixels = numbers[:, : -1 if self.vectors.bias else None]
        if self.vectors.grey:
            return -pixels.T * (form @ scale / 3)[:, None], pixels.T * scale.mean()
        parts = pixels.reshape(len(numbers), 3, -1)
        return -np.einsum("fcp,pc,c->pf", parts, form, scale), np.einsum("fcp,c->pf", parts, scale)

    def shares(self, covers: Cover, row: int, column: int) -> Floats:
        """How much of each pixel of a patch is covered, float64 (n, side * side), from covers (n, height, width)."""
        side = self.vectors.given.side
        part = covers[:, row * side : (row + 1) * side, column * side : (column + 1) * side]
        return part.reshape(len(covers), -1) / _LEVELS

    def exact(self, covers: Cover, ink: NDArray[np.int64]) -> Floats:
        """Vectors of the patches as they are drawn, in whole levels.

        Args:
            covers: uint8 (n, height, width).
            ink: int (n,), levels of ink.

        Returns:
            float64 (n, rows, columns, width).
        """
        share = covers.astype(np.int64)[..., None]
        form = np.rint(self.form * _LEVELS).astype(np.int64)
        blend = form * (_LEVELS - share) + ink[:, None, None, None] * share + 128
        return self.vectors.of(((blend >> 8) + blend >> 8) / _LEVELS)
