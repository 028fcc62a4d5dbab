"""Weights of a checkpoint: ``model.safetensors``, ``pytorch_model.bin`` and their indices."""

from __future__ import annotations

import io
import json
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from tests.hostile.case import Door
from tests.hostile.checkpoints import INSPECT, Make, checkpoint, sparse, with_file

DOOR = Door("weights")
FORMS = "layoutlm-public"
SAFE, BIN, INDEX = "model.safetensors", "pytorch_model.bin", "model.safetensors.index.json"


def _header(path: Path, header: Any, size: int = 0, length: int | None = None) -> None:
    content = header if isinstance(header, bytes) else json.dumps(header).encode()
    head = (len(content) if length is None else length).to_bytes(8, "little") + content
    sparse(path, head, len(head) + size)


def _safe(name: str, header: Any, size: int = 0, length: int | None = None) -> None:
    make = with_file(FORMS, SAFE, lambda path: _header(path, header() if callable(header) else header, size, length))
    DOOR.add(f"safetensors {name}", make, 2, says=(SAFE,))


def _one(dtype: str, shape: Any, size: int) -> dict[str, Any]:
    return {"layoutlm.a": {"dtype": dtype, "shape": shape, "data_offsets": [0, size]}}


_safe("float4", _one("F4", [16], 8), 8)
_safe("float8", _one("F8_E4M3", [8], 8), 8)
_safe("a dtype that is a list", _one(["F32"], [2], 8), 8)  # type: ignore[arg-type]
_safe("an expanded tensor", _one("F32", [1 << 40], 8), 8)
_safe("a shape that overflows", _one("F32", [1 << 32, 1 << 32], 0))
_safe("a negative shape", _one("F32", [-2, -1], 8), 8)
_safe("12 GB of half precision", _one("F16", [6 * 10**9], 12 * 10**9), 12 * 10**9)
_safe("2 GB of half precision", _one("BF16", [10**9], 2 * 10**9), 2 * 10**9)
_safe("bytes that no tensor has", _one("F32", [2], 8), 10**9)
_safe("no bytes", _one("F32", [2], 8))
_safe("a header of 2^63 bytes", b"{}", 0, 1 << 63)
_safe("a header of 90 MB", b"{}", 90 * 10**6, 90 * 10**6)
_safe("a header that is nested", b'{"a":' * 100_000)
_safe("a header of integers", lambda: b'{"a":[' + b"1," * (2 << 20) + b"1]}")
_safe("a header of many tensors", lambda: {f"{n:x}": {"dtype": "U8", "shape": [0], "data_offsets": [0, 0]}
                                           for n in range(120_000)})  # fmt: skip
_safe("a header that is a list", b"[]")
_safe("metadata that are lists", {"__metadata__": {"format": []}})
_safe("names that draw on the terminal", {"\x1b[2J" * 1000: {"dtype": "F0", "shape": [], "data_offsets": [0, 0]}})
DOOR.add(
    "safetensors names no network has",
    with_file(
        FORMS,
        SAFE,
        lambda path: _header(
            path, {"layoutlm." + "\x1b[2J" * 1000: {"dtype": "F32", "shape": [], "data_offsets": [0, 4]}}, 4
        ),
    ),
    2,
    says=("ckpt",),
)
DOOR.add("safetensors whole numbers", with_file(FORMS, SAFE, lambda path: _header(
    path, {"layoutlm.a": {"dtype": "I64", "shape": [1], "data_offsets": [0, 8]}}, 8)), 2, says=("ckpt",))  # fmt: skip


def _archive(
    path: Path, opcodes: bytes, members: dict[str, bytes] | None = None, way: int = zipfile.ZIP_STORED
) -> None:
    with zipfile.ZipFile(path, "w", way, compresslevel=1) as archive:
        archive.writestr("archive/data.pkl", opcodes)
        archive.writestr("archive/version", b"3\n")  # without it torch itself would not look further
        for name, content in (members or {}).items():
            archive.writestr(f"archive/{name}", content)


def _bin(write: Callable[[Path], object], arguments: list[str] = INSPECT) -> Make:
    def make(folder: Path) -> list[str]:
        write(checkpoint(folder, FORMS, without=(SAFE,)) / BIN)
        return arguments

    return make


