"""PFL-DocVQA as published: imdb ``.npy`` files, provider maps and page images.

File names differ (starter kit, red-team kit, releases 1.0 and 1.2), so files are recognised by the words in their
names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pfl_audit.documents.corpus import Corpus, Problem
from pfl_audit.documents.document import Document, Membership, Query, as_boxes
from pfl_audit.documents.images import PageImage
from pfl_audit.documents.keys import key_of_question
from pfl_audit.documents.npy import read_object_arrays
from pfl_audit.documents.readers import Part
from pfl_audit.documents.readers.folder import files_below
from pfl_audit.documents.readers.provider_maps import ProviderMaps
from pfl_audit.documents.record_validation import (
    MAX_NAME,
    MAX_QUESTION,
    RECORD_ERRORS,
    RecordError,
    answers,
    field_of,
    identifier,
    reason_of,
    text,
    words,
)
from pfl_audit.errors import AuditError
from pfl_audit.inputs import is_regular, read_json
from pfl_audit.provider_identity import provider_identity

_IMAGE_SUFFIXES = (".jpg", ".jpeg", ".png")
_IMDB_WORDS = re.compile(r"red|blue|imdb|train|val|test|pmia", re.IGNORECASE)
_BLUE = re.compile(r"(?<![a-z])blue(?![a-z])")
_RED = re.compile(r"(?<![a-z])(red|pmia)(?![a-z])")
_LABELS = "SaTML_PMIA_label.json"
"""Label file of the red-team kit: setting (dp or nondp) to provider to 0 or 1."""
_LABELS_REMEDY = "Get it from the data set again"


class PflDocVqaReader:
    """Reader of PFL-DocVQA folders."""

    name = "pfl-docvqa"
    precedence = 100

    def recognises(self, path: Path) -> bool:
        """Whether there is an imdb file below the folder."""
        return path.is_dir() and next(_imdb_files(path, "all"), None) is not None

    def read(self, path: Path, part: Part) -> Corpus:
        """Read every imdb file of ``part``; a question in two files counts once."""
        maps = files_below(path, (".json",))
        images = {image.stem: image for image in reversed(files_below(path, _IMAGE_SUFFIXES))}  # the first one wins
        folder = _Folder(path, ProviderMaps.read(maps), images, _red_team_labels(maps))
        for file, row, record in read_object_arrays(list(_imdb_files(path, part))):
            folder.read(record, file, row)
        return Corpus(tuple(folder.queries.values()), folder.membership, self.name, tuple(folder.problems))


READER = PflDocVqaReader()


@dataclass
class _Folder:
    root: Path
    maps: ProviderMaps
    images: Mapping[str, Path]
    labels: Mapping[str, Mapping[str, Membership]]
    pages: dict[str, Document] = field(default_factory=dict)
    queries: dict[tuple[str, str, str], Query] = field(default_factory=dict)
    membership: dict[str, Membership] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    ids: set[str] = field(default_factory=set)
    header: bool = False
    """Whether row 0 of the current file is a header."""

    def read(self, record: Any, file: Path, row: int) -> None:
        if row == 0:
            self.header = isinstance(record, dict) and "image_name" not in record
            if self.header:
                return
        where = f"{file.relative_to(self.root)} row {row}"
        try:
            query = self._query(record, file, row, row - self.header)
        except RECORD_ERRORS as error:
            self.problems.append(Problem(where, reason_of(error)))
        else:
            self._add(query, self._label(_split(record, file), query.document.provider, file), where)

    def _label(self, split: str, provider: str, file: Path) -> Membership:
        """Membership of the provider by the split of a record, else by the red-team label file."""
        label = _membership(split)
        if label is Membership.UNKNOWN and "pmia" in file.stem.lower():
            setting = "nondp" if "nondp" in file.stem.lower() else "dp"
            label = self.labels.get(setting, {}).get(provider_identity(provider), label)
        return label

    def _add(self, query: Query, label: Membership, where: str) -> None:
        key = (query.document.id, query.question, query.answers[0])
        if key not in self.queries:
            while query.id in self.ids:  # question_id is unique within a file only
                query = replace(query, id=f"{where} {query.id}")
            self.ids.add(query.id)
            self.queries[key] = query
        if label is Membership.UNKNOWN:
            return
        if self.membership.setdefault(query.document.provider, label) is not label:
            raise AuditError(
                f"{where}: its provider is labelled a member in one place and a non-member in another",
                "Correct set_name, or the provider map",
            )

    def _query(self, record: Any, file: Path, row: int, index: int) -> Query:
        if not isinstance(record, dict):
            raise RecordError("it is not a record")
        page = self._page(record, file, row)
        question = text(field_of(record, "question"), "the question", MAX_QUESTION)
        return Query(
            id=identifier(record.get("question_id"), "question_id") or f"{page.split}-{index}",
            document=page,
            question=question,
            answers=_answers(field_of(record, "answers")),
            key=key_of_question(question),
        )

    def _page(self, record: Mapping[str, Any], file: Path, row: int) -> Document:
        name = field_of(record, "image_name")
        if not isinstance(name, str):
            raise RecordError("image_name is not a string (multi-page records are not of this data set)")
        if name not in self.pages:
            if (image := self.images.get(text(name, "image_name", MAX_NAME))) is None:
                raise RecordError("its page image is missing")
            if not is_regular(image):
                raise RecordError("its page image is not a regular file")
            tokens = field_of(record, "ocr_tokens") or []
            if not isinstance(tokens, list) or not all(isinstance(word, str) for word in tokens):
                raise RecordError("ocr_tokens is not a list of strings")
            client = re.search(r"client_(\d+)", file.stem)
            self.pages[name] = Document(
                id=name,
                provider=self.maps.provider(record, file, row),
                words=words(tokens, "ocr_tokens"),
                boxes=as_boxes(field_of(record, "ocr_normalized_boxes"), len(tokens)),
                image=PageImage(image),
                split=_split(record, file),
                client=int(client.group(1)) if client else None,
            )
        return self.pages[name]


def _imdb_files(root: Path, part: Part) -> Iterator[Path]:
    for path in files_below(root, (".npy",)):
        name = str(path.relative_to(root)).lower()
        labelled = "positive" in path.stem or "negative" in path.stem
        red = bool(_RED.search(name)) or (labelled and not _BLUE.search(name))
        wanted = part == "all" or (part == "red" and red and "train" not in path.stem) or (part == "blue" and not red)
        if wanted and _IMDB_WORDS.search(path.stem):
            yield path


def _answers(value: Any) -> tuple[str, ...]:
    values = [value] if isinstance(value, str) else value
    if not isinstance(values, list):
        raise RecordError("answers is neither a string nor a list")
    return answers([answer for answer in values if isinstance(answer, str | int | float)])


def _split(record: Mapping[str, Any], file: Path) -> str:
    """Split of a record: its set_name, else its label (red-team files), else the file name."""
    named = record.get("set_name")
    split = text(named, "set_name", MAX_NAME) if isinstance(named, str) and named else file.stem
    if "positive" in split or "negative" in split:
        return split
    if record.get("label") in (0, 1):
        return f"{split}_{'positive' if record['label'] else 'negative'}"
    return file.stem if "positive" in file.stem or "negative" in file.stem else split


def _membership(split: str) -> Membership:
    if "negative" in split:
        return Membership.NON_MEMBER
    trained_on = "train" in split and "red" not in split
    return Membership.MEMBER if "positive" in split or trained_on else Membership.UNKNOWN


def _red_team_labels(files: Iterable[Path]) -> dict[str, dict[str, Membership]]:
    found: dict[str, dict[str, Membership]] = {}
    for path in files:
        if path.name != _LABELS:
            continue
        settings = read_json(path, remedy=_LABELS_REMEDY)
        if not isinstance(settings, dict) or not all(isinstance(labels, dict) for labels in settings.values()):
            raise AuditError(f"{path} does not map settings to providers to 0 or 1", _LABELS_REMEDY)
        for setting, labels in settings.items():
            found.setdefault(setting, {}).update(
                (provider_identity(provider), Membership.MEMBER if label else Membership.NON_MEMBER)
                for provider, label in labels.items()
                if label in (0, 1)
            )
    return found
