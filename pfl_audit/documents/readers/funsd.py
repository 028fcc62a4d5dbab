"""FUNSD as questions: each link from a question to its answers; the key is the normalised text of the question.

A form has no issuer. ``providers.csv`` in the folder may name them, with the columns ``file`` (name without suffix) and
``provider``; each other form is its own provider.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from pfl_audit.documents.corpus import Corpus
from pfl_audit.documents.document import Document, Membership
from pfl_audit.documents.forms.form import Field, Form
from pfl_audit.documents.forms.readers.funsd import READER as FORMS
from pfl_audit.documents.forms.readers.funsd import annotation_files, read_form
from pfl_audit.documents.readers import Part
from pfl_audit.documents.readers.gathered import Asked, Gathered
from pfl_audit.documents.record_validation import MAX_NAME, MAX_QUESTION, RecordError, answers, text
from pfl_audit.errors import AuditError
from pfl_audit.inputs import MIB, is_there, read_text

TABLE = "providers.csv"
_SUFFIX = re.compile(r"\.(json|png|jpe?g|tiff?)$", re.IGNORECASE)
"""Of a file in the table; what else follows a point belongs to the name."""


class FunsdReader:
    """Reader of FUNSD's annotation folders."""

    name = "funsd"
    precedence = 102

    def recognises(self, path: Path) -> bool:
        """Whether there are ``annotations/`` and ``images/``."""
        return FORMS.recognises(path)

    def read(self, path: Path, part: Part) -> Corpus:
        """Read the forms: those of ``training_data`` are BLUE, others RED."""
        providers, found = _providers(path / TABLE), Gathered()
        for file in annotation_files(path):
            found.add(file.name, partial(_page, file, providers), is_page=True)
        return found.corpus(self.name, part)


READER = FunsdReader()


def _page(file: Path, providers: Mapping[str, str]) -> tuple[Document, list[Asked], Membership]:
    form = read_form(file)
    page, split = form.document, {"training_data": "blue_train", "testing_data": "red_test"}
    document = Document(
        page.id, providers.get(file.stem) or file.stem, page.words, page.boxes, page.image,
        split.get(file.parent.parent.name, ""),
    )  # fmt: skip
    return document, linked_questions(form), Membership.UNKNOWN


def linked_questions(form: Form) -> list[Asked]:
    """Questions of a form: one for each field with the label ``question`` that links to answers, in their order."""
    fields = {field.id: field for field in form.fields}
    linked: dict[str, list[Field]] = {}
    for one, other in form.links:
        if fields[other].label == "answer":
            linked.setdefault(one, []).append(fields[other])
    asked: list[Asked] = []
    for field in form.fields:
        values = linked.get(field.id, [])
        if field.label == "question" and values:
            value = " ".join(form.text(one) for one in sorted(values, key=lambda one: one.start))
            name = form.text(field)
            if len(key := normalised(name)) > MAX_NAME:
                raise RecordError(f"a question has more than {MAX_NAME:,} letters")
            asked.append((text(f"What is {name.rstrip(' :')}?", "question", MAX_QUESTION), answers([value]), key))
    return asked


def normalised(name: str) -> str:
    """A question as a key: lower case, words joined by underscores, no punctuation; ``other`` if nothing is left."""
    return "_".join(re.findall(r"\w+", name.lower())) or "other"


def _providers(file: Path) -> dict[str, str]:
    if not is_there(file):
        return {}
    remedy = "Save it as CSV with the columns file and provider"
    try:
        rows = csv.DictReader(io.StringIO(read_text(file, limit=16 * MIB, remedy=remedy), newline=""))
        return {_SUFFIX.sub("", row["file"]): text(row["provider"], "provider", MAX_NAME) for row in rows}
    except (KeyError, TypeError, csv.Error, RecordError) as error:
        raise AuditError(f"{file} is not a table of providers", remedy) from error
