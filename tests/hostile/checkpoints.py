"""Small checkpoints to make hostile: the fixtures' folders, by links to their files."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

_FIXTURES = Path(__file__).parents[2] / "fixtures"
Make = Callable[[Path], list[str]]
INSPECT = ["inspect", "ckpt", "--open"]


def checkpoint(folder: Path, name: str, *, without: tuple[str, ...] = ()) -> Path:
    """A checkpoint folder ``ckpt`` in ``folder``: the fixture's files, linked, but for some."""
    ckpt = folder / "ckpt"
    ckpt.mkdir(exist_ok=True)
    for file in (_FIXTURES / name).iterdir():
        if file.name not in without:
            (ckpt / file.name).symlink_to(file)
    return ckpt


def content(name: str, file: str) -> Any:
    """A JSON file of a fixture."""
    return json.loads((_FIXTURES / name / file).read_text())


def with_file(name: str, file: str, write: Callable[[Path], object], arguments: list[str] = INSPECT) -> Make:
    """A case: the fixture with one file written anew."""

    def make(folder: Path) -> list[str]:
        write(checkpoint(folder, name, without=(file,)) / file)
        return arguments

    return make


def with_bytes(name: str, file: str, make: Callable[[], bytes], arguments: list[str] = INSPECT) -> Make:
    """A case: the fixture with one file of bytes that are made only when the case runs."""
    return with_file(name, file, lambda path: path.write_bytes(make()), arguments)


def with_text(name: str, file: str, text: str, arguments: list[str] = INSPECT) -> Make:
    """A case: the fixture with one file of another text."""
    return with_file(name, file, lambda path: path.write_text(text), arguments)


def with_json(name: str, file: str, value: Any, arguments: list[str] = INSPECT) -> Make:
    """A case: the fixture with one file of another JSON content."""
    return with_text(name, file, json.dumps(value), arguments)


def with_settings(name: str, place: str, value: Any, arguments: list[str] = INSPECT) -> Make:
    """A case: the fixture with one setting of ``config.json`` changed; dots lead into its parts."""
    config = content(name, "config.json")
    part = config
    *path, last = place.split(".")
    for step in path:
        part = part.setdefault(step, {})
    part[last] = value
    return with_json(name, "config.json", config, arguments)


def sparse(path: Path, head: bytes, size: int) -> None:
    """Write a file of ``size`` bytes that takes a few kilobytes on disk."""
    path.write_bytes(head)
    os.truncate(path, size)
