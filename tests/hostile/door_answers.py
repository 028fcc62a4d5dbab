"""``--answers``: recorded answers of a model that cannot be asked."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.hostile.case import Case, Door
from tests.hostile.files import lines, sparse, two_providers

DOOR = Door("answers")
SECRET = "SecretName"
MIA = ["mia", "--red", "red", "--answers", "answers.jsonl", "--out", "run"]


def _second(row: object) -> Callable[[Path], list[str]]:
    """A good answer, and one that is not."""

    def make(folder: Path) -> list[str]:
        two_providers(folder)
        lines(folder / "answers.jsonl", {"id": "q", "answer": "12"}, row)
        return MIA

    return make


def _whole(data: bytes) -> Callable[[Path], list[str]]:
    def make(folder: Path) -> list[str]:
        two_providers(folder)
        (folder / "answers.jsonl").write_bytes(data)
        return MIA

    return make


ROWS: dict[str, Any] = {
    "a confidence beyond floats": '{"id": "r", "answer": "x", "confidence": 1' + "0" * 400 + "}",
    "a confidence of infinity": {"id": "r", "answer": "x", "confidence": float("inf")},
    "a confidence of not a number": {"id": "r", "answer": "x", "confidence": float("nan")},
    "a confidence of a name": {"id": "r", "answer": "x", "confidence": SECRET},
    "a confidence of 5,000 digits": '{"id": "r", "answer": "x", "confidence": ' + "9" * 5000 + "}",
    "a confidence above one": {"id": "r", "answer": "x", "confidence": 1.5},
    "a loss below zero": {"id": "r", "answer": "x", "loss": -1},
    "a loss beyond floats": '{"id": "r", "answer": "x", "loss": 1' + "0" * 400 + "}",
    "a loss of an object": {"id": "r", "answer": "x", "loss": {SECRET: 1}},
    "an answer of a megabyte": {"id": "r", "answer": SECRET * 100_000},
    "an answer of an object": {"id": "r", "answer": {SECRET: SECRET}},
    "an answer of nothing": {"id": "r", "answer": None},
    "an id of a list": {"id": [SECRET], "answer": "x"},
    "an id of a megabyte": {"id": SECRET * 100_000, "answer": "x"},
    "no id": {"answer": SECRET},
    "no answer": {"id": SECRET},
    "no object": f'["{SECRET}"]',
    "no JSON": f"{{{SECRET}",
    "half of a character": {"id": "r", "answer": "\ud800"},
    "nested 10^6 deep": "[" * 1_000_000,
    "another answer to a question": {"id": "q", "answer": SECRET},
}
for _name, _row in ROWS.items():
    DOOR.cases.append(Case(_name, DOOR.name, _second(_row), (2,), ("answers.jsonl line 2",), (SECRET,)))

WHOLE: dict[str, tuple[bytes, tuple[str, ...]]] = {
    "empty": (b"", ("holds no answer",)),
    "pretty-printed": (json.dumps([{"id": "q", "answer": "x"}] * 50, indent=2).encode(), ("one JSON object a line",)),
    "UTF-16": (json.dumps({"id": "q", "answer": "x"}).encode("utf-16"), ("UTF-16",)),
    "not UTF-8": (b'{"id": "q", "answer": "\xff"}', ("UTF-8",)),
    "ids of another corpus": (b'{"id": "SecretName", "answer": "x"}\n' * 3, ("none of the 1 ids", "answers.jsonl")),
}
for _name, (_data, _says) in WHOLE.items():
    DOOR.cases.append(Case(_name, DOOR.name, _whole(_data), (2,), ("answers.jsonl", *_says), (SECRET,)))


@DOOR.case(2, says=("answers.jsonl", "ZIP"))
def _a_zip(folder: Path) -> list[str]:
    two_providers(folder)
    with zipfile.ZipFile(folder / "answers.jsonl", "w") as archive:
        archive.writestr("answers.jsonl", "{}")
    return MIA


@DOOR.case(2, says=("answers.jsonl line 1", "longer than"))
def _a_line_of_a_gigabyte(folder: Path) -> list[str]:
    two_providers(folder)
    sparse(folder / "answers.jsonl", 1 << 30)
    return MIA


@DOOR.case(4, says=("answers.jsonl", "does not exist"))
def _missing(folder: Path) -> list[str]:
    two_providers(folder)
    return MIA


@DOOR.case(2, says=("answers.jsonl", "folder"))
def _a_folder(folder: Path) -> list[str]:
    two_providers(folder)
    (folder / "answers.jsonl").mkdir()
    return MIA


@DOOR.case(0, 1, 3)
def _a_byte_order_mark(folder: Path) -> list[str]:
    return _whole(b'\xef\xbb\xbf{"id": "q", "answer": "12"}\n{"id": "r", "answer": "12"}\n')(folder)
