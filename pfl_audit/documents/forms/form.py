"""A page with labelled fields."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from pfl_audit.documents.corpus import Problem
from pfl_audit.documents.document import Document
from pfl_audit.files import sha256_json

FormPart = Literal["validation", "public", "private"]
"""What a form is used for: to validate with, to train what everybody may have, or to train the model under audit."""
PARTS: tuple[FormPart, ...] = ("validation", "public", "private")


@dataclass(frozen=True)
class Field:
    """A labelled stretch of a page's words.

    Attributes:
        id: Unique in its form.
        label: What it is, such as ``answer``, ``date`` or ``gross_amount``.
        start: Its first word.
        stop: One past its last word; above ``start``.
    """

    id: str
    label: str
    start: int
    stop: int


@dataclass(frozen=True, eq=False)
class Form:
    """A page with its fields.

    Attributes:
        document: The page.
        fields: In the order of their words; no two share a word.
        links: (field id, field id): from the field that names to the field that answers.
    """

    document: Document
    fields: tuple[Field, ...] = ()
    links: tuple[tuple[str, str], ...] = ()

    @property
    def id(self) -> str:
        """The page's name; unique in a corpus."""
        return self.document.id

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the page and of what is labelled on it."""
        fields = [[field.id, field.label, field.start, field.stop] for field in self.fields]
        return sha256_json([self.document.digest, fields, [list(link) for link in self.links]])

    def text(self, field: Field) -> str:
        """The words of a field, joined by blanks."""
        return " ".join(self.document.words[field.start : field.stop])


@dataclass(frozen=True, eq=False)
class FormCorpus:
    """Forms of one source.

    Attributes:
        forms: In the order of the source; ids differ.
        format: Name of the format they were read from.
        parts: Form id to its part, where the source says so for every form; else empty.
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
        """SHA-256 of the forms, in any order."""
        return sha256_json(sorted([form.id, form.digest] for form in self.forms))
