"""Empty forms drawn from a seed, small enough for a small model and large enough to be read."""

from __future__ import annotations

import io
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

from pfl_audit.attacks.inversion.template.template import Template, Window, open_template
from pfl_audit.documents.synthetic.canvas import load_font
from pfl_audit.errors import AuditError, UsageError
from pfl_audit.files import atomic_write, require_new, write_json
from pfl_audit.progress import Progress

IMAGE, FIELDS, RECIPE = "template.png", "fields.json", "recipe.json"

_SIDES = (192, 2048)
_ROW = 17
"""Height of a field in pixels, within its frame: a line of 11 pixels and air."""
_MARGIN = 8
_LABEL, _TITLE = 10, 12
_PRINT = (25, 25, 25)
_TITLES = ("APPLICATION FORM", "REGISTRATION FORM", "CLAIM FORM", "ORDER FORM", "MEMBER RECORD", "TRAVEL REQUEST")
_NOTES = ("All entries must be complete", "Keep a copy for your records", "Return this form to the office")
_FAMILIES = ("DejaVuSans", "DejaVuSerif")
_LABELS = (
    ("Name:", "Applicant:", "Holder:", "Customer:"),
    ("Date:", "Issued on:", "Due date:", "Date of birth:"),
    ("Amount:", "Total:", "Fee:", "Balance:"),
    ("Phone:", "Telephone:", "Mobile:"),
    ("City:", "Town:", "Place:"),
    ("Reference:", "File no:", "Policy no:"),
    ("Account:", "Account no:"),
    ("Subject:", "Remark:"),
)
"""A form asks for each of these once at most."""
LAYOUTS = ("beside", "above", "ruled", "table")
"""Frames beside their labels; frames in two columns under their labels; rules to write on; a table."""


@dataclass(frozen=True)
class TemplateRecipe:
    """What to draw.

    Attributes:
        templates: How many forms.
        fewest: Fields of a form, at least; 4 or more.
        most: Fields of a form, at most.
        width: Of a page in pixels.
        height: Of a page in pixels.
    """

    templates: int = 12
    fewest: int = 4
    most: int = 6
    width: int = 224
    height: int = 224
    seed: int = 0

    def check(self) -> None:
        """Raise UsageError where the recipe asks for what cannot be."""
        if self.templates < 1:
            raise UsageError("there is no template to draw", "Ask for 1 or more")
        if not 4 <= self.fewest <= self.most <= len(_LABELS):
            raise UsageError(f"a template has 4 to {len(_LABELS)} fields", "Correct the fewest and the most")
        low, high = _SIDES
        if not (low <= self.width <= high and low <= self.height <= high):
            raise UsageError(f"a template has {low} to {high} pixels on a side", "Correct its width and height")
        if (room := _rows(self.height)) < self.most:
            raise UsageError(f"a page of {self.height} pixels has room for {room} fields", "Lower the most, or enlarge")


def make_templates(recipe: TemplateRecipe, folder: Path, progress: Progress) -> tuple[Template, ...]:
    """Draw empty forms and write each as ``form-NN/template.png`` with ``fields.json``.

    The same recipe gives the same bytes. Every form has a generator of its own, so that more of them leave the first
    ones as they were.

    Args:
        folder: Where to; must be empty or missing.

    Returns:
        The templates as they are read from the folder.

    Raises:
        UsageError: The recipe cannot be drawn, or the folder holds something.
    """
    recipe.check()
    require_new(folder)
    with progress.task("templates", recipe.templates) as task:
        for number, seed in enumerate(np.random.SeedSequence(recipe.seed).spawn(recipe.templates), start=1):
            sheet = _Sheet(recipe, np.random.default_rng(seed))
            place = folder / f"form-{number:02d}"
            picture = io.BytesIO()
            sheet.page.convert("L").save(picture, "PNG", optimize=True)
            with atomic_write(place / IMAGE, private=False) as file:
                file.write(picture.getvalue())
            write_json(place / FIELDS, {"fields": sheet.fields, "words": sheet.words}, private=False)
            task.advance()
    write_json(folder / RECIPE, asdict(recipe), private=False)
    return open_templates(folder)


def open_templates(folder: Path) -> tuple[Template, ...]:
    """Open what ``make_templates`` wrote, in the order in which it was drawn.

    Raises:
        AuditError: There is none, or one cannot be read.
    """
    places = sorted(image.parent for image in folder.glob(f"*/{IMAGE}"))
    if not places:
        raise AuditError(f"{folder} holds no {IMAGE} in a folder of its own", "Name a folder of templates")
    return tuple(open_template(place / IMAGE, place / FIELDS) for place in places)