def _add_bin(name: str, write: Callable[[Path], object]) -> None:
    DOOR.add(f"bin {name}", _bin(write), 2, says=(BIN,))


def _tensor(offset: Any, size: Any, stride: Any, kind: str = "FloatStorage", more: bytes = b"\x89}") -> bytes:
    """A state dict of one tensor with these arguments over the storage "0"."""
    pushed = b"".join(pickle.dumps(value, 2)[2:-1] for value in (offset, size, stride))
    storage = b"(X\x07\0\0\0storagectorch\n" + kind.encode() + b"\nX\x01\0\0\x000X\x03\0\0\0cpuK\x06tQ"
    return b"\x80\x02}X\x01\0\0\0actorch._utils\n_rebuild_tensor_v2\n(" + storage + pushed + more + b"tRs."


_FORGED = {
    "expanded to 2^40 elements": (0, (1 << 40,), (0,)),
    "expanded to 12 GB": (0, (3 * 10**9,), (0,)),
    "expanded in two ways": (0, (1 << 20, 1 << 20), (0, 0)),
    "an offset beyond its storage": (1 << 40, (2,), (1,)),
    "a negative offset": (-6, (2,), (1,)),
    "a negative size": (0, (-2, -3), (3, 1)),
    "a negative stride": (5, (6,), (-1,)),
    "a stride beyond its storage": (0, (2, 3), (1 << 40, 1)),
    "sizes that overflow": (0, (1 << 62, 1 << 62), (1, 1)),
    "no elements of 2^62": (0, (0, 1 << 62), (1, 1)),
    "numbers of 5,000 bits": (1 << 5000, (1 << 5000,), (1,)),
    "floats as size": (0.0, (2.0,), (1.0,)),
    "texts as size": ("0", ("2",), ("1",)),
    "a size that is no tuple": (0, 6, 1),
    "unlike lengths": (0, (2, 3), (1,)),
    "a thousand dimensions": (0, (1,) * 1000, (1,) * 1000),
}
for name, (offset, size, stride) in _FORGED.items():
    _add_bin(name, lambda path, o=offset, z=size, t=stride: _archive(path, _tensor(o, z, t), {"data/0": bytes(24)}))
_add_bin(
    "of quantised numbers", lambda path: _archive(path, _tensor(0, (2,), (1,), "QInt8Storage"), {"data/0": bytes(24)})
)
_add_bin("hooks of code", lambda path: _archive(
    path, _tensor(0, (2,), (1,), more=b"\x89cos\nsystem\n"), {"data/0": bytes(24)}))  # fmt: skip

_PICKLES = {
    "code": b"cos\nsystem\n(S'touch HACKED'\ntR.",
    "code of torch": b"ctorch.hub\nload\n(S'a'\ntR.",
    "a memo of 2^31": b"}r\xff\xff\xff\x7f.",
    "a text of 4 GB": b"X\xff\xff\xff\xffa.",
    "an integer of 2 GB": b"\x8b\xff\xff\xff\x7fa.",
    "bytes of 2^60": b"\x80\x04\x8e" + (1 << 60).to_bytes(8, "little") + b".",
    "a frame of 2^60": b"\x80\x04\x95" + (1 << 60).to_bytes(8, "little") + b"}.",
    "nothing": b"",
    "no end": b"(((((",
    "a table that holds itself": b"\x80\x02}q\x00U\x01ah\x00s.",
    "the table's class": b"ccollections\nOrderedDict\n.",
    "a class that is set": b"ccollections\nOrderedDict\n}U\x08__init__ccollections\nOrderedDict\nsb.",
    "a size of a size": b"ctorch\nSize\n(ctorch\nSize\ntR.",
    "no tensors": b"\x80\x02}U\x01aK\x01s.",
    "a parameter of nothing": b"\x80\x02}U\x01actorch._utils\n_rebuild_parameter\n)Rs.",
    "a storage alone": b"\x80\x02}U\x01a(X\x07\0\0\0storagectorch\nFloatStorage\nX\x01\0\0\x000X\x03\0\0\0cpuK\x06tQs.",
}
for name, opcodes in _PICKLES.items():
    _add_bin(name, lambda path, o=opcodes: _archive(path, o, {"data/0": bytes(24)}))
