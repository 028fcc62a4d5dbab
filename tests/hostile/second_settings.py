"""Configuration, recorded answers and databases of answers that somebody else wrote."""

from __future__ import annotations

import os
import sqlite3
import struct
from collections.abc import Callable
from pathlib import Path

from tests.hostile.case import Door
from tests.hostile.second import corpus, lines, page, sparse, write

DOOR = Door("second: settings")


def _audit(folder: Path, *more: str) -> list[str]:
    """Sixteen questions, and an answer to each."""
    corpus(folder, [page(number) for number in range(1, 17)])
    if not os.path.lexists(folder / "answers.jsonl"):
        lines(folder / "answers.jsonl", [{"id": f"q{number}", "answer": "acme media"} for number in range(1, 17)])
    asked = ["mia", "--answers", "answers.jsonl", "--red", "red", "--check", "membership.azk", "--out", "out", "-q"]
    return [*asked, *more]


def _configured(text: bytes | str) -> Callable[[Path], list[str]]:
    def make(folder: Path) -> list[str]:
        write(folder / "audit.toml", text)
        return _audit(folder, "--config", "audit.toml")

    return make


for label, text in {
    "brackets without end": "seed = " + "[" * 100_000,
    "a number of a million digits": "seed = " + "1" * 1_000_000,
    "a key of forty thousand parts": ".".join("a" * 40_000) + " = 1",
}.items():
    DOOR.add(f"configuration of {label}", _configured(text), 2, 4, says=("audit.toml",))

_TYPES = "seed = 1979-05-27\nquiet = [[true]]\n[mia]\nseeds = {a = 1}\nshare = inf\n"
DOOR.add("configuration of dates, tables and lists for numbers", _configured(_TYPES), 4, says=("audit.toml",))


@DOOR.case(4, silent=("\nall is well",))
def _a_key_that_rules_the_terminal(folder: Path) -> list[str]:
    return _configured('"\\u001b]0;owned\\u0007\\nall is well" = 1\n"__class__" = 2\n')(folder)


@DOOR.case(2, 4, says=("audit.toml",))
def _a_configuration_of_a_terabyte_of_holes(folder: Path) -> list[str]:
    sparse(folder / "audit.toml", 1 << 40, b"seed = 1\n")
    return _audit(folder, "--config", "audit.toml")


@DOOR.case(0, 1, 2, 3)
def _answers_of_every_wrong_kind(folder: Path) -> list[str]:
    odd = [
        '{"id": "q1", "answer": null}', '{"id": ["q2"], "answer": "x"}', '{"id": "q3", "answer": {"a": 1}}', "7",
        '{"id": "q4", "answer": "\\ud800\\u0000", "confidence": NaN, "loss": 1e999}', '{"id": "q5"', "[" * 90_000,
        '{"id": "q6", "answer": "x", "confidence": -1}', '{"id": "q7", "answer": "x", "confidence": "1", "loss": true}',
        '{"id": "q8", "answer": "a"}', '{"id": "q8", "answer": "b"}', '{"id": "q9", "answer": 1' + "0" * 5000 + "}",
    ]  # fmt: skip
    write(folder / "answers.jsonl", "\n".join(odd) + "\n")
    return _audit(folder)


@DOOR.case(2, says=("answers.jsonl",))
def _a_pipe_as_the_answers(folder: Path) -> list[str]:
    os.mkfifo(folder / "answers.jsonl")
    return _audit(folder)


@DOOR.case(0, 1, 2, 3)
def _answers_of_half_characters(folder: Path) -> list[str]:
    rows = [{"id": f"q{number}", "answer": f"acme \ud800 media\x00{number}"} for number in range(1, 17)]
    lines(folder / "answers.jsonl", rows)
    return _audit(folder, "--reveal")


@DOOR.case(2, says=("mine.sqlite",))
def _a_database_whose_table_never_ends(folder: Path) -> list[str]:
    held = sqlite3.connect(folder / "mine.sqlite")
    endless = "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT"
    held.execute("CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL)")
    held.execute("CREATE TABLE records (key TEXT PRIMARY KEY, value TEXT NOT NULL)")
    columns = "'k' || n AS key, 'x' AS answer, 1 AS confidence, 1 AS loss, 1 AS tokens"
    held.execute(f"CREATE VIEW responses AS {endless} {columns} FROM r")
    held.commit()
    held.close()
    return _audit(folder, "--store", "mine.sqlite")


@DOOR.case(2, says=("mine.sqlite",))
def _a_database_that_is_a_head_alone(folder: Path) -> list[str]:
    head = b"SQLite format 3\x00" + struct.pack(">HBBBBBBII", 65535, 2, 2, 255, 64, 32, 32, 1, 2**32 - 1) + b"\xff" * 68
    write(folder / "mine.sqlite", head + b"\x05" * 400)
    write(folder / "mine.sqlite-wal", b"\x37\x7f\x06\x82" + b"\xff" * 4000)
    return _audit(folder, "--store", "mine.sqlite")
