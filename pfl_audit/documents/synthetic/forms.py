"""Synthetic forms in three parts, with planted random values as canaries in each."""

from __future__ import annotations

import io
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from pfl_audit.documents.document import Document
from pfl_audit.documents.forms.form import PARTS, Field, Form, FormCorpus, FormPart
from pfl_audit.documents.forms.readers import open_forms
from pfl_audit.documents.forms.readers.jsonl import write_forms
from pfl_audit.documents.images import PageImage
from pfl_audit.documents.synthetic.canvas import WIDTH, Canvas
from pfl_audit.documents.synthetic.forms_content import PLANTED, Sheet, draw_sheet
from pfl_audit.documents.synthetic.providers import FONT_FAMILIES
from pfl_audit.errors import UsageError
from pfl_audit.files import atomic_write, write_json
from pfl_audit.filled_folder import whole_or_nothing
from pfl_audit.progress import Progress

SIZE = (396, 560)
"""Width and height of a page image in pixels."""
JPEG_QUALITY = 20
MOST_FORMS = 100_000
"""Of all parts together; they stay in memory."""
_MARGIN = 44.0
_SIZE = 15
_STEP = 42.0


@dataclass(frozen=True)
class FormRecipe:
    """Settings of synthetic forms.

    Attributes:
        private: Number of training forms of the model under audit.
        public: Number of forms of the adversary.
        validation: Number of forms for the selection of checkpoints.
        planted: Random values per form, 2 to 4.
        seed: Seed of all random draws.
    """

    private: int = 40
    public: int = 40
    validation: int = 20
    planted: int = 3
    seed: int = 0

    def check(self) -> None:
        """Raise UsageError if a setting is out of range."""
        if min(self.private, self.public, self.validation) < 1:
            raise UsageError("every part needs a form", "Set --private, --public and --validation to 1 or more")
        if sum((self.private, self.public, self.validation)) > MOST_FORMS:
            raise UsageError(f"there are at most {MOST_FORMS:,} forms", "Lower --private, --public or --validation")
        if not 2 <= self.planted <= len(PLANTED):
            raise UsageError(f"a form has 2 to {len(PLANTED)} planted values", "Correct --planted")


def make_forms(recipe: FormRecipe, folder: Path, progress: Progress) -> FormCorpus:
    """Draw forms and write them as ``forms.jsonl`` with ``images/``.

    The same recipe gives the same bytes. Every part has its own random generator, so that the number of forms of one
    part does not change the others. Fields are labelled header, question and answer; those with a random value are
    recognised by ``forms_content.is_planted``.

    Args:
        folder: Output folder; must be empty or missing.
        progress: Reports the pages that are done.

    Returns:
        The forms as read from the folder.

    Raises:
        UsageError: A setting is out of range, or the folder is not empty.
    """
    recipe.check()
    counts: dict[FormPart, int] = {part: getattr(recipe, part) for part in PARTS}
    seeds = np.random.SeedSequence(recipe.seed).spawn(len(PARTS))
    forms: list[Form] = []
    parts: dict[str, FormPart] = {}
    with whole_or_nothing(folder):
        with progress.task("forms", sum(counts.values())) as task:
            for part, seed in zip(PARTS, seeds, strict=True):
                for page_seed in seed.spawn(counts[part]):
                    form = _draw_form(recipe, folder, np.random.default_rng(page_seed))
                    forms.append(form)
                    parts[form.id] = part
                    task.advance()
        write_forms(FormCorpus(tuple(forms), parts=parts), folder)
        write_json(folder / "recipe.json", asdict(recipe), private=False)
    return open_forms(folder)


def _draw_form(recipe: FormRecipe, folder: Path, rng: np.random.Generator) -> Form:
    sheet = draw_sheet(recipe.planted, rng)
    page = FormPage(sheet, rng)
    name = f"{int.from_bytes(rng.bytes(8), 'big'):016x}_1"
    path = folder / "images" / f"{name}.jpg"
    picture = io.BytesIO()
    small = page.canvas.page.convert("L").resize(SIZE, Image.Resampling.BILINEAR)
    small.save(picture, "JPEG", quality=JPEG_QUALITY, optimize=True)
    with atomic_write(path, private=False) as file:
        file.write(picture.getvalue())
    document = Document(name, "", tuple(page.canvas.words), page.canvas.boxes(), PageImage(path))
    return Form(document, tuple(page.fields), tuple(page.links))


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
