"""The safe format: ``corpus.jsonl`` with one page per line, and page images.

A line has ``id``, ``provider``, ``words``, ``boxes``, ``questions`` (each with ``id``,
``question``, ``answers`` and optionally ``key``), and optionally ``image`` (relative path), ``split``,
``client``, ``person``, ``group``, ``source`` and ``membership`` (member, non_member, unknown).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from pfl_audit.documents.corpus import Corpus, Problem
from pfl_audit.documents.document import Document, Membership, Query, as_boxes
from pfl_audit.documents.images import PageImage
from pfl_audit.documents.keys import key_of_question
from pfl_audit.documents.readers import Part, of_part
from pfl_audit.documents.readers.json_lines import parse_json_line, read_json_lines
from pfl_audit.documents.record_validation import (
    MAX_NAME,
    MAX_QUESTION,
    MAX_QUESTIONS,
    RECORD_ERRORS,
    RecordError,
    answers,
    field_of,
    reason_of,
    text,
    words,
)
from pfl_audit.errors import AuditError
from pfl_audit.inputs import is_regular, is_there

FILE_NAME = "corpus.jsonl"
_LONGEST_PATH, _LONGEST_NAME = 4096, 255
_MEMBERSHIPS = {str(label): label for label in Membership}


class JsonlReader:
    """Reader of ``corpus.jsonl``."""

    name = "jsonl"
    precedence = 10

    def recognises(self, path: Path) -> bool:
        """Whether ``path`` is the file or a folder that contains it."""
        return path.suffix == ".jsonl" or is_there(path / FILE_NAME)

    def read(self, path: Path, part: Part) -> Corpus:
        """Read the pages of ``part``; if no page has a split, all of them are RED."""
        file = path / FILE_NAME if path.is_dir() else path
        found = _Lines(file)
        for where, line in read_json_lines(file, "Save it as UTF-8, one JSON object a line"):
            found.read(line, where)
        return of_part(Corpus(tuple(found.queries), found.membership, self.name, tuple(found.problems)), part)


READER = JsonlReader()


class _Lines:
    """Accumulates the lines of a file."""

    def __init__(self, file: Path) -> None:
        self.queries: list[Query] = []
        self.membership: dict[str, Membership] = {}
        self.problems: list[Problem] = []
        self._folder = file.parent
        self._pages: set[str] = set()
        self._ids: set[str] = set()

    def read(self, line: str | None, where: str) -> None:
        try:
            asked, label = _page(parse_json_line(line), self._folder)
            self._refuse_repeats(asked)
        except RECORD_ERRORS as error:
            self.problems.append(Problem(where, reason_of(error)))
            return
        self.queries += asked
        for query in asked:
            if self.membership.setdefault(query.document.provider, label) is not label:
                raise AuditError(
                    f"{where}: its provider has another membership in an earlier record", "Label each provider once"
                )

    def _refuse_repeats(self, asked: list[Query]) -> None:
        pages = {query.document.id for query in asked}
        ids = {query.id for query in asked}
        if pages & self._pages:
            raise RecordError("an earlier page has its id")
        if ids & self._ids or len(ids) < len(asked):
            raise RecordError("the id of a question is used before")
        self._pages |= pages
        self._ids |= ids


def _page(row: Mapping[str, Any], folder: Path) -> tuple[list[Query], Membership]:
    document = page_of(row, folder, text_of(row, "provider"))
    rows = list_of(row, "questions")
    if not rows:
        raise RecordError("no question is asked about it")
    if len(rows) > MAX_QUESTIONS:
        raise RecordError(f"more than {MAX_QUESTIONS:,} questions are asked about it")
    if not all(isinstance(asked, Mapping) for asked in rows):
        raise RecordError("a question is not a JSON object")
    queries = [
        Query(
            id=name_of(asked, "id", f"{document.id}-{index}"),
            document=document,
            question=text_of(asked, "question", MAX_QUESTION),
            answers=_answers(asked),
            key=name_of(asked, "key", "") or key_of_question(asked["question"]),
        )
        for index, asked in enumerate(rows)
    ]
    label = row.get("membership", "unknown")
    if not isinstance(label, str) or label not in _MEMBERSHIPS:
        raise RecordError(f"membership is none of {', '.join(_MEMBERSHIPS)}")
    return queries, _MEMBERSHIPS[label]


def page_of(row: Mapping[str, Any], folder: Path, provider: str) -> Document:
    """Page of a record: id, words, boxes and image, and optionally split and client.

    Raises:
        RecordError: A field is missing or damaged.
    """
    found = words(list_of(row, "words"))
    boxes = list_of(row, "boxes")
    if len(boxes) != len(found):
        raise RecordError(f"{len(found)} words but {len(boxes)} boxes")
    return Document(
        id=text_of(row, "id"),
        provider=provider,
        words=found,
        boxes=as_boxes(boxes, len(found)),
        image=image_inside(folder, row["image"]) if row.get("image") is not None else None,
        split=name_of(row, "split", ""),
        client=_client(row.get("client")),
        source=name_of(row, "source", ""),
        person=name_of(row, "person", ""),
        group=name_of(row, "group", "").strip(),
    )


def text_of(row: Mapping[str, Any], name: str, most: int = MAX_NAME) -> str:
    """Value of a required, non-blank text field.

    Raises:
        RecordError: The field is missing, blank, or has more than ``most`` characters.
    """
    return text(field_of(row, name), name, most)


def name_of(row: Mapping[str, Any], name: str, default: str) -> str:
    """Value of an optional field, a text or an integer, as a text.

    Raises:
        RecordError: The value is of another type, or too long.
    """
    value = row.get(name)
    if value is not None and not isinstance(value, str | int):
        raise RecordError(f"{name} is not a text")
    found = default if value is None else str(value)
    if len(found) > MAX_NAME:
        raise RecordError(f"{name} is longer than {MAX_NAME:,} letters")
    return found


def list_of(row: Mapping[str, Any], name: str) -> list[Any]:
    """Value of a required list field.

    Raises:
        RecordError: The field is missing, or not a list.
    """
    value = field_of(row, name)
    if not isinstance(value, list):
        raise RecordError(f"{name} is not a list")
    return value


def mapping_of(row: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Value of a required field that is a JSON object.

    Raises:
        RecordError: The field is missing, or no JSON object.
    """
    value = field_of(row, name)
    if not isinstance(value, Mapping):
        raise RecordError(f"{name} is not a JSON object")
    return value


def _answers(row: Mapping[str, Any]) -> tuple[str, ...]:
    found = field_of(row, "answers")
    return answers([found] if isinstance(found, str) else list_of(row, "answers"))


def _client(value: Any) -> int | None:
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**63):
        raise RecordError("client is not a whole number of 0 or more")
    return value


def image_inside(folder: Path, value: Any) -> PageImage:
    """The page image that a record names by a relative path.

    Raises:
        RecordError: As ``path_inside``, or there is no such file.
    """
    path = path_inside(folder, value)
    if not is_regular(path):
        raise RecordError("its page image is missing")
    return PageImage(path)


def path_inside(folder: Path, value: Any) -> Path:
    """Resolve a relative path of a record.

    Raises:
        RecordError: The path leads outside of the folder, or is not a valid file name.
    """
    if not isinstance(value, str) or len(value) > _LONGEST_PATH or "\0" in value:
        raise RecordError("image is no name of a file")
    path = PurePosixPath(value)
    if path.is_absolute() or ".." in path.parts:
        raise RecordError("image points outside of the corpus")
    if any(len(part.encode()) > _LONGEST_NAME for part in path.parts):
        raise RecordError("its page image is missing")
    return folder / path
