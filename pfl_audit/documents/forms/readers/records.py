"""What all readers of forms do: put a form together, and tell what is wrong with a record.

No reason that is given here holds a word of a page.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from pfl_audit.documents.corpus import Problem
from pfl_audit.documents.document import Boxes, Document, as_boxes
from pfl_audit.documents.forms.form import Field, Form
from pfl_audit.documents.images import FORMATS, PageImage
from pfl_audit.errors import AuditError

MARGIN = 0.05
"""How far beyond the page's edge a box may reach, as a share of the page; scanned pages are cut that loosely."""
_SUFFIXES = (".png", ".jpg", ".jpeg", ".tif", ".tiff")


def gather(records: Iterable[tuple[str, Callable[[], Form]]], problems: list[Problem]) -> tuple[Form, ...]:
    """Build every form; what fails, or repeats an id, is added to ``problems``.

    Args:
        records: What a record is called, and what builds its form.
        problems: Added to.
    """
    forms: dict[str, Form] = {}
    for name, build in records:
        try:
            form = build()
            if forms.setdefault(form.id, form) is not form:
                raise ValueError("a form with its id stands further up")
        except KeyError as error:
            problems.append(Problem(name, f"the field {error} is missing"))
        except AuditError as error:
            problems.append(Problem(name, error.problem))
        except (TypeError, ValueError, AttributeError, IndexError, OverflowError, RecursionError) as error:
            problems.append(Problem(name, str(error)))
    return tuple(forms.values())


def as_form(document: Document, fields: Sequence[Field], links: Iterable[tuple[str, str]] = ()) -> Form:
    """A form whose fields and links hold together.

    Args:
        document: The page.
        fields: In any order.
        links: Repeated ones count once.

    Raises:
        ValueError: No words; a field lies beyond them, holds no text, or shares a word or its id with
            another; a link names a field that is not there.
    """
    if not any(word.strip() for word in document.words):
        raise ValueError("it holds no words")
    ids = {field.id for field in fields}
    if len(ids) < len(fields):
        raise ValueError("two fields have the same id")
    form = Form(document, tuple(sorted(fields, key=lambda field: field.start)), tuple(dict.fromkeys(links)))
    for field in form.fields:
        if not 0 <= field.start < field.stop <= len(document.words):
            raise ValueError(f"field {field.id} does not lie among the words")
        if not form.text(field).strip():
            raise ValueError(f"field {field.id} holds no text")
    for before, after in pairwise(form.fields):
        if after.start < before.stop:
            raise ValueError(f"fields {before.id} and {after.id} share a word")
    if any(one == other or not {one, other} <= ids for one, other in form.links):
        raise ValueError("a link names a field that is not there")
    return form


def on_page(values: Sequence[Any], size: tuple[float, float] = (1.0, 1.0)) -> Boxes:
    """Boxes as shares of the page.

    Args:
        values: Left, top, right, bottom of each word, in the units of ``size``.
        size: Width and height of the page.

    Returns:
        float32 of shape (words, 4).

    Raises:
        ValueError: A box is not four finite numbers, or reaches beyond the page by more than MARGIN.
    """
    for number, box in enumerate(values, start=1):
        if not isinstance(box, list | tuple) or len(box) != 4 or not all(map(_is_number, box)):
            raise ValueError(f"the box of word {number} is not four numbers")
    shares = np.array(values, dtype=np.float64).reshape(-1, 4) / np.array([*size, *size])
    outside = ((shares < -MARGIN) | (shares > 1 + MARGIN)).any(axis=1)
    if outside.any():
        raise ValueError(f"the box of word {int(outside.argmax()) + 1} lies outside of the page")
    return as_boxes(np.clip(shares, 0, 1), len(values))


def find_image(folder: Path, stem: str) -> tuple[PageImage, tuple[int, int]]:
    """The page image of that name, and its width and height in pixels.

    Raises:
        ValueError: There is none, or it is no image.
    """
    for suffix in _SUFFIXES:
        path = folder / f"{stem}{suffix}"
        if path.is_file():
            return PageImage(path), _size(path)
    raise ValueError("its page image is missing")


def _size(path: Path) -> tuple[int, int]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            with Image.open(path, formats=FORMATS) as image:
                size = image.size
    except Exception as error:  # Pillow's decoders raise many kinds
        raise ValueError("its page image cannot be read") from error
    if min(size) < 1:
        raise ValueError("its page image has no size")
    return size


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
