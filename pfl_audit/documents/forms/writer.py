"""Writer of forms in the safe format."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pfl_audit.documents.forms.form import Form, FormCorpus, FormPart
from pfl_audit.documents.forms.readers.jsonl import FILE_NAME
from pfl_audit.documents.writers import copy_image, words_of
from pfl_audit.files import atomic_write


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