_add_bin("nested tables", lambda path: _archive(path, b"\x80\x02" + b"(" * 10**6 + b"t" * 10**6 + b"."))
_add_bin("20 MB of opcodes", lambda path: _archive(path, b"\x80\x02" + b"K\x010" * (7 << 20) + b"}."))
_add_bin("15 MB of opcodes", lambda path: _archive(path, b"\x80\x02" + b"]" * (15 << 20) + b"."))
_add_bin("deflated opcodes", lambda path: _archive(path, b"K\x010" * (30 << 20) + b"}.", way=zipfile.ZIP_DEFLATED))
_add_bin("a storage deflated", lambda path: _archive(
    path, _tensor(0, (1 << 26,), (1,)), {"data/0": bytes(1 << 28)}, zipfile.ZIP_DEFLATED))  # fmt: skip
_add_bin("a storage beside it", lambda path: _archive(
    path, _tensor(0, (6,), (1,)), {"data/0": bytes(24), "data/1": bytes(10**7)}))  # fmt: skip
_add_bin("code beside it", lambda path: _archive(path, b"}.", {"code/__torch__.py": b"import os"}))
_add_bin("a name that leads outside", lambda path: _archive(path, b"}.", {"data/../../../etc/passwd": b""}))
_add_bin("big-endian", lambda path: _archive(path, _tensor(0, (6,), (1,)), {"data/0": bytes(24), "byteorder": b"big"}))
_add_bin("no zip", lambda path: path.write_bytes(pickle.dumps({"a": 1})))
_add_bin("zeros", lambda path: sparse(path, b"PK\x03\x04", 3 * 10**9))
_add_bin("200,000 members", lambda path: _members(path, 200_000))


def _members(path: Path, number: int) -> None:
    """A directory of many members, which all begin at 0."""
    start = io.BytesIO()
    with zipfile.ZipFile(start, "w") as archive:
        archive.writestr("archive/data.pkl", b"}.")
    content = start.getvalue()
    begin = content.index(b"PK\x01\x02")
    directory = content[begin : content.index(b"PK\x05\x06")]
    entries = b"".join(directory.replace(b"data.pkl", b"%08d" % index) for index in range(number))
    end = (
        b"PK\x05\x06\0\0\0\0\xff\xff\xff\xff"
        + len(entries).to_bytes(4, "little")
        + begin.to_bytes(4, "little")
        + b"\0\0"
    )
    path.write_bytes(content[:begin] + entries + end)


@DOOR.case(2, says=(BIN,))
def _bin_one_tensor_under_100_000_names(folder: Path) -> list[str]:
    shared = torch.zeros(1 << 18)
    return _bin(lambda path: torch.save(dict.fromkeys(map(str, range(50_000)), shared), path))(folder)


@DOOR.case(2, says=("model-1.safetensors",))
def _an_index_with_one_file_under_many_names(folder: Path) -> list[str]:
    ckpt = checkpoint(folder, FORMS)
    weights = (ckpt / SAFE).rename(ckpt / "model-0.safetensors")
    for number in range(1, 60):
        (ckpt / f"model-{number}.safetensors").symlink_to(weights.readlink())
    names = {str(number): f"model-{number}.safetensors" for number in range(60)}
    (ckpt / INDEX).write_text(json.dumps({"weight_map": names}))
    return INSPECT


def _index(table: Any) -> Make:
    def make(folder: Path) -> list[str]:
        (checkpoint(folder, FORMS, without=(SAFE,)) / INDEX).write_text(json.dumps(table))
        return INSPECT

    return make


_INDICES = {
    "of a device": {"weight_map": {"a": "/dev/zero"}}, "of a folder above": {"weight_map": {"a": "../ckpt"}},
    "of itself": {"weight_map": {"a": "."}}, "of many files": {"weight_map": {str(n): str(n) for n in range(200_000)}},
    "without a map": {"weight_map": []}, "of lists": {"weight_map": {"a": []}}, "of nothing": {"weight_map": {"a": ""}},
    "of a name with NUL": {"weight_map": {"a": "a\0b"}}, "nested": {"weight_map": {"a": "a" * 5000}},
}  # fmt: skip
for name, table in _INDICES.items():
    DOOR.add(f"index {name}", _index(table), 2, says=(INDEX,))
DOOR.add("index of an empty map", _index({"weight_map": {}}), 2, says=("ckpt",))
