"""Our own format: ``corpus.jsonl`` with one page a line, and the page images beside it.

A line holds ``id``, ``provider``, ``words``, ``boxes``, ``questions`` (each with ``id``,
``question``, ``answers`` and perhaps ``key``), and perhaps ``image`` (relative path), ``split``,
``client`` and ``membership`` (member, non_member, unknown).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from pfl_audit.documents.corpus import Corpus, Problem
from pfl_audit.documents.document import Document, Membership, Query, as_boxes
from pfl_audit.documents.images import PageImage
from pfl_audit.documents.keys import key_of_question
from pfl_audit.documents.readers import Part
from pfl_audit.errors import AuditError

FILE_NAME = "corpus.jsonl"


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
        try:
            with file.open(encoding="utf-8") as lines:
                for number, line in enumerate(lines, start=1):
                    if line.strip():
                        found.read(line, f"{file.name} line {number}")
        except (OSError, UnicodeDecodeError) as error:
            raise AuditError(f"{file} cannot be read as UTF-8 text", "Check the path") from error
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
            asked, label = _page(json.loads(line), self._folder)
            self._refuse_repeats(asked)
        except KeyError as error:
            self.problems.append(Problem(where, f"the field {error} is missing"))
            return
        except (TypeError, ValueError, AttributeError, RecursionError) as error:
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


def _page(row: Any, folder: Path) -> tuple[list[Query], Membership]:
    if not isinstance(row, Mapping):
        raise TypeError("it is not a JSON object")
    words = tuple(str(word) for word in row["words"])
    document = Document(
        id=_text(row, "id"),
        provider=_text(row, "provider"),
        words=words,
        boxes=as_boxes(row["boxes"], len(words)),
        image=_image(row.get("image"), folder),
        split=str(row.get("split", "")),
        client=int(row["client"]) if row.get("client") is not None else None,
    )
    queries = [
        Query(
            id=str(asked.get("id", f"{document.id}-{index}")),
            document=document,
            question=_text(asked, "question"),
            answers=tuple(str(answer) for answer in asked["answers"]),
            key=str(asked.get("key") or key_of_question(asked["question"])),
        )
        for index, asked in enumerate(row["questions"])
    ]
    if any(not query.answers for query in queries):
        raise ValueError("a question has no answer")
    return queries, Membership(row.get("membership", "unknown"))


def _text(row: Mapping[str, Any], name: str) -> str:
    value = row[name]
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{name} is not a text")
    return value


def _image(value: Any, folder: Path) -> PageImage | None:
    if value is None:
        return None
    path = PurePosixPath(str(value))
    if path.is_absolute() or ".." in path.parts:
        raise ValueError("image points outside of the corpus")
    if not (folder / path).is_file():
        raise ValueError("its page image is missing")
    return PageImage(folder / path)
