"""Provider maps and label files beside an imdb file."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

from tests.hostile.case import Door
from tests.hostile.imdb_files import COMMAND, PAGE, corpus, record

DOOR = Door("provider maps")
SECRET = "SecretName GmbH"
DOCUMENT = PAGE.split("_", 1)[0]
MAPS = (
    "doc2provider.json",
    "red_doc2provider.json",
    "provider2docs.json",
    "data_points.json",
    "centralized_data_points.json",
    "SaTML_PMIA_label.json",
)


def _beside(file: str, place: Callable[[Path], None]) -> Callable[[Path], list[str]]:
    def make(folder: Path) -> list[str]:
        corpus(folder, record(provider=None))
        place(folder / "red" / file)
        return COMMAND

    return make


def _sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 30)


def _holds(content: bytes) -> Callable[[Path], None]:
    def place(path: Path) -> None:
        path.write_bytes(content)

    return place


FILES: dict[str, Callable[[Path], None]] = {
    "pipe": os.mkfifo,
    "link to /dev/zero": lambda path: path.symlink_to("/dev/zero"),
    "link to itself": lambda path: path.symlink_to(path.name),
    "file of 1 GiB": _sparse,
    "list": _holds(b"[1]"),
    "number": _holds(b"3"),
    "number of 5,000 digits": _holds(b"9" * 5000),
    "no JSON": _holds(f"{{'{SECRET}'".encode()),
    "no UTF-8": _holds(b'{"\xff": 1}'),
    "nested 100,000 times": _holds(b'{"a":' * 100_000),
    "lists nested 100,000 times": _holds(b"[" * 100_000),
    "empty": _holds(b""),
}
for _file in MAPS:
    for _kind, _place in FILES.items():
        DOOR.add(f"{_kind} as {_file}", _beside(_file, _place), 2, says=(_file,))

CONTENTS: dict[str, tuple[str, object]] = {
    "provider that is a number": ("doc2provider.json", {SECRET: 3}),
    "provider that is half of a character": ("doc2provider.json", {SECRET: "\ud800"}),
    "documents that are a text": ("provider2docs.json", {SECRET: SECRET}),
    "documents that are lists": ("provider2docs.json", {SECRET: [[SECRET]]}),
    "rows that are texts": ("data_points.json", {"client_0": {SECRET: [SECRET]}}),
    "row of 5,000 digits": ("data_points.json", {"client_0": {SECRET: ["9" * 5000]}}),
    "rows that are no list": ("centralized_data_points.json", {SECRET: {"a": 1}}),
    "labels that are a list": ("SaTML_PMIA_label.json", {"dp": [SECRET]}),
}
for _name, (_file, _content) in CONTENTS.items():
    DOOR.add(_name, _beside(_file, _holds(json.dumps(_content).encode())), 2, says=(_file,))


@DOOR.case(3, says=("holds no record that can be used",), silent=("SecretName",))
def _provider_of_a_million_letters(folder: Path) -> list[str]:
    return _beside("doc2provider.json", _holds(json.dumps({DOCUMENT: SECRET * 66_667}).encode()))(folder)


@DOOR.case(3, says=("holds no record that can be used",))
def _provider_of_blanks(folder: Path) -> list[str]:
    return _beside("doc2provider.json", _holds(json.dumps({DOCUMENT: "  "}).encode()))(folder)


@DOOR.case(0)
def _byte_order_mark(folder: Path) -> list[str]:
    return _beside("doc2provider.json", _holds(b"\xef\xbb\xbf" + json.dumps({DOCUMENT: "Acme"}).encode()))(folder)
