"""Forms: pages with labelled fields."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from pfl_audit.documents.corpus import Problem
from pfl_audit.documents.document import Document
from pfl_audit.files import sha256_json

FormPart = Literal["validation", "public", "private"]
"""Use of a form: validation, training of the public model, or training of the model under audit."""
PARTS: tuple[FormPart, ...] = ("validation", "public", "private")


@dataclass(frozen=True)
class Field:
    """A labelled run of words.

    Attributes:
        id: Unique in its form.
        label: Kind of field, such as ``answer``, ``date`` or ``gross_amount``.
        start: Index of the first word.
        stop: Index after the last word; above ``start``.
    """

    id: str
    label: str
    start: int
    stop: int


@dataclass(frozen=True, eq=False)
class Form:
    """A page with its fields.

    Attributes:
        document: Page of the form.
        fields: Fields in the order of their words, without overlap.
        links: (field id, field id): from the field with the name to the field with its value.
    """

    document: Document
    fields: tuple[Field, ...] = ()
    links: tuple[tuple[str, str], ...] = ()

    @property
    def id(self) -> str:
        """Id of the page; unique in a corpus."""
        return self.document.id

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the page, its fields and links."""
        fields = [[field.id, field.label, field.start, field.stop] for field in self.fields]
        return sha256_json([self.document.digest, fields, [list(link) for link in self.links]])

    def text(self, field: Field) -> str:
        """Words of a field, joined by spaces."""
        return " ".join(self.document.words[field.start : field.stop])


@dataclass(frozen=True, eq=False)
class FormCorpus:
    """Forms of one source.

    Attributes:
        forms: Forms in the order of the source, with unique ids.
        parts: Form id to part, if the source gives a part for every form; else None.
        problems: Records of the source that were left out.
    """

    forms: tuple[Form, ...]
    format: str = ""
    parts: dict[str, FormPart] | None = None
    problems: tuple[Problem, ...] = ()

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """Every field label once, sorted."""
        return tuple(sorted({field.label for form in self.forms for field in form.fields}))

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the forms, independent of their order."""
        return sha256_json(sorted([form.id, form.digest] for form in self.forms))
