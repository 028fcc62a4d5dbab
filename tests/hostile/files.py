"""What many doors write: a good corpus, good forms, a good picture."""

from __future__ import annotations

import json
import os
import socket
import struct
import zlib
from pathlib import Path
from typing import Any

PAGE: dict[str, Any] = {
    "id": "a_1",
    "provider": "Acme",
    "membership": "member",
    "words": ["Acme", "12"],
    "boxes": [[0, 0, 0.5, 0.1], [0, 0.1, 0.5, 0.2]],
    "questions": [{"id": "q", "question": "What is the tax number?", "answers": ["12"]}],
}
FORM: dict[str, Any] = {
    "id": "a_1",
    "words": ["Name:", "Acme"],
    "boxes": [[0, 0, 0.5, 0.1], [0, 0.1, 0.5, 0.2]],
    "fields": [{"id": "f", "label": "answer", "start": 1, "stop": 2}],
}


def lines(path: Path, *rows: object) -> None:
    """Write rows, one a line; texts as they are, other values as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    texts = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    path.write_text("\n".join(texts) + "\n", encoding="utf-8")


def two_providers(folder: Path, *more: object) -> None:
    """A corpus of a member and a non-member, and of other lines."""
    other = {**PAGE, "id": "b_1", "provider": "Other", "membership": "non_member"}
    other["questions"] = [{**PAGE["questions"][0], "id": "r"}]
    lines(folder / "red/corpus.jsonl", PAGE, other, *more)


def png(width: int, height: int, *, rows: bytes | None = None, chunks: bytes = b"") -> bytes:
    """A grey PNG: white, unless ``rows`` (each with its filter byte) are given; ``chunks`` come before the pixels."""
    data = rows if rows is not None else (b"\0" + b"\xff" * width) * height
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunks
        + chunk(b"IDAT", zlib.compress(data, 1))
        + chunk(b"IEND", b"")
    )


def chunk(name: bytes, data: bytes) -> bytes:
    """A chunk of a PNG."""
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def sparse(path: Path, size: int, start: bytes = b"") -> None:
    """A file of zeros that takes no room on the disk."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.write(start)
        file.truncate(size)


def make_socket(path: Path) -> None:
    """Make a socket of the file system."""
    with socket.socket(socket.AF_UNIX) as end:
        here = Path.cwd()
        os.chdir(path.parent)  # the name of a socket may have 107 bytes at most
        try:
            end.bind(path.name)
        finally:
            os.chdir(here)
