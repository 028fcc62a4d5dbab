"""Makes imdb files: genuine records, and pickles written opcode by opcode."""

from __future__ import annotations

import pickle
import struct
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

FILE = "imdb_red.npy"
PAGE = f"{'0' * 23}1_1"
COMMAND = ["data", "check", "red"]
OBJECT_STATE = (3, "|", None, None, None, -1, -1, 63)
PLAIN_STATE = (3, "<", None, None, None, -1, -1, 0)


def npy(data: bytes, *, descr: object = "|O", shape: object = (1,), **more: object) -> bytes:
    """An ``.npy`` file whose header says what it is told to say."""
    return headed(repr({"descr": descr, "fortran_order": False, "shape": shape, **more}).encode(), data)


def headed(header: bytes, data: bytes = b"", version: bytes = b"\x01\x00") -> bytes:
    """An ``.npy`` file with this header."""
    return b"\x93NUMPY" + version + struct.pack("<H", len(header)) + header + data


def put(folder: Path, content: bytes, name: str = FILE) -> list[str]:
    """Write an imdb file; the command that checks it."""
    (folder / "red").mkdir(exist_ok=True)
    (folder / "red" / name).write_bytes(content)
    return COMMAND


def record(**changes: object) -> dict[str, object]:
    """A record that can be used, but for the changes."""
    row: dict[str, object] = {
        "question": "What is the total?",
        "answers": "12.50",
        "image_name": PAGE,
        "ocr_tokens": ["Acme", "12.50"],
        "ocr_normalized_boxes": [[0.1, 0.1, 0.2, 0.2], [0.3, 0.1, 0.5, 0.2]],
        "set_name": "red_test_positive",
        "provider": "Acme",
    }
    return {**row, **changes}


def corpus(folder: Path, *rows: object) -> list[str]:
    """Write a folder with these records and one page image; the command that checks it."""
    array = np.empty(len(rows), dtype=object)
    array[:] = rows
    (folder / "red/images").mkdir(parents=True, exist_ok=True)
    np.save(folder / "red" / FILE, array)
    Image.new("RGB", (20, 30)).save(folder / f"red/images/{PAGE}.png")
    return COMMAND


def plain(value: Any) -> bytes:
    """The opcodes of a plain value."""
    return pickle.dumps(value, 3)[2:-1]


def name(module: str, qualified: str) -> bytes:
    """The opcode that asks for a global."""
    return f"c{module}\n{qualified}\n".encode()


def called(function: bytes, *arguments: bytes) -> bytes:
    """A call of what ``function`` leaves on the stack."""
    return function + b"(" + b"".join(arguments) + b"tR"


def dtype(letters: object, state: bytes | tuple[object, ...] = PLAIN_STATE) -> bytes:
    """A dtype with the state of one's choice."""
    made = called(name("numpy", "dtype"), plain(letters), plain(False), plain(True))
    return made + (state if isinstance(state, bytes) else plain(state)) + b"b"


def array(kind: bytes, shape: object, data: bytes, first: object = (0,), letter: object = b"b") -> bytes:
    """An array with the state of one's choice."""
    empty = called(name("numpy.core.multiarray", "_reconstruct"), name("numpy", "ndarray"), plain(first), plain(letter))
    return empty + b"(" + plain(1) + plain(shape) + kind + plain(False) + data + b"tb"


def rows(*values: bytes) -> bytes:
    """A pickle of an array of objects."""
    return array(dtype("O8", OBJECT_STATE), (len(values),), b"](" + b"".join(values) + b"e") + b"."


def table(*values: bytes) -> bytes:
    """An imdb file of these rows."""
    return npy(rows(*values), shape=(len(values),))


def one(value: bytes) -> bytes:
    """An imdb file of one record, one field of which is this value."""
    return table(b"}" + plain("ocr_normalized_boxes") + value + b"s")
