"""SROIE as questions: company, date, address and total of a receipt; the provider is the company."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Final

from pfl_audit.documents.corpus import Corpus
from pfl_audit.documents.document import Document, Membership
from pfl_audit.documents.forms.readers.records import find_image, on_page
from pfl_audit.documents.forms.readers.sroie import READER as FORMS
from pfl_audit.documents.forms.readers.sroie import annotation_files, read_values, read_words
from pfl_audit.documents.readers import Part
from pfl_audit.documents.readers.gathered import Asked, Gathered
from pfl_audit.documents.record_validation import answers, words

KEYS: Final = {
    "company": ("provider_name", "What is the name of the provider?"),
    "date": ("invoice_date", "What is the date of the receipt?"),
    "address": ("provider_address", "What is the address of the provider?"),
    "total": ("total_amount", "What is the total amount?"),
}
"""Entity to the key and the question for it."""


class SroieReader:
    """Reader of SROIE's box and entity files."""

    name = "sroie"
    precedence = 103

    def recognises(self, path: Path) -> bool:
        """Whether there are folders of boxes, entities and images."""
        return FORMS.recognises(path)

    def read(self, path: Path, part: Part) -> Corpus:
        """Read the receipts: those of ``train`` are BLUE, others RED."""
        found = Gathered()
        for file, folders in annotation_files(path):
            split = {"train": "blue_train", "test": "red_test"}.get(file.parent.parent.name, "")
            found.add(file.name, partial(_page, file, folders, split), is_page=True)
        return found.corpus(self.name, part)


READER = SroieReader()


def _page(file: Path, folders: dict[str, Path], split: str) -> tuple[Document, list[Asked], Membership]:
    image, size = find_image(folders["image"], file.stem)
    found, boxes = read_words(file)
    values = read_values(folders["key"], file.stem)
    asked: list[Asked] = [(KEYS[name][1], answers([value]), KEYS[name][0]) for name, value in values.items()]
    provider = values.get("company", file.stem)
    page = Document(f"{file.stem}_1", provider, words(found), on_page(boxes, size), image, split)
    return page, asked, Membership.UNKNOWN
