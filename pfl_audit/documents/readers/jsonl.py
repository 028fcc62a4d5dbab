"""Our own format: ``corpus.jsonl`` with one page a line, and the page images beside it.

A line holds ``id``, ``provider``, ``words``, ``boxes``, ``questions`` (each with ``id``,
``question``, ``answers`` and perhaps ``key``), and perhaps ``image`` (relative path), ``split``,
``client`` and ``membership`` (member, non_member, unknown).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from pfl_audit.documents.corpus import Corpus, Problem
from pfl_audit.documents.document import Document, Membership, Query, as_boxes
from pfl_audit.documents.images import PageImage
from pfl_audit.documents.keys import key_of_question
from pfl_audit.documents.readers import Part
from pfl_audit.errors import AuditError

FILE_NAME = "corpus.jsonl"
_LONGEST_NAME = 255


class JsonlReader:
    """Reads ``corpus.jsonl``."""

    name = "jsonl"

    def recognises(self, path: Path) -> bool:
        """The file, or a folder that holds it."""
        return path.suffix == ".jsonl" or (path / FILE_NAME).is_file()

    def read(self, path: Path, part: Part) -> Corpus:
        """Read the pages of ``part``; where no page names its part, all of them are RED."""
        file = path if path.is_file() else path / FILE_NAME
        found = _Lines(file)
        for where, line in lines_of(file, "Check the path"):
            found.read(line, where)
        corpus = Corpus(tuple(found.queries), found.membership, self.name, tuple(found.problems))
        return corpus if part == "all" else corpus.where(lambda query: _in_part(query.document.split, part))


class _Lines:
    """What the lines of a file add up to."""

    def __init__(self, file: Path) -> None:
        self.queries: list[Query] = []
        self.membership: dict[str, Membership] = {}
        self.problems: list[Problem] = []
        self._folder = file.parent
        self._pages: set[str] = set()
        self._ids: set[str] = set()

    def read(self, line: str, where: str) -> None:
        try:
            asked, label = _page(parse(line), self._folder)
            self._refuse_repeats(asked)
        except KeyError as error:
            self.problems.append(Problem(where, f"the field {error} is missing"))
            return
        except (TypeError, ValueError, AttributeError, OverflowError, RecursionError) as error:
            self.problems.append(Problem(where, str(error)))
            return
        self.queries += asked
        for query in asked:
            if self.membership.setdefault(query.document.provider, label) is not label:
                raise AuditError(
                    f"{where}: its provider carries another membership further up", "Label each provider once"
                )

    def _refuse_repeats(self, asked: list[Query]) -> None:
        pages = {query.document.id for query in asked}
        ids = {query.id for query in asked}
        if pages & self._pages:
            raise ValueError("a page with its id stands further up")
        if ids & self._ids or len(ids) < len(asked):
            raise ValueError("the id of a question stands further up")
        self._pages |= pages
        self._ids |= ids


def _in_part(split: str, part: Part) -> bool:
    return split.startswith("blue") if part == "blue" else not split.startswith("blue")


def lines_of(file: Path, remedy: str) -> Iterator[tuple[str, str]]:
    """The lines of a file that hold something, each with where it stands.

    Raises:
        AuditError: Not a file, or not UTF-8; ``remedy`` is its remedy.
    """
    try:
        with file.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, start=1):
                if line.strip():
                    yield f"{file.name} line {number}", line
    except (OSError, UnicodeDecodeError) as error:
        raise AuditError(f"{file} cannot be read as UTF-8 text", remedy) from error


def parse(line: str) -> Any:
    """A line of JSON as data.

    Raises:
        ValueError: Not JSON, or a text in it is half of a character (a lone surrogate), which can be
            written nowhere.
    """
    row = json.loads(line)
    if "\\ud" in line.lower():
        try:
            json.dumps(row, ensure_ascii=False).encode()
        except UnicodeEncodeError as error:
            raise ValueError("a text in it is not valid Unicode (a lone surrogate)") from error
    return row


def _page(row: Any, folder: Path) -> tuple[list[Query], Membership]:
    if not isinstance(row, Mapping):
        raise TypeError("it is not a JSON object")
    document = page_of(row, folder, text_of(row, "provider"))
    queries = [
        Query(
            id=name_of(asked, "id", f"{document.id}-{index}"),
            document=document,
            question=text_of(asked, "question"),
            answers=(asked["answers"],) if isinstance(asked["answers"], str) else _texts(asked, "answers"),
            key=name_of(asked, "key", "") or key_of_question(asked["question"]),
        )
        for index, asked in enumerate(list_of(row, "questions"))
    ]
    if not queries:
        raise ValueError("no question is asked about it")
    if any(not "".join(query.answers).strip() for query in queries):
        raise ValueError("a question has no answer")
    return queries, Membership(row.get("membership", "unknown"))


def page_of(row: Mapping[str, Any], folder: Path, provider: str) -> Document:
    """The page that a record holds: its id, words, boxes and image, and perhaps its split and client.

    Raises:
        KeyError, TypeError, ValueError, OverflowError: Something of it is missing or damaged.
    """
    words = _texts(row, "words")
    return Document(
        id=text_of(row, "id"),
        provider=provider,
        words=words,
        boxes=as_boxes(list_of(row, "boxes"), len(words)),
        image=_image(row.get("image"), folder),
        split=name_of(row, "split", ""),
        client=_client(row.get("client")),
    )


def text_of(row: Mapping[str, Any], name: str) -> str:
    """A text that must be there and hold something."""
    value = row[name]
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{name} is not a text")
    return value


def name_of(row: Mapping[str, Any], name: str, default: str) -> str:
    """A text or a whole number; the default where there is none."""
    value = row.get(name)
    if value is not None and not isinstance(value, str | int):
        raise TypeError(f"{name} is not a text")
    return default if value is None else str(value)


def list_of(row: Mapping[str, Any], name: str) -> list[Any]:
    """A list that must be there."""
    value = row[name]
    if not isinstance(value, list):
        raise TypeError(f"{name} is not a list")
    return value


def _texts(row: Mapping[str, Any], name: str) -> tuple[str, ...]:
    values = list_of(row, name)
    if not all(isinstance(value, str | int | float) for value in values):
        raise TypeError(f"{name} is not a list of texts")
    return tuple(str(value) for value in values)


def _client(value: Any) -> int | None:
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 0):
        raise TypeError("client is not a whole number of 0 or more")
    return value


def _image(value: Any, folder: Path) -> PageImage | None:
    if value is None:
        return None
    path = path_inside(folder, value)
    if not path.is_file():
        raise ValueError("its page image is missing")
    return PageImage(path)


def path_inside(folder: Path, value: Any) -> Path:
    """The file that a record names.

    Raises:
        ValueError: It lies outside of the folder, or no file can have that name.
    """
    path = PurePosixPath(str(value))
    if path.is_absolute() or ".." in path.parts:
        raise ValueError("image points outside of the corpus")
    if any(len(part.encode()) > _LONGEST_NAME for part in path.parts):
        raise ValueError("its page image is missing")
    return folder / path
