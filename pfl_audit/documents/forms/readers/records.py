"""Helpers of the readers of forms: construction and validation of a form."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import numpy as np

from pfl_audit.documents.corpus import Problem
from pfl_audit.documents.document import Boxes, Document, as_boxes
from pfl_audit.documents.forms.form import Field, Form
from pfl_audit.documents.images import PageImage
from pfl_audit.documents.record_validation import MAX_WORDS, RECORD_ERRORS, RecordError, reason_of
from pfl_audit.errors import AuditError, UnanswerableError
from pfl_audit.inputs import MIB, is_regular, read_json, read_text

MARGIN = 0.05
"""Largest distance of a box beyond the edge of the page, as a share of the page; scans are cropped that loosely."""
MAX_FILE = 16 * MIB
"""Largest annotation file of a page, in bytes."""
_LARGEST = 1e30
_SUFFIXES = (".png", ".jpg", ".jpeg", ".tif", ".tiff")


def gather(
    records: Iterable[tuple[str, Callable[[], Form]]], problems: list[Problem], *, pages: bool = False
) -> tuple[Form, ...]:
    """Build every form; failures and repeated ids are appended to ``problems``.

    Args:
        records: Name of each record, and a function that builds its form.
        problems: List that problems are appended to.
        pages: Whether records are named by pages or by their files.
    """
    forms: dict[str, Form] = {}
    for name, build in records:
        try:
            form = build()
            if forms.setdefault(form.id, form) is not form:
                raise RecordError("an earlier form has its id")
        except RECORD_ERRORS as error:
            problems.append(Problem(name, reason_of(error), is_page=pages))
    return tuple(forms.values())


def read_annotations(file: Path, name: str = "its file") -> Any:
    """Parse the JSON file of a page.

    Raises:
        RecordError: The file cannot be read; the message calls it ``name``.
    """
    try:
        return read_json(file, limit=MAX_FILE)
    except AuditError as error:
        raise RecordError(error.problem.replace(str(file), name)) from error


def read_lines(file: Path) -> list[str]:
    """Lines of the text file of a page; bytes that are not UTF-8 are replaced.

    Raises:
        RecordError: The file cannot be read.
    """
    try:
        return re.split(r"\r\n|\n|\r", read_text(file, limit=MAX_FILE, errors="replace"))  # a text may hold a form feed
    except AuditError as error:
        raise RecordError(error.problem.replace(str(file), "its file")) from error


def as_form(document: Document, fields: Sequence[Field], links: Iterable[tuple[str, str]] = ()) -> Form:
    """Build a form, and check its fields and links.

    Args:
        document: Page of the form.
        fields: Fields in any order.
        links: Pairs of field ids; duplicates are dropped.

    Raises:
        RecordError: There are no words; a field is out of range, has no text, or shares a word or its id with
            another; a link refers to an unknown field.
    """
    if not any(word.strip() for word in document.words):
        raise RecordError("it holds no words")
    ids = {field.id for field in fields}
    if len(ids) < len(fields):
        raise RecordError("two fields have the same id")
    form = Form(document, tuple(sorted(fields, key=lambda field: field.start)), tuple(dict.fromkeys(links)))
    for number, field in enumerate(fields, start=1):
        if not 0 <= field.start < field.stop <= len(document.words):
            raise RecordError(f"field {number} does not lie among the words")
    for before, after in pairwise(form.fields):
        if after.start < before.stop:
            raise RecordError(f"two fields share word {after.start + 1}")
    for number, field in enumerate(fields, start=1):
        if not form.text(field).strip():
            raise RecordError(f"field {number} holds no text")
    if any(one == other or not {one, other} <= ids for one, other in form.links):
        raise RecordError("a link names a field that is not there")
    return form


def on_page(values: Sequence[Any], size: tuple[float, float] = (1.0, 1.0)) -> Boxes:
    """Boxes as shares of the page.

    Args:
        values: Left, top, right, bottom of each word, in the unit of ``size``.
        size: Width and height of the page.

    Returns:
        float32 of shape (words, 4).

    Raises:
        RecordError: There are too many boxes, or one is not four finite numbers or exceeds the page by more than
            MARGIN.
    """
    if len(values) > MAX_WORDS:
        raise RecordError(f"it holds more than {MAX_WORDS:,} words")
    if not _are_boxes(values):
        for number, box in enumerate(values, start=1):
            if not isinstance(box, list | tuple) or len(box) != 4 or not all(map(_is_number, box)):
                raise RecordError(f"the box of word {number} is not four numbers")
    shares = np.array(values, dtype=np.float64).reshape(-1, 4) / np.array([*size, *size])
    outside = ((shares < -MARGIN) | (shares > 1 + MARGIN)).any(axis=1)
    if outside.any():
        raise RecordError(f"the box of word {int(outside.argmax()) + 1} lies outside of the page")
    return as_boxes(np.clip(shares, 0, 1), len(values))


def find_image(folder: Path, stem: str) -> tuple[PageImage, tuple[int, int]]:
    """Find a page image by its stem, and its width and height in pixels.

    Raises:
        RecordError: The image is missing, or cannot be read.
    """
    for suffix in _SUFFIXES:
        path = folder / f"{stem}{suffix}"
        if is_regular(path):
            image = PageImage(path)
            return image, _size(image)
    raise RecordError("its page image is missing")


def _size(image: PageImage) -> tuple[int, int]:
    try:
        size = image.size()
    except UnanswerableError as error:
        raise RecordError("its page image cannot be read") from error
    if min(size) < 1:
        raise RecordError("its page image has no size")
    return size


def _are_boxes(values: Sequence[Any]) -> bool:
    """Whether all are lists of four numbers, seen at once; False where one has to be looked at by itself."""
    if not set(map(type, values)) <= {list, tuple} or not set(map(len, values)) <= {4}:
        return False
    numbers = list(chain.from_iterable(values))
    if not set(map(type, numbers)) <= {int, float}:
        return False
    try:
        return bool((np.abs(np.array(numbers, dtype=np.float64)) < _LARGEST).all())
    except OverflowError:
        return False


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < _LARGEST
