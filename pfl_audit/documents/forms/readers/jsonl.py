"""Our own format: ``forms.jsonl`` with one form a line, and the page images beside it.

A line holds ``id``, ``words``, ``boxes`` and ``fields`` (each with ``id``, ``label``, ``start`` and
``stop``), and perhaps ``links`` (pairs of field ids), ``image`` (relative path), ``provider``,
``split`` and ``part`` (validation, public, private).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from pfl_audit.documents.corpus import Problem
from pfl_audit.documents.forms.form import PARTS, Field, Form, FormCorpus, FormPart
from pfl_audit.documents.forms.readers.records import as_form, gather, on_page
from pfl_audit.documents.readers.jsonl import lines_of, list_of, name_of, page_of, parse, text_of

FILE_NAME = "forms.jsonl"


class JsonlReader:
    """Reads ``forms.jsonl``."""

    name = "forms.jsonl"

    def recognises(self, path: Path) -> bool:
        """The file, or a folder that holds it."""
        return path.name == FILE_NAME or (path / FILE_NAME).is_file()

    def read(self, path: Path) -> FormCorpus:
        """Read the forms, and their parts where every form names its own."""
        file = path if path.is_file() else path / FILE_NAME
        parts: dict[str, FormPart] = {}
        records: list[tuple[str, Callable[[], Form]]] = [
            (where, partial(_form, line, file.parent, parts)) for where, line in lines_of(file, "Check the path")
        ]
        problems: list[Problem] = []
        forms = gather(records, problems)
        if parts and len(parts) < len(forms):
            problems.append(
                Problem(FILE_NAME, f"only {len(parts)} of {len(forms)} forms name their part: none is taken")
            )
            parts = {}
        return FormCorpus(forms, self.name, parts or None, tuple(problems))


def _form(line: str, folder: Path, parts: dict[str, FormPart]) -> Form:
    row = parse(line)
    if not isinstance(row, Mapping):
        raise TypeError("it is not a JSON object")
    on_page(list_of(row, "boxes"))
    document = page_of(row, folder, name_of(row, "provider", ""))
    fields = [_field(entry) for entry in list_of(row, "fields")]
    links = [_link(entry) for entry in list_of({"links": [], **row}, "links")]
    form = as_form(document, fields, links)
    if (part := row.get("part")) is not None:
        if part not in PARTS:
            raise ValueError(f"part is none of {', '.join(PARTS)}")
        parts.setdefault(form.id, part)
    return form


def _field(entry: Any) -> Field:
    if not isinstance(entry, Mapping):
        raise TypeError("a field is not a JSON object")
    if any(isinstance(entry[name], bool) or not isinstance(entry[name], int) for name in ("start", "stop")):
        raise TypeError("start and stop of a field are not whole numbers")
    if not (name := name_of(entry, "id", "")):
        raise ValueError("a field has no id")
    return Field(name, text_of(entry, "label"), entry["start"], entry["stop"])


def _link(entry: Any) -> tuple[str, str]:
    if not isinstance(entry, list) or len(entry) != 2 or not all(isinstance(end, str | int) for end in entry):
        raise TypeError("a link is not a pair of field ids")
    return str(entry[0]), str(entry[1])
