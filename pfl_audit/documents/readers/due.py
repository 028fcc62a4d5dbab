"""Folders of the DUE benchmark: questions and words of each split.

``SPLIT/document.jsonl`` (or ``documents.jsonl``) has the questions, ``SPLIT/documents_content.jsonl`` the words; the
schema is that of github.com/due-benchmark/du-schema. A document has no issuer, so each is its own provider.
The first page counts; its image is ``images/NAME.png`` or ``.jpg`` beside the splits, where there is one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from pfl_audit.documents.corpus import Corpus, Problem
from pfl_audit.documents.document import Document, Query, as_boxes
from pfl_audit.documents.images import PageImage
from pfl_audit.documents.keys import key_of_question
from pfl_audit.documents.readers import Part
from pfl_audit.documents.readers.json_lines import parse_json_line, read_json_lines
from pfl_audit.documents.readers.jsonl import list_of, mapping_of, path_inside, text_of
from pfl_audit.documents.record_validation import (
    MAX_QUESTION,
    MAX_QUESTIONS,
    RECORD_ERRORS,
    RecordError,
    answers,
    field_of,
    reason_of,
    words,
)
from pfl_audit.inputs import is_regular, is_there

QUESTIONS, CONTENT = ("document.jsonl", "documents.jsonl"), "documents_content.jsonl"
SPLITS: Final = {"train": "blue_train", "dev": "blue_valid", "val": "blue_valid", "test": "red_test"}
"""Folder of a split to the split of a page."""
TOOLS: Final = ("microsoft_cv", "tesseract")
"""OCR whose words are read, the first that there is; else the first of the document."""
_REMEDY = "Save it as UTF-8, one JSON object a line"


class DueReader:
    """Reader of folders of the DUE benchmark."""

    name = "due"
    precedence = 10

    def recognises(self, path: Path) -> bool:
        """Whether a split of ``path`` has both files."""
        return path.is_dir() and any(_is_split(path / folder) for folder in SPLITS)

    def read(self, path: Path, part: Part) -> Corpus:
        """Read the pages of ``part``: train and dev are BLUE, test is RED."""
        queries: list[Query] = []
        problems: list[Problem] = []
        pages: set[str] = set()
        for folder, split in SPLITS.items():
            wanted = part == "all" or split.startswith(part)
            if wanted and _is_split(path / folder):
                _read_split(path, folder, split, queries, problems, pages)
        return Corpus(tuple(queries), {}, self.name, tuple(problems))


READER = DueReader()


def _is_split(folder: Path) -> bool:
    return is_there(folder / CONTENT) and any(is_there(folder / name) for name in QUESTIONS)


def _read_split(
    root: Path, folder: str, split: str, queries: list[Query], problems: list[Problem], pages: set[str]
) -> None:
    """Read a split; ``pages`` are the ids of those before."""
    asked: dict[str, list[Any]] = {}
    questions = next(name for name in QUESTIONS if is_there(root / folder / name))
    for where, line in read_json_lines(root / folder / questions, _REMEDY):
        try:
            row = parse_json_line(line)
            asked.setdefault(text_of(row, "name"), []).extend(list_of(row, "annotations"))
        except RECORD_ERRORS as error:
            problems.append(Problem(f"{folder}/{where}", reason_of(error)))
    for where, line in read_json_lines(root / folder / CONTENT, _REMEDY):
        try:
            row = parse_json_line(line)
            page = _page(row, root, split)
            rows = asked.pop(page.provider, None)
            if rows is None:
                raise RecordError(f"{questions} has no questions about it, or they are used before")
            if page.id in pages:
                raise RecordError("an earlier split has a document of its name")
            queries += _queries(page, rows)
            pages.add(page.id)
        except RECORD_ERRORS as error:
            problems.append(Problem(f"{folder}/{where}", reason_of(error)))
    problems += [Problem(name, f"{CONTENT} of its split has no words of it", is_page=True) for name in asked]


def _page(row: Mapping[str, Any], root: Path, split: str) -> Document:
    name = text_of(row, "name")
    layer = _layer(list_of(row, "contents"))
    pages = field_of(field_of(layer, "structures"), "pages")
    (first, last), sheet = list_of(pages, "structure_value")[0], list_of(pages, "positions")[0]
    found = words(list_of(layer, "tokens")[int(first) : int(last)])
    boxes = np.asarray(list_of(layer, "positions")[int(first) : int(last)], dtype=np.float64).reshape(-1, 4)
    left, top, right, bottom = (float(edge) for edge in sheet)
    if not (right > left and bottom > top):
        raise RecordError("its page has no size")
    shares = (boxes - np.tile([left, top], 2)) / np.tile([right - left, bottom - top], 2)
    return Document(f"{name}_1", name, found, as_boxes(shares, len(found)), _image(root, name), split)


def _layer(contents: Sequence[Any]) -> Mapping[str, Any]:
    """Words of the tool that is preferred."""
    by_tool = {field_of(one, "tool_name"): one for one in contents}
    if not by_tool:
        raise RecordError("it has no words")
    tool = next((tool for tool in TOOLS if tool in by_tool), next(iter(by_tool)))
    return mapping_of(by_tool[tool], "tokens_layer")


def _image(root: Path, name: str) -> PageImage | None:
    paths = (path_inside(root, f"images/{name}.{suffix}") for suffix in ("png", "jpg"))
    return next((PageImage(path) for path in paths if is_regular(path)), None)


def _queries(page: Document, rows: Sequence[Any]) -> list[Query]:
    if len(rows) > MAX_QUESTIONS:
        raise RecordError(f"more than {MAX_QUESTIONS:,} questions are asked about it")
    found = []
    for number, row in enumerate(rows):
        question = text_of(row, "key", MAX_QUESTION)
        values = [text for value in list_of(row, "values") for text in value.get("value_variants") or [value["value"]]]
        if values:
            key = key_of_question(question)
            found.append(Query(f"{page.id}-{number}", page, question, answers(list(dict.fromkeys(values))), key))
    if not found:
        raise RecordError("no question about it has an answer")
    return found
