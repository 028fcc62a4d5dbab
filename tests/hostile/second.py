"""What the second corpus makes its hostile files from: sound checkpoints, corpora, forms and runs to be spoilt.

The second corpus (``second_*.py``) was written from the documentation alone, without a look at the program.
"""

from __future__ import annotations

import json
import pickle
import shutil
import struct
import warnings
import zipfile
import zlib
from pathlib import Path
from typing import Any

FIXTURES = Path(__file__).parents[2] / "fixtures"
VT5, DONUT, LAYOUTLM = "vt5-finetuned", "donut", "layoutlm-private"


def write(path: Path, data: bytes | str) -> Path:
    """Write a file, and the folders above it; a lone surrogate is written as its three bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data if isinstance(data, bytes) else data.encode("utf-8", "surrogatepass"))
    return path


def lines(path: Path, rows: list[Any]) -> Path:
    """Write a line of JSON for each row."""
    return write(path, "".join(json.dumps(row) + "\n" for row in rows))


def sparse(path: Path, size: int, head: bytes = b"", tail: bytes = b"") -> Path:
    """Write a file that is large, and small on disk."""
    write(path, head)
    with path.open("r+b") as file:
        file.truncate(size)
        file.seek(size - len(tail))
        file.write(tail)
    return path


# Checkpoints


def checkpoint(folder: Path, fixture: str, *without: str) -> Path:
    """Copy an embedded checkpoint to ``ckpt``, but for some of its files."""
    target = folder / "ckpt"
    shutil.copytree(FIXTURES / fixture, target, ignore=shutil.ignore_patterns("adapters", *without))
    return target


def settings(file: Path, changes: dict[str, Any]) -> None:
    """Change keys of a JSON file; a key such as "encoder.depths" is inside another."""
    found = json.loads(file.read_text())
    for name, value in changes.items():
        *above, last = name.split(".")
        place = found
        for part in above:
            place = place[part]
        place[last] = value
    write(file, json.dumps(found))


def configured(folder: Path, fixture: str, changes: dict[str, Any], file: str = "config.json") -> list[str]:
    """Inspect a checkpoint in one of whose JSON files some keys differ."""
    settings(checkpoint(folder, fixture) / file, changes)
    return ["inspect", "ckpt", "--open"]


def header_of(file: Path) -> tuple[dict[str, Any], bytes]:
    """Header and data of a safetensors file."""
    data = file.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    return json.loads(data[8 : 8 + length]), data[8 + length :]


def safetensors(header: dict[str, Any] | bytes, data: bytes = b"") -> bytes:
    """A safetensors file."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


# Pickles, put together from opcodes


def value(thing: Any) -> bytes:
    """Opcodes that push a plain value."""
    return pickle.dumps(thing, 3)[2:-1]


def name(module: str, what: str) -> bytes:
    """Opcodes that push a global."""
    return f"c{module}\n{what}\n".encode()


def several(*items: bytes) -> bytes:
    """Opcodes that push a tuple."""
    return b"(" + b"".join(items) + b"t"


def call(function: bytes, *arguments: bytes) -> bytes:
    """Opcodes that call what ``function`` pushes."""
    return function + several(*arguments) + b"R"


def pickled(body: bytes, protocol: int = 4) -> bytes:
    """A pickle of opcodes."""
    return b"\x80" + bytes([protocol]) + body + b"."


TOUCH = call(name("os", "system"), value("touch marker"))
"""Makes the file "marker" in the working folder if it is ever run."""


