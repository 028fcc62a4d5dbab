"""SROIE: scanned receipts with company, date, address and total (Huang et al., ICDAR 2019).

``box/NAME.txt`` has one text line per line, ``x1,y1,...,x4,y4,text`` in pixels; ``entities/NAME.txt`` a JSON object of
the four values; ``img/NAME.jpg`` the page. In some copies the second folder is ``key``, the files are ``.csv`` and
``.json``, and all three folders are below ``train``, ``test`` or ``data``.
"""

from __future__ import annotations

import re
from bisect import bisect
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from pfl_audit.documents.corpus import Problem
from pfl_audit.documents.document import Document
from pfl_audit.documents.forms.form import Field, Form, FormCorpus
from pfl_audit.documents.forms.readers.records import as_form, find_image, gather, on_page, read_annotations, read_lines
from pfl_audit.documents.record_validation import MAX_ANSWER, MAX_WORDS, RecordError, text
from pfl_audit.documents.record_validation import words as texts_of
from pfl_audit.inputs import is_there

LABELS = ("company", "date", "address", "total")
_ROOTS = ("", "data", "train", "test", "data/train", "data/test")
_NAMES = {"box": ("box",), "key": ("entities", "key"), "image": ("img", "images")}
_TEXT = (".txt", ".csv", ".json")
_Folders = dict[str, Path]
_Box = tuple[float, float, float, float]
_Span = tuple[int, int]


class SroieReader:
    """Reader of SROIE's box and entity files."""

    name = "sroie"
    precedence = 30

    def recognises(self, path: Path) -> bool:
        """Whether there are folders of boxes, entities and images, also below the folders of the data set."""
        return bool(_folders(path))

    def read(self, path: Path) -> FormCorpus:
        """Read the forms; every entity among the words becomes a field, the others become problems."""
        problems: list[Problem] = []
        records = [(file.name, partial(_form, file, folders, problems)) for file, folders in annotation_files(path)]
        return FormCorpus(gather(records, problems, pages=True), self.name, None, tuple(problems))


READER = SroieReader()


def annotation_files(path: Path) -> list[tuple[Path, dict[str, Path]]]:
    """Box file of each receipt, and its folders by role (box, key, image)."""
    return [
        (file, folders)
        for folders in _folders(path)
        for file in sorted(folders["box"].iterdir())
        if file.suffix in _TEXT
    ]


def _folders(path: Path) -> list[_Folders]:
    found = []
    for root in _ROOTS:
        folders = {
            role: next((path / root / name for name in names if (path / root / name).is_dir()), None)
            for role, names in _NAMES.items()
        }
        complete = {role: folder for role, folder in folders.items() if folder is not None}
        if len(complete) == len(_NAMES):
            found.append(complete)
    return found


def _form(file: Path, folders: _Folders, problems: list[Problem]) -> Form:
    image, size = find_image(folders["image"], file.stem)
    words, boxes = read_words(file)
    document = Document(f"{file.stem}_1", "", texts_of(words), on_page(boxes, size), image)
    fields: list[Field] = []
    missed: list[Problem] = []
    for label, value in read_values(folders["key"], file.stem).items():
        where = find_value(words, value, after="total" if label == "total" else None)
        if where is None:
            missed.append(Problem(file.name, f"the value of {label} is not among the words", is_page=True))
        elif any(where[0] < field.stop and field.start < where[1] for field in fields):
            missed.append(Problem(file.name, f"{label} shares a word with another entity", is_page=True))
        else:
            fields.append(Field(label, label, *where))
    form = as_form(document, fields)
    problems += missed
    return form


def read_values(folder: Path, stem: str) -> dict[str, str]:
    """Entities of a receipt that have a value.

    Raises:
        RecordError: The entity file is missing or damaged.
    """
    file = next((folder / f"{stem}{suffix}" for suffix in _TEXT if is_there(folder / f"{stem}{suffix}")), None)
    if file is None:
        raise RecordError("its entity file is missing")
    values = read_annotations(file, "its entity file")
    if not isinstance(values, Mapping):
        raise RecordError("its entity file is not a JSON object")
    return {
        label: text(values[label], f"the value of {label} in its entity file", MAX_ANSWER)
        for label in LABELS
        if values.get(label)
    }


def read_words(file: Path) -> tuple[list[str], list[_Box]]:
    """Words of the lines, and boxes that divide the width of a line by the number of characters.

    Raises:
        RecordError: The file cannot be read, or a line is not x1,y1,...,x4,y4,text.
    """
    lines = read_lines(file)  # some files of the data set hold a stray byte
    words: list[str] = []
    boxes: list[_Box] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        *corners, written = line.split(",", 8)
        try:
            left, top, right, bottom = _bounding_box([float(corner) for corner in corners])
        except ValueError as error:
            raise RecordError(f"line {number} of its boxes is not x1,y1,...,x4,y4,text") from error
        letter = (right - left) / max(len(written), 1)
        for word in re.finditer(r"\S+", written):
            words.append(word.group())
            boxes.append((left + word.start() * letter, top, left + word.end() * letter, bottom))
            if len(words) > MAX_WORDS:
                raise RecordError(f"it holds more than {MAX_WORDS:,} words")
    return words, boxes


def _bounding_box(corners: list[float]) -> _Box:
    if len(corners) != 8:
        raise ValueError("not four corners")
    return min(corners[::2]), min(corners[1::2]), max(corners[::2]), max(corners[1::2])


def find_value(words: Sequence[str], value: str, *, after: str | None = None) -> _Span | None:
    """Span of the words of a value, compared by letters and digits without case.

    Args:
        words: Words of the page, in reading order.
        after: Prefix of a word. Of several spans the one that follows such a word most closely is returned, and an
            amount is also found without its currency. Without it the first span is returned.

    Returns:
        [start, stop) of the words, or None if the value is not found.
    """
    spans = occurrences(words, value)
    if after is None:
        return spans[0] if spans else None
    spans = spans or occurrences(words, re.sub(r"[^\d.,]", "", value))
    heads = [-len(words), *(number for number, word in enumerate(words) if _letters_and_digits(word).startswith(after))]
    return min(spans, key=lambda span: min(span[0] - heads[bisect(heads, span[0]) - 1], len(words)), default=None)


def occurrences(words: Sequence[str], value: str) -> list[_Span]:
    """All runs of words equal to ``value``; if there are none, all runs that contain it.

    A run contains a value only if letters meet digits at its ends (``RM9.00``), so that ``9.00`` is not found in
    ``19.00``.
    """
    target = _letters_and_digits(value)
    text = ""
    owners: list[int] = []
    for number, word in enumerate(words):
        letters = _letters_and_digits(word)
        text += letters
        owners += [number] * len(letters)
    exact: list[_Span] = []
    inside: list[_Span] = []
    at = text.find(target) if target else -1
    while at >= 0:
        end = at + len(target)
        span = (owners[at], owners[end - 1] + 1)
        breaks = [edge in (0, len(text)) or owners[edge - 1] != owners[edge] for edge in (at, end)]
        if all(breaks):
            exact.append(span)
        elif all(
            cut or text[edge - 1].isdigit() != text[edge].isdigit() for cut, edge in zip(breaks, (at, end), strict=True)
        ):
            inside.append(span)
        at = text.find(target, at + 1)
    return exact or inside


def _letters_and_digits(text: str) -> str:
    return "".join(letter for letter in text.casefold() if letter.isalnum())
