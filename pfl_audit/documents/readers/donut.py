"""Donut's training format: ``metadata.jsonl`` beside images (Kim et al., ECCV 2022; github.com/clovaai/donut).

A line has ``file_name`` and ``ground_truth``, a JSON string with ``gt_parse`` (a tree, or a question with its answer)
or ``gt_parses`` (several questions of one page). The folder may have the subfolders train, validation and test.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from pfl_audit.documents.corpus import Corpus
from pfl_audit.documents.document import Boxes, Document, Membership, as_boxes
from pfl_audit.documents.readers import Part
from pfl_audit.documents.readers.gathered import (
    SPLITS,
    Asked,
    Gathered,
    field_questions,
    leaves,
    membership_of,
    provider_of,
    question,
    split_of,
)
from pfl_audit.documents.readers.json_lines import parse_json_line, read_json_lines
from pfl_audit.documents.readers.jsonl import image_inside, text_of
from pfl_audit.documents.record_validation import MAX_NAME, RecordError, field_of, text, words
from pfl_audit.inputs import is_there

FILE_NAME = "metadata.jsonl"


class DonutReader:
    """Reader of ``metadata.jsonl``."""

    name = "donut"
    precedence = 20

    def recognises(self, path: Path) -> bool:
        """Whether the folder, or the folder of a split, contains ``metadata.jsonl``."""
        return path.is_dir() and bool(_folders(path))

    def read(self, path: Path, part: Part) -> Corpus:
        """Read the pages of ``part``."""
        found = Gathered()
        for folder in _folders(path):
            for where, line in read_json_lines(folder / FILE_NAME, "Save it as UTF-8, one JSON object a line"):
                record = str(Path(folder.relative_to(path)) / where)
                found.add(record, partial(_page, line, folder, folder.name if folder != path else ""))
        return found.corpus(self.name, part)


READER = DonutReader()


def _folders(path: Path) -> list[Path]:
    return [folder for folder in (path, *(path / name for name in SPLITS)) if is_there(folder / FILE_NAME)]


def _page(line: str | None, folder: Path, split: str) -> tuple[Document, list[Asked], Membership]:
    row = parse_json_line(line)
    image = image_inside(folder, text_of(row, "file_name"))
    truth = parse_ground_truth(field_of(row, "ground_truth"))
    name = f"{split}-{row['file_name']}" if split else row["file_name"]
    found, boxes = words_of_lines(truth)
    page = Document(f"{name}_1", provider_of(row, name), found, boxes, image, split_of(row, split))
    return page, questions_of(truth), membership_of(row)


def parse_ground_truth(value: object) -> Mapping[str, Any]:
    """Parse ``ground_truth``, a JSON string or its object.

    Raises:
        RecordError: It is neither.
    """
    truth = parse_json_line(value) if isinstance(value, str) else value
    if not isinstance(truth, Mapping):
        raise RecordError("ground_truth is not a JSON object")
    return truth


def questions_of(truth: Mapping[str, Any]) -> list[Asked]:
    """Questions of a ground truth: those of DocVQA's style, else one for each leaf of the tree.

    Answers to the same question are accepted answers of one question.

    Raises:
        RecordError: It has neither gt_parse nor gt_parses.
    """
    parses = truth["gt_parses"] if "gt_parses" in truth else [field_of(truth, "gt_parse")]
    if not isinstance(parses, list):
        raise RecordError("gt_parses is not a list")
    fields: list[tuple[str, str]] = []
    asked: dict[str, list[Any]] = {}
    for parse in parses:
        if isinstance(parse, Mapping) and "question" in parse:
            values = parse["answers"] if "answers" in parse else field_of(parse, "answer")
            asked.setdefault(text(parse["question"], "question", 2000), []).extend(
                values if isinstance(values, list) else [values]
            )
        else:
            fields += leaves(parse)
    return [question(one, values) for one, values in asked.items()] + field_questions(fields)


def words_of_lines(truth: Mapping[str, Any]) -> tuple[tuple[str, ...], Boxes]:
    """Words and boxes of CORD's ``valid_line``, in shares of ``meta.image_size``; none where they are missing."""
    lines = truth.get("valid_line")
    size = (truth.get("meta") or {}).get("image_size") or {}
    if not lines or not size:
        return (), as_boxes([], 0)
    found = [word for line in lines for word in line["words"]]
    names = words([text(word["text"], "a word", MAX_NAME) for word in found])
    corners = [[float(word["quad"][f"{axis}{at}"]) for at in range(1, 5) for axis in "xy"] for word in found]
    quads = np.array(corners, dtype=np.float64).reshape(-1, 4, 2) / [float(size["width"]), float(size["height"])]
    return names, as_boxes(np.clip(np.concatenate([quads.min(1), quads.max(1)], axis=1), 0, 1), len(names))
