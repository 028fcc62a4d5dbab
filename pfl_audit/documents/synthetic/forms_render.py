"""Rendering of a form: page image, words, boxes and fields."""

from __future__ import annotations

import numpy as np

from pfl_audit.documents.forms.form import Field
from pfl_audit.documents.synthetic.canvas import WIDTH, Canvas
from pfl_audit.documents.synthetic.forms_content import Sheet
from pfl_audit.documents.synthetic.providers import FONT_FAMILIES

_MARGIN = 44.0
_SIZE = 15
_STEP = 42.0


class FormPage:
    """A rendered form.

    Attributes:
        canvas: Image of the page, with its words.
        fields: Fields labelled ``header``, ``question`` and ``answer``.
        links: Links from each question to its answer.
    """

    def __init__(self, sheet: Sheet, rng: np.random.Generator) -> None:
        """Render ``sheet`` in a style drawn with ``rng``."""
        self.canvas = Canvas()
        self.fields: list[Field] = []
        self.links: list[tuple[str, str]] = []
        self._family = FONT_FAMILIES[int(rng.integers(len(FONT_FAMILIES)))]
        self._column = float(rng.integers(210, 270))
        self._framed = bool(rng.random() < 0.5)
        top = self._title(sheet) + float(rng.integers(10, 50))
        if sheet.receipt:
            top = self._goods(sheet, top)
        top = self._entries(sheet, top)
        self.canvas.text((WIDTH / 2, top + 20), sheet.note, family=self._family, size=_SIZE - 2, align="centre")

    def _title(self, sheet: Sheet) -> float:
        return self._field("title", "header", (WIDTH / 2, 40.0), sheet.title, size=_SIZE + 5, bold=True, align="centre")

    def _goods(self, sheet: Sheet, top: float) -> float:
        for item, price in sheet.goods:
            self.canvas.text((_MARGIN, top), item, family=self._family, size=_SIZE)
            top = self.canvas.text((WIDTH - _MARGIN, top), price, family=self._family, size=_SIZE, align="right") + 4
        self.canvas.draw.line((_MARGIN, top, WIDTH - _MARGIN, top), fill=(120, 120, 120))
        return top + 16

    def _entries(self, sheet: Sheet, top: float) -> float:
        for entry in sheet.entries:
            question = f"question-{entry.id}"
            self._field(question, "question", (_MARGIN, top), entry.question, bold=True)
            self._field(entry.id, "answer", (self._column, top), entry.answer)
            if self._framed:
                box = (self._column - 8, top - 5, WIDTH - _MARGIN, top + _STEP - 11)
                self.canvas.draw.rectangle(box, outline=(150, 150, 150))
            self.links.append((question, entry.id))
            top += _STEP
        return top

    def _field(
        self,
        name: str,
        label: str,
        position: tuple[float, float],
        text: str,
        *,
        size: int = _SIZE,
        bold: bool = False,
        align: str = "left",
    ) -> float:
        start = len(self.canvas.words)
        top = self.canvas.text(position, text, family=self._family, size=size, bold=bold, align=align)
        self.fields.append(Field(name, label, start, len(self.canvas.words)))
        return top
