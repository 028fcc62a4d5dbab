"""A client fills in a form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Final

import numpy as np
from PIL import Image, ImageDraw

from pfl_audit.attacks.inversion.template.find import reading_order
from pfl_audit.attacks.inversion.template.template import Pixels, Template, TemplateField
from pfl_audit.documents.document import Boxes, as_boxes
from pfl_audit.documents.synthetic.canvas import load_font
from pfl_audit.errors import UsageError

HANDS = ("DejaVuSans", "DejaVuSansMono", "DejaVuSerif")
"""Fonts that are still read at 10 pixels."""
MIN_SIZE = 6
"""Smallest font in pixels."""
READABLE_SIZE = 10
"""Smallest font in pixels that OCR reads, once enlarged, nearly without error (measured with rapidocr)."""
_LINE = 1.2
"""Height of a line over the size of its font."""
_ASCENT = 0.95
_GAP = 0.5
"""Between words, over the size of the font: wide, since OCR swallows a blank of usual width between numbers."""
_PAGE_LINES = 48
"""The font is at most this part of the page's height, and at least 11 pixels where there is room."""


_WORDS: Final = 1 << 14
"""Measured words that are kept: some megabytes."""
_ANCHOR: Final = "ls"
"""Left end of the base line."""


@dataclass(frozen=True)
class _Written:
    """A word in a field.

    Attributes:
        window: Of the field, (left, top, right, bottom) in pixels.
        place: Left end of the word's base line in the field, in pixels.
        size: Of the font, in pixels.
    """

    field: str
    word: str
    window: tuple[int, int, int, int]
    place: tuple[int, int]
    size: int

    def box(self, family: str) -> tuple[float, float, float, float]:
        """What it covers of the page, in pixels."""
        left, top, right, bottom = _extent(family, self.size, self.word)
        across, down = self.window[0] + self.place[0], self.window[1] + self.place[1]
        return left + across, top + down, right + across, bottom + down


@dataclass(frozen=True, eq=False)
class FilledPage:
    """A form with a client's values.

    Attributes:
        words: Printed and written, in reading order.
        boxes: float32 (words, 4), shares of the page.
        owners: The field that each word is in; empty for what is printed.
        values: Field id to what is written there.
    """

    words: tuple[str, ...]
    boxes: Boxes
    owners: tuple[str, ...]
    values: dict[str, str]
    _template: Template
    _written: tuple[_Written, ...]
    _family: str
    _ink: int

    @cached_property
    def image(self) -> Pixels:
        """The page, uint8 (height, width, 3). It differs from the template inside the fields alone."""
        page = Image.fromarray(self._template.pixels)
        for window in dict.fromkeys(one.window for one in self._written):
            inside = page.crop(window)
            draw = ImageDraw.Draw(inside)
            for one in self._written:
                if one.window == window:
                    font = load_font(self._family, one.size)
                    draw.text(one.place, one.word, font=font, fill=(self._ink,) * 3, anchor=_ANCHOR)
            page.paste(inside, window[:2])
        return np.array(page, dtype=np.uint8)


@dataclass(frozen=True)
class _Layout:
    """Words in lines: (word, left) each, in pixels of the field."""

    size: int
    lines: tuple[tuple[tuple[str, float], ...], ...]


def fill(template: Template, values: Mapping[str, str], seed: int) -> FilledPage:
    """Write values into the fields of a form.

    Args:
        values: Field id to value; a field without one stays empty.
        seed: Of the hand: font, ink and where in its field a value begins. The same one gives the same pixels.

    Raises:
        UsageError: There is no such field, or its value does not fit.
    """
    if unknown := sorted(values.keys() - {field.id for field in template.fields}):
        raise UsageError(f"the template has no field {unknown[0][:40]!r}", f"Name one of 1 to {len(template.fields)}")
    rng = np.random.default_rng(seed)
    family = _hand(rng)
    ink = int(rng.integers(10, 50))
    written: list[_Written] = []
    for field in template.fields:
        shift = (int(rng.integers(3)), int(rng.integers(2)))
        if words := values.get(field.id, "").split():
            layout = _lay_out(template, field, words, family)
            if layout is None:
                raise UsageError(f"{field.id} is too small for its value", "Give a shorter value or a larger box")
            written += _write(template, field, layout, shift)
    return _in_order(template, written, dict(values), family, ink)