def _rows(height: int) -> int:
    """Rows of labelled fields below the title and above the note."""
    return (height - 56) // (_ROW + 7)


class _Sheet:
    """One empty form.

    Attributes:
        page: The picture.
        fields: As in ``fields.json``, in pixels.
        words: As in ``fields.json``.
    """

    def __init__(self, recipe: TemplateRecipe, rng: np.random.Generator) -> None:
        self.page = Image.new("RGB", (recipe.width, recipe.height), (255, 255, 255))
        self.fields: list[dict[str, object]] = []
        self.words: list[dict[str, object]] = []
        self._draw = ImageDraw.Draw(self.page)
        self._family = _FAMILIES[int(rng.integers(len(_FAMILIES)))]
        self._grey = int(rng.integers(90, 150))
        count = int(rng.integers(recipe.fewest, recipe.most + 1))
        kinds = rng.permutation(len(_LABELS))[:count]
        labels = [_LABELS[kind][int(rng.integers(len(_LABELS[kind])))] for kind in kinds]
        title = _TITLES[int(rng.integers(len(_TITLES)))]
        self._print((recipe.width - self._width(title, _TITLE)) // 2, 5, title, _TITLE)
        rooms = ("beside", "ruled", "table") if (count + 1) // 2 * 2 > _rows(recipe.height) else LAYOUTS
        layout = rooms[int(rng.integers(len(rooms)))]
        if layout == "above":
            self._columns(labels)
        else:
            self._list(labels, layout, _pitch(recipe.height, count, rng))
        note = _NOTES[int(rng.integers(len(_NOTES)))]
        self._print((recipe.width - self._width(note, _LABEL)) // 2, recipe.height - 18, note, _LABEL)

    def _list(self, labels: list[str], layout: str, pitch: int) -> None:
        """Labels in a column, their fields in a second one."""
        start = _MARGIN + max(self._width(label, _LABEL) for label in labels) + 8
        end = self.page.width - _MARGIN
        for number, label in enumerate(labels):
            top = 28 + number * pitch
            window = (start, top, end, top + _ROW)
            if layout == "ruled":
                self._draw.line((start, top + _ROW, end - 1, top + _ROW), fill=self._shade())
            else:
                self._frame(window)
            if layout == "table":
                self._frame((_MARGIN - 4, top, start - 1, top + _ROW))
            self._print(_MARGIN, top + 2, label, _LABEL)
            self._field(label, window)

    def _columns(self, labels: list[str]) -> None:
        """Labels above their fields, in two columns."""
        half = self.page.width // 2
        for number, label in enumerate(labels):
            left = _MARGIN if number % 2 == 0 else half + _MARGIN // 2
            right = half - _MARGIN // 2 if number % 2 == 0 else self.page.width - _MARGIN
            top = 28 + number // 2 * (2 * _ROW + 10)
            self._print(left, top, label, _LABEL)
            window = (left, top + _ROW, right, top + 2 * _ROW)
            self._frame(window)
            self._field(label, window)

    def _field(self, label: str, window: Window) -> None:
        self.fields.append({"label": label, "box": list(window)})

    def _frame(self, window: Window) -> None:
        """A frame just around a window."""
        left, top, right, bottom = window
        self._draw.rectangle((left - 1, top - 1, right, bottom), outline=self._shade())

    def _shade(self) -> tuple[int, int, int]:
        return self._grey, self._grey, self._grey

    def _width(self, text: str, size: int) -> int:
        return round(load_font(self._family, size).getlength(text))

    def _print(self, left: int, top: int, text: str, size: int) -> None:
        """A line of print, remembered word by word."""
        font = load_font(self._family, size)
        for word in text.split():
            self._draw.text((left, top), word, font=font, fill=_PRINT)
            box = self._draw.textbbox((left, top), word, font=font)
            self.words.append({"text": word, "box": [round(edge) for edge in box]})
            left += round(font.getlength(word + " "))


def _pitch(height: int, count: int, rng: np.random.Generator) -> int:
    """From the top of one row to that of the next."""
    widest = (height - 56) // count
    return int(rng.integers(_ROW + 7, max(_ROW + 8, min(widest, _ROW + 14) + 1)))
