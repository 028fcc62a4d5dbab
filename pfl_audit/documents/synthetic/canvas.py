"""A page to draw on, which records the drawn text as OCR words and boxes."""

from __future__ import annotations

import importlib.util
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from pfl_audit.documents.document import Boxes, as_boxes

WIDTH, HEIGHT = 560, 792
"""Pixels of a page; A4's proportions."""

Colour = tuple[int, int, int]
BLACK: Colour = (25, 25, 25)
_BOLD = {"STIXGeneral": "STIXGeneralBol"}


class Face(NamedTuple):
    """A font, with its size in pixels."""

    family: str
    size: int
    bold: bool


class Canvas:
    """A white page to draw on.

    Attributes:
        page: Image of the page.
        draw: Drawing context for shapes.
        words: Words that OCR would read, in drawing order.
    """

    def __init__(self) -> None:
        self.page = Image.new("RGB", (WIDTH, HEIGHT), (255, 255, 255))
        self.draw = ImageDraw.Draw(self.page)
        self.words: list[str] = []
        self._boxes: list[tuple[float, float, float, float]] = []

    def text(
        self,
        position: tuple[float, float],
        text: str,
        *,
        family: str,
        size: int = 11,
        bold: bool = False,
        colour: Colour = BLACK,
        align: str = "left",
        readable: bool = True,
    ) -> float:
        """Draw a line of text word by word.

        Args:
            position: Left (or, by ``align``, centre or right) and top, in pixels.
            text: Words separated by spaces.
            family: One of FONT_FAMILIES.
            size: Size of the font in pixels.
            align: left, centre or right.
            readable: Whether OCR reads the text; it does not read a word mark in a logo.

        Returns:
            The top of the next line.
        """
        left, top = position
        left -= {"left": 0.0, "centre": 0.5, "right": 1.0}[align] * load_font(family, size, bold).getlength(text)
        self._write((left, top), text, Face(family, size, bold), colour, readable=readable)
        return top + size * 1.4

    def _write(self, position: tuple[float, float], text: str, face: Face, colour: Colour, *, readable: bool) -> None:
        """Draw a line of text from its left end."""
        font, (left, top) = load_font(*face), position
        for word in text.split():
            self.draw.text((left, top), word, font=font, fill=colour)
            if readable:
                box = self.draw.textbbox((left, top), word, font=font)
                self.words.append(word)
                self._boxes.append((box[0] / WIDTH, box[1] / HEIGHT, box[2] / WIDTH, box[3] / HEIGHT))
            left += font.getlength(word + " ")

    def boxes(self) -> Boxes:
        """Boxes of the words, float32 (words, 4), as shares of the page."""
        return as_boxes(np.array(self._boxes, dtype=np.float32), len(self.words))


@lru_cache(maxsize=256)
def load_font(family: str, size: int, bold: bool = False) -> ImageFont.FreeTypeFont:
    """A font that is distributed with matplotlib."""
    return ImageFont.truetype(str(font_file(family, bold)), size)


def font_file(family: str, bold: bool) -> Path:
    """File of a font that is distributed with matplotlib."""
    name = _BOLD.get(family, f"{family}-Bold") if bold else family
    return _fonts() / f"{name}.ttf"


@lru_cache(maxsize=1)
def _fonts() -> Path:
    spec = importlib.util.find_spec("matplotlib")
    if spec is None or spec.origin is None:  # pragma: no cover - matplotlib is a dependency
        raise ModuleNotFoundError("matplotlib")
    return Path(spec.origin).parent / "mpl-data" / "fonts" / "ttf"
