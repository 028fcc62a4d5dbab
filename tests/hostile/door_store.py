"""What is not ours in the place of ``--store``."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from pathlib import Path

from tests.hostile.case import Door
from tests.hostile.files import make_socket

DOOR = Door("store")
_OPENED = ["mia", "--red", "red", "--model", "model", "--out", "run", "--store", "x.sqlite", "--quiet"]
"""The store is opened before the documents and the model, which need not be there."""
_OURS = """
CREATE TABLE responses (key TEXT PRIMARY KEY, answer TEXT NOT NULL, confidence REAL, loss REAL, tokens INTEGER);
CREATE TABLE records (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL);
PRAGMA user_version=1;
"""


def _placed(place: Callable[[Path], object], name: str = "x.sqlite") -> Callable[[Path], list[str]]:
    def make(folder: Path) -> list[str]:
        place(folder / name)
        return _OPENED

    return make


def _database(*statements: str, ours: bool = True) -> Callable[[Path], list[str]]:
    def make(folder: Path) -> list[str]:
        with sqlite3.connect(folder / "x.sqlite") as database:
            database.executescript(_OURS if ours else "")
            for statement in statements:
                database.execute(statement)
        return _OPENED

    return make


def _cut(size: int, filler: bytes = b"") -> Callable[[Path], list[str]]:
    def make(folder: Path) -> list[str]:
        _database()(folder)
        path = folder / "x.sqlite"
        content = path.read_bytes()
        path.write_bytes(content[:size] + filler * (len(content) - size))
        return _OPENED

    return make


def _named(name: str) -> Callable[[Path], list[str]]:
    return lambda folder: [*_OPENED[:-2], name, "--quiet"]


_FILES: dict[str, Callable[[Path], object]] = {
    "named pipe": os.mkfifo,
    "socket": make_socket,
    "folder": Path.mkdir,
    "link": lambda path: path.symlink_to("elsewhere"),
    "link to a device": lambda path: path.symlink_to("/dev/zero"),
    "link to itself": lambda path: path.symlink_to(path.name),
}
for kind, place in _FILES.items():
    DOOR.add(kind, _placed(place), 2, says=("x.sqlite", "Name another --store"))
for end in ("-wal", "-journal", "-shm"):
    DOOR.add(f"named pipe as {end}", _placed(os.mkfifo, f"x.sqlite{end}"), 2, says=(f"x.sqlite{end}", "named pipe"))
    DOOR.add(f"link as {end}", _placed(_FILES["link"], f"x.sqlite{end}"), 2, says=(f"x.sqlite{end}", "link"))
for kind, content in {
    "text": b"my notes of the year " * 100,
    "a line": b"x",
    "a picture": b"\x89PNG\r\n\x1a\n" + b"\0" * 1000,
    "SQLite's magic alone": b"SQLite format 3\0",
    "SQLite's magic, then nothing but ones": b"SQLite format 3\0" + b"\xff" * 5000,
}.items():
    DOOR.add(kind, _placed(lambda path, content=content: path.write_bytes(content)), 2, says=("x.sqlite", "--store"))
for kind, statements in {
    "a view as our table": ["DROP TABLE responses", "CREATE VIEW responses AS SELECT 1 AS key, 2 AS answer"],
    "a view that never ends": [
        "DROP TABLE meta",
        "CREATE VIEW meta AS WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) "
        "SELECT 'salt' AS name, x AS value FROM n",
    ],
    "a trigger": ["CREATE TRIGGER t AFTER INSERT ON meta BEGIN DELETE FROM responses; END"],
    "an index over an expression": ["CREATE INDEX i ON responses (length(answer))"],
    "a virtual table": ["CREATE VIRTUAL TABLE more USING fts5(a)"],
    "other columns": ["DROP TABLE records", "CREATE TABLE records (key, value, more)"],
    "a check of our columns": ["DROP TABLE meta", "CREATE TABLE meta (name TEXT, value TEXT CHECK (abs(value) > 0))"],
    "another version": ["PRAGMA user_version=7"],
}.items():
    DOOR.add(kind, _database(*statements), 2, says=("x.sqlite", "--store"))
DOOR.add("another program's", _database("CREATE TABLE bookmarks (a)", ours=False), 2, says=("another program's",))
DOOR.add("cut within its first page", _cut(1000), 2, says=("x.sqlite", "--store"))
DOOR.add("ones from the second page on", _cut(4096, b"\xff"), 2, says=("x.sqlite", "--store"))
DOOR.add("zeros behind the header", _cut(100, b"\0"), 2, says=("x.sqlite", "--store"))
DOOR.add("a name that is too long", _named("x" * 300), 2, says=("--store",))
DOOR.add("in a folder that cannot be made", _named("/proc/nowhere/x.sqlite"), 2, says=("--store",))


@DOOR.case(2, says=("--store",))
def below_a_file(folder: Path) -> list[str]:
    (folder / "file").touch()
    return [*_OPENED[:-2], "file/x.sqlite", "--quiet"]


@DOOR.case(4, says=("x.toml", "store"))
def a_name_with_a_nul(folder: Path) -> list[str]:
    (folder / "x.toml").write_text('store = "a\\u0000b"\n')
    return [*_OPENED[:-3], "--config", "x.toml"]
