"""A template: the page that everybody knows, and the fields that only the client fills in.

What an observer holds beside the gradient (GI-DQA, section 3.2: "standard formats with private fields left empty").
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pfl_audit.attacks.inversion.template.fields_file import read_fields
from pfl_audit.attacks.inversion.template.find import find_boxes
from pfl_audit.documents.document import Boxes, as_boxes
from pfl_audit.documents.images import Box, PageImage
from pfl_audit.errors import AuditError, NotAuditableError, UnanswerableError, UsageError
from pfl_audit.files import sha256_json
from pfl_audit.inputs import require_input

Pixels = NDArray[np.uint8]
Window = tuple[int, int, int, int]
"""Left, top, right, bottom in pixels; right and bottom are one past the last pixel."""

MIN_SIDE = 32
"""Shortest side of a page on which a field can be written in."""

MAX_PIXELS = 10_000_000
"""Largest page: A4 at 300 dots an inch has 8.7 million. Looking for blank boxes takes some 200 bytes a pixel."""


@dataclass(frozen=True)
class TemplateField:
    """A blank place.

    Attributes:
        id: Unique on its template: ``field-1``, ``field-2``, ...
        box: Left, top, right, bottom as shares of the page.
        label: What is printed beside it, such as ``Date of birth:``; empty where unknown.
    """

    id: str
    box: Box
    label: str = ""


@dataclass(frozen=True, eq=False)
class Template:
    """An empty form.

    Attributes:
        pixels: uint8 (height, width, 3), RGB.
        fields: At least one; none is empty, none overlaps another.
        words: What is printed on it, in reading order, as far as it is known.
        boxes: float32 (words, 4), shares of the page.
    """

    pixels: Pixels
    fields: tuple[TemplateField, ...]
    words: tuple[str, ...] = ()
    boxes: Boxes = field(default_factory=lambda: as_boxes([], 0))

    @property
    def size(self) -> tuple[int, int]:
        """Width and height in pixels."""
        return self.pixels.shape[1], self.pixels.shape[0]

    @cached_property
    def page(self) -> NDArray[np.float32]:
        """The pixels as float32 (height, width, 3), 0 to 1."""
        return np.asarray(self.pixels / 255, dtype=np.float32)

    def window(self, field: TemplateField) -> Window:
        """Where a field is, in pixels."""
        width, height = self.size
        left, top, right, bottom = field.box
        return round(left * width), round(top * height), round(right * width), round(bottom * height)

    def mask(self, fields: Sequence[TemplateField] | None = None) -> NDArray[np.bool_]:
        """Which pixels are private: bool (height, width), true inside ``fields`` (all of them if None)."""
        inside = np.zeros(self.pixels.shape[:2], dtype=bool)
        for one in self.fields if fields is None else fields:
            left, top, right, bottom = self.window(one)
            inside[top:bottom, left:right] = True
        return inside

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the pixels, the fields, and the words with their boxes."""
        fields = [[one.id, list(one.box), one.label] for one in self.fields]
        printed = [list(self.words), self.boxes.tolist()]
        return sha256_json([list(self.pixels.shape), self.pixels.tobytes().hex(), fields, *printed])


def open_template(image: Path, fields: Path | None = None) -> Template:
    """Open an empty form.

    Args:
        image: PNG, JPEG or another page image.
        fields: A ``fields.json`` (see ``fields_file``); without it blank boxes are looked for (see ``find``).

    Raises:
        AuditError: The image or the file cannot be read, or a field is outside the page, empty or over another.
        NotAuditableError: No blank box was found.
    """
    pixels = _read(image, "template")
    height, width = pixels.shape[:2]
    if fields is not None:
        told = read_fields(fields, (width, height))
        places = tuple(zip(told.labels, told.boxes, strict=True))
        words, boxes = told.words, told.word_boxes
    else:
        places = tuple(("", box) for box in find_boxes(pixels))
        words, boxes = (), as_boxes([], 0)
        if not places:
            raise NotAuditableError(f"no blank box was found on template {image}", "Say where they are with --fields")
    numbered = tuple(TemplateField(f"field-{number}", box, label) for number, (label, box) in enumerate(places, 1))
    return Template(pixels, numbered, words, boxes)


def open_filled(image: Path, template: Template, role: str = "document") -> Pixels:
    """Open a filled page of a template, or another picture of its size.

    Args:
        image: PNG, JPEG or another page image.
        template: Whose size it must have.
        role: What to call it in errors.

    Returns:
        uint8 (height, width, 3), of the template's size.

    Raises:
        AuditError: The image cannot be read.
        UsageError: It has another size.
    """
    pixels = _read(image, role)
    check_size(pixels, template, f"{role} {image}")
    return pixels


def check_size(pixels: Pixels, template: Template, name: str) -> None:
    """Raise UsageError where what is called ``name`` has not the template's size."""
    if pixels.shape != template.pixels.shape:
        height, width = pixels.shape[:2]
        raise UsageError(
            f"{name} is {width} x {height} pixels and its template {template.size[0]} x {template.size[1]}",
            "Give both in the same size, laid over one another",
        )


def _read(path: Path, role: str) -> Pixels:
    require_input(path, f"Give the {role} as a PNG or JPEG")
    try:
        page = PageImage(path).open()
    except UnanswerableError as error:
        raise AuditError(f"{role}: {error.problem}", f"Give the {role} as a PNG or JPEG") from error
    if min(page.size) < MIN_SIDE:
        raise AuditError(
            f"{role} {path} is {page.width} x {page.height} pixels", f"Give one of {MIN_SIDE} pixels or more on a side"
        )
    if page.width * page.height > MAX_PIXELS:
        raise AuditError(
            f"{role} {path} is {page.width} x {page.height} pixels, more than {MAX_PIXELS:,}",
            "Give it with 300 dots an inch or fewer",
        )
    return np.array(page, dtype=np.uint8)
