"""The safe format: ``forms.jsonl`` with one form per line, and page images.

A line has ``id``, ``words``, ``boxes`` and ``fields`` (each with ``id``, ``label``, ``start`` and
``stop``), and optionally ``links`` (pairs of field ids), ``image`` (relative path), ``provider``,
``split`` and ``part`` (validation, public, private).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from pfl_audit.documents.corpus import Problem
from pfl_audit.documents.forms.form import PARTS, Field, Form, FormCorpus, FormPart
from pfl_audit.documents.forms.readers.records import as_form, gather, on_page
from pfl_audit.documents.readers.json_lines import parse_json_line, read_json_lines
from pfl_audit.documents.readers.jsonl import list_of, name_of, page_of, text_of
from pfl_audit.documents.record_validation import MAX_NAME, MAX_WORDS, RecordError, field_of
from pfl_audit.documents.writers import copy_image, words_of
from pfl_audit.files import atomic_write
from pfl_audit.inputs import is_there

FILE_NAME = "forms.jsonl"


class JsonlReader:
    """Reader of ``forms.jsonl``."""

    name = "forms.jsonl"
    precedence = 10

    def recognises(self, path: Path) -> bool:
        """Whether ``path`` is the file or a folder that contains it."""
        return path.name == FILE_NAME or is_there(path / FILE_NAME)

    def read(self, path: Path) -> FormCorpus:
        """Read the forms, and their parts if every form has one."""
        file = path / FILE_NAME if path.is_dir() else path
        parts: dict[str, FormPart] = {}
        records: Iterator[tuple[str, Callable[[], Form]]] = (
            (where, partial(_form, line, file.parent, parts))
            for where, line in read_json_lines(file, "Save it as UTF-8, one JSON object a line")
        )
        problems: list[Problem] = []
        forms = gather(records, problems)
        if parts and len(parts) < len(forms):
            problems.append(
                Problem(FILE_NAME, f"only {len(parts)} of {len(forms)} forms name their part: none is taken")
            )
            parts = {}
        return FormCorpus(forms, self.name, parts or None, tuple(problems))


READER = JsonlReader()


def _form(line: str | None, folder: Path, parts: dict[str, FormPart]) -> Form:
    row = parse_json_line(line)
    on_page(list_of(row, "boxes"))
    document = page_of(row, folder, name_of(row, "provider", ""))
    if len(entries := list_of(row, "fields")) > MAX_WORDS:
        raise RecordError(f"it has more than {MAX_WORDS:,} fields")
    fields = [_field(entry) for entry in entries]
    links = [_link(entry) for entry in list_of({"links": [], **row}, "links")]
    form = as_form(document, fields, links)
    if (part := row.get("part")) is not None:
        if not isinstance(part, str) or part not in PARTS:
            raise RecordError(f"part is none of {', '.join(PARTS)}")
        parts.setdefault(form.id, part)
    return form


def _field(entry: Any) -> Field:
    if not isinstance(entry, Mapping):
        raise RecordError("a field is not a JSON object")
    if any(type(field_of(entry, name)) is not int for name in ("start", "stop")):
        raise RecordError("start and stop of a field are not whole numbers")
    if not (name := name_of(entry, "id", "")):
        raise RecordError("a field has no id")
    return Field(name, text_of(entry, "label"), entry["start"], entry["stop"])


def _link(entry: Any) -> tuple[str, str]:
    if not isinstance(entry, list) or len(entry) != 2 or not all(isinstance(end, str | int) for end in entry):
        raise RecordError("a link is not a pair of field ids")
    one, other = str(entry[0]), str(entry[1])
    if max(len(one), len(other)) > MAX_NAME:
        raise RecordError("a link is not a pair of field ids")
    return one, other


def write_forms(corpus: FormCorpus, folder: Path) -> None:
    """Write ``forms.jsonl`` and copy the page images beside it.

    Raises:
        AuditError: An image cannot be read, or the folder cannot be written.
    """
    parts = corpus.parts or {}
    with atomic_write(folder / FILE_NAME, private=False) as file:
        for form in corpus.forms:
            row = _row(form, parts.get(form.id), folder)
            file.write(json.dumps(row, ensure_ascii=False).encode() + b"\n")


def _row(form: Form, part: FormPart | None, folder: Path) -> dict[str, Any]:
    document = form.document
    optional = {"provider": document.provider, "split": document.split, "part": part}
    row: dict[str, Any] = {"id": form.id, **{name: value for name, value in optional.items() if value}}
    if document.image is not None:
        row["image"] = copy_image(document.image, folder)
    return row | {
        **words_of(document),
        "fields": [
            {"id": field.id, "label": field.label, "start": field.start, "stop": field.stop} for field in form.fields
        ],
        "links": [list(link) for link in form.links],
    }