def npy(pickle_or_data: bytes, shape: str = "(2,)", descr: str = "'|O'") -> bytes:
    """An .npy file of version 1."""
    text = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}".encode()
    text += b" " * (-(len(text) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + pickle_or_data


def imdb(folder: Path, data: bytes) -> list[str]:
    """Check a corpus of one imdb file."""
    write(folder / "data" / "red_test_positive.npy", data)
    return ["data", "check", "data"]


def records(rows: list[Any]) -> bytes:
    """An imdb file of these rows, behind a header row."""
    import numpy

    array = numpy.empty(len(rows) + 1, dtype=object)
    array[:] = [{"creation_time": "", "version": "1.0", "dataset": "pfl-docvqa"}, *rows]
    return npy(pickle.dumps(array, 4), shape=f"({len(rows) + 1},)")


# Corpora and forms


def page(number: int = 1, **changes: Any) -> dict[str, Any]:
    """A page of the safe format, as the format asks for."""
    return {
        "id": f"{number:024x}_1",
        "provider": "Acme Media" if number % 2 else "Bolt Works",
        "membership": "member" if number % 2 else "non_member",
        "split": "red_test_positive" if number % 2 else "red_test_negative",
        "words": ["Acme", "Media", "Total", "12.00"],
        "boxes": [[0.1, 0.1, 0.2, 0.12], [0.21, 0.1, 0.3, 0.12], [0.1, 0.3, 0.2, 0.32], [0.3, 0.3, 0.4, 0.32]],
        "image": "images/page.png",
        "questions": [
            {
                "id": f"q{number}",
                "key": "provider_name",
                "question": "Who issued this?",
                "answers": ["acme media" if number % 2 else "bolt works"],
            }
        ],
    } | changes


def corpus(folder: Path, pages: list[Any]) -> list[str]:
    """Check a corpus of these pages, which share one picture."""
    picture(folder / "red" / "images" / "page.png")
    lines(folder / "red" / "corpus.jsonl", pages)
    return ["data", "check", "red"]


def form(number: int = 1, **changes: Any) -> dict[str, Any]:
    """A form of the safe format, as the format asks for."""
    return {
        "id": f"{number:016x}_1",
        "words": ["Name:", f"Ada{number}", f"Moon{number}"],
        "boxes": [[0.1, 0.1, 0.2, 0.12], [0.3, 0.1, 0.35, 0.12], [0.36, 0.1, 0.42, 0.12]],
        "fields": [
            {"id": "q1", "label": "question", "start": 0, "stop": 1},
            {"id": "a1", "label": "answer", "start": 1, "stop": 3},
        ],
        "links": [["q1", "a1"]],
    } | changes


def forms(folder: Path, rows: list[Any]) -> list[str]:
    """Check forms of the safe format."""
    lines(folder / "forms" / "forms.jsonl", rows)
    (folder / "forms" / "images").mkdir()
    return ["data", "check", "forms"]


# Pictures


def chunk(kind: bytes, data: bytes) -> bytes:
    """A chunk of a PNG."""
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(width: int, height: int, *chunks: bytes, depth: int = 8, colour: int = 0, data: bytes | None = None) -> bytes:
    """A white PNG, in grey unless told otherwise; chunks come before its data."""
    if data is None:
        data = zlib.compress((b"\x00" + b"\xff" * ((width * depth + 7) // 8)) * height, 9)
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + b"".join(chunks) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def picture(path: Path, width: int = 64, height: int = 80) -> Path:
    """A white page."""
    return write(path, png(width, height))


# SuffixAutomaton


def run(folder: Path, name: str = "given/run", **changes: Any) -> Path:
    """The results.json of a finished run, as the schema asks for, in its folder."""
    found = {
        "schema_version": "1",
        "title": "Membership",
        "verdict": {"status": "no-evidence", "gate": {"fail_on": "leak", "over": []}, "summary": "No leak found."},
        "target": {"family": "vt5", "path": "ckpt", "sha256": "0" * 64, "parameters": 1},
        "data": {"format": "corpus.jsonl", "path": "red", "sha256": "0" * 64, "documents": 1, "queries": 1},
        "checks": [check()],
        "provenance": {
            "command": "pfl-audit mia", "version": "0.1.0", "packages": {}, "seed": 0, "started": "2026-01-01T00:00:00",
            "seconds": 1.0, "resumed": False, "revealed": False,
        },
    } | changes  # fmt: skip
    write(folder / name / "results.json", json.dumps(found))
    return folder / name


def check(**changes: Any) -> dict[str, Any]:
    """A check of a run, as the schema asks for."""
    return {
        "id": "membership.azk",
        "family": "membership",
        "title": "AZK",
        "status": "ran",
        "metrics": [{"name": "balanced accuracy", "value": 0.5, "ci": [0.4, 0.6], "chance": 0.5}],
        "finding": {"level": "none", "text": "nothing", "remedy": "nothing", "metric": "balanced accuracy"},
    } | changes


def zipped(path: Path, entries: list[tuple[str, bytes]]) -> Path:
    """A zip file of stored entries, in torch's manner; names may come twice."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with warnings.catch_warnings(), zipfile.ZipFile(path, "w") as file:
        warnings.simplefilter("ignore")  # of names that come twice
        for entry, data in entries:
            file.writestr(zipfile.ZipInfo(entry), data)
    return path
