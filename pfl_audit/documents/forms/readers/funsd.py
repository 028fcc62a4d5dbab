"""FUNSD: scanned forms of the tobacco industry (Jaume et al., ICDAR-OST 2019).

``annotations/NAME.json`` contains the entities of a page, each with ``id``, ``label`` (question, answer,
header, other), ``words`` (``text`` and a pixel ``box``) and ``linking`` (pairs of entity ids), and
``images/NAME.png`` the page. The data set has two such folders, ``training_data`` and
``testing_data``; both are read, and one alone may be given.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from pfl_audit.documents.corpus import Problem
from pfl_audit.documents.document import Document
from pfl_audit.documents.forms.form import Field, Form, FormCorpus
from pfl_audit.documents.forms.readers.records import as_form, find_image, gather, on_page, read_annotations
from pfl_audit.documents.readers.jsonl import list_of, text_of
from pfl_audit.documents.record_validation import MAX_NAME, RecordError, field_of
from pfl_audit.documents.record_validation import words as texts_of

_ROOTS = ("", "dataset", "training_data", "testing_data", "dataset/training_data", "dataset/testing_data")
_RANKS = {"header": 0, "question": 1, "answer": 2}
"""Links go from the lower to the higher rank; FUNSD has some in the opposite direction."""


class FunsdReader:
    """Reader of FUNSD's annotation folders."""

    name = "funsd"
    precedence = 20

    def recognises(self, path: Path) -> bool:
        """Whether there are ``annotations/`` and ``images/``, also below the folders of the data set."""
        return bool(_folders(path))

    def read(self, path: Path) -> FormCorpus:
        """Read the forms; every entity with words becomes a field with FUNSD's label."""
        problems: list[Problem] = []
        forms = gather(((file.name, partial(read_form, file)) for file in annotation_files(path)), problems, pages=True)
        return FormCorpus(forms, self.name, None, tuple(problems))


READER = FunsdReader()


def annotation_files(path: Path) -> list[Path]:
    """Annotation file of each form."""
    return [file for folder in _folders(path) for file in sorted((folder / "annotations").glob("*.json"))]


def _folders(path: Path) -> list[Path]:
    folders = [path / root for root in _ROOTS]
    return [folder for folder in folders if all((folder / name).is_dir() for name in ("annotations", "images"))]


def read_form(file: Path) -> Form:
    """Read the form of an annotation file.

    Raises:
        RecordError: The file or its image is missing or damaged.
    """
    image, size = find_image(file.parent.parent / "images", file.stem)
    words: list[Any] = []
    boxes: list[Any] = []
    fields: list[Field] = []
    links: list[tuple[str, str]] = []
    for entity in list_of(_object(read_annotations(file)), "form"):
        start = len(words)
        for word in list_of(_object(entity), "words"):
            text = field_of(_object(word), "text")
            if not isinstance(text, str):
                raise RecordError("the text of a word is not a text")
            if text.strip():
                words.append(text)
                boxes.append(field_of(word, "box"))
        if len(words) > start:
            fields.append(Field(_id(field_of(entity, "id")), text_of(entity, "label"), start, len(words)))
        if entity.get("linking"):
            links += [_link(pair) for pair in list_of(entity, "linking")]
    document = Document(f"{file.stem}_1", "", texts_of(words), on_page(boxes, size), image)
    return as_form(document, fields, _directed(links, fields))


def _directed(links: list[tuple[str, str]], fields: list[Field]) -> list[tuple[str, str]]:
    """Links between fields with words, from the lower to the higher rank."""
    ranks = {field.id: _RANKS.get(field.label, len(_RANKS)) for field in fields}
    known = [pair for pair in links if pair[0] != pair[1] and ranks.keys() >= set(pair)]
    return [(other, one) if ranks[other] < ranks[one] else (one, other) for one, other in known]


def _link(pair: Any) -> tuple[str, str]:
    if not isinstance(pair, list) or len(pair) != 2:
        raise RecordError("linking does not hold pairs of entity ids")
    return _id(pair[0]), _id(pair[1])


def _id(value: Any) -> str:
    if not isinstance(value, str | int) or len(name := str(value)) > MAX_NAME:
        raise RecordError("the id of an entity is not a number")
    return name


def _object(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise RecordError("it is not made of JSON objects")
    return value