def fitting(template: Template, values: Mapping[str, str], seed: int) -> dict[str, str]:
    """The values that ``fill`` can write into their fields in the hand of this seed."""
    family = _hand(np.random.default_rng(seed))
    return {
        field.id: values[field.id]
        for field in template.fields
        if field.id in values
        and (not values[field.id].split() or _lay_out(template, field, values[field.id].split(), family) is not None)
    }


def _hand(rng: np.random.Generator) -> str:
    """The font of a hand."""
    return HANDS[int(rng.integers(len(HANDS)))]


def fits(template: Template, field: TemplateField, value: str) -> bool:
    """Whether a value fits its field in READABLE_SIZE, in the widest hand."""
    return _lay_out(template, field, value.split(), "DejaVuSansMono", READABLE_SIZE) is not None


def _lay_out(
    template: Template, field: TemplateField, words: list[str], family: str, least: int = MIN_SIZE
) -> _Layout | None:
    """The largest font in which the words fit, or None."""
    left, top, right, bottom = template.window(field)
    most = max(11, template.size[1] // _PAGE_LINES)
    for size in range(min(most, int((bottom - top) / _LINE)), least - 1, -1):
        # Two to four pixels before the words, as the hand moves them, and two behind.
        lines = _wrap(words, family, size, right - left - 6)
        if lines is not None and len(lines) * size * _LINE <= bottom - top:
            return _Layout(size, lines)
    return None


def _wrap(words: list[str], family: str, size: int, width: int) -> tuple[tuple[tuple[str, float], ...], ...] | None:
    """Words in lines of ``width`` pixels; None if one is wider."""
    lines: list[list[tuple[str, float]]] = [[]]
    at = 0.0
    for word in words:
        length = _length(family, size, word)
        if length > width:
            return None
        if at + length > width:
            lines.append([])
            at = 0.0
        lines[-1].append((word, at))
        at += length + _GAP * size
    return tuple(map(tuple, lines))


@lru_cache(maxsize=_WORDS)
def _length(family: str, size: int, word: str) -> float:
    """Width of a word in pixels; fillings of a form measure the same words many times."""
    return float(load_font(family, size).getlength(word))


@lru_cache(maxsize=_WORDS)
def _extent(family: str, size: int, word: str) -> tuple[float, float, float, float]:
    """What a word covers around the left end of its base line: left, top, right, bottom, in pixels."""
    return load_font(family, size).getbbox(word, mode="L", anchor=_ANCHOR)


def _write(template: Template, field: TemplateField, layout: _Layout, shift: tuple[int, int]) -> list[_Written]:
    """Words of a field, where the hand puts them."""
    window = template.window(field)
    spare = window[3] - window[1] - len(layout.lines) * layout.size * _LINE
    written = []
    for number, line in enumerate(layout.lines):
        base = round(spare / 2 + (number * _LINE + _ASCENT) * layout.size) + min(shift[1], int(spare / 2))
        for word, at in line:
            written.append(_Written(field.id, word, window, (round(at) + 2 + shift[0], base), layout.size))
    return written


def _in_order(
    template: Template, written: Sequence[_Written], values: dict[str, str], family: str, ink: int
) -> FilledPage:
    """Printed and written words together, in reading order."""
    width, height = template.size
    words = [*template.words, *(one.word for one in written)]
    owners = [*[""] * len(template.words), *(one.field for one in written)]
    scale = np.array([width, height, width, height], dtype=np.float64)
    own = np.array([one.box(family) for one in written], dtype=np.float64).reshape(-1, 4) / scale
    boxes = np.concatenate([template.boxes, own])
    order = reading_order([(box[0], box[1], box[2], box[3]) for box in boxes.tolist()])
    return FilledPage(
        tuple(words[at] for at in order),
        as_boxes(boxes[order], len(order)),
        tuple(owners[at] for at in order),
        values,
        template,
        tuple(written),
        family,
        ink,
    )
