"""Pickled object arrays: forged states of numpy's objects, promises of sizes, floods of opcodes."""

from __future__ import annotations

import io
import pickle
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

from tests.hostile.case import Door
from tests.hostile.imdb_files import (
    FILE,
    OBJECT_STATE,
    array,
    called,
    dtype,
    headed,
    name,
    npy,
    one,
    plain,
    put,
    record,
    rows,
    table,
)

DOOR = Door("imdb")
BILLION = 10**9
POINTERS = struct.pack("<4Q", *[0x4141414141414141] * 4)
OBJECTS = dtype("O8", OBJECT_STATE)
FORGED = dtype("O8", (3, "|", None, None, None, -1, -1, 0))
BEYOND = (
    b"(" + plain(3) + plain("|") + b"N" + plain(("a",))
    + b"}" + plain("a") + b"(" + OBJECTS + plain(1 << 20) + b"ts" + plain(8) + plain(1) + plain(0) + b"t"
)  # fmt: skip
SCALAR = name("numpy.core.multiarray", "scalar")
NDARRAY = name("numpy", "ndarray")
RECONSTRUCT = name("numpy.core.multiarray", "_reconstruct")


def _colliding(count: int) -> bytes:
    """A dict of integers of one hash, as pickle writes it; making the dict itself here would take seconds."""
    keys = [number * ((1 << 61) - 1) for number in range(1, count + 1)]
    batches = [keys[start : start + 1000] for start in range(0, count, 1000)]
    return b"}q\x00" + b"".join(b"(" + b"".join(plain(key) + plain(0) for key in batch) + b"u" for batch in batches)


def _bomb() -> bytes:
    """Ten lists, each of ten times the one before it."""
    made = b"](" + plain("x") * 10 + b"e"
    for _ in range(10):
        made = b"](" + made + b"2" * 9 + b"e"
    return made


def _squashed(content: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as file:
        file.writestr("arr_0.npy", content)
    return out.getvalue()


FILES: dict[str, bytes | Callable[[], bytes]] = {
    # memory that is not the file's
    "object dtype without its flag": one(array(FORGED, (4,), plain(POINTERS))),
    "object dtype without its flag, whole file": npy(array(FORGED, (4,), plain(POINTERS)) + b".", shape=(4,)),
    "object dtype over bytes": one(array(OBJECTS, (4,), plain(POINTERS))),
    "field beyond the item": one(array(dtype("V8", BEYOND), (1,), plain(POINTERS[:8]))),
    "void scalar of objects": one(called(SCALAR, dtype("V8", BEYOND), plain(POINTERS[:8]))),
    "object scalar over bytes": one(called(SCALAR, OBJECTS, plain(POINTERS[:8]))),
    "ndarray over a buffer": one(called(NDARRAY, plain((4,)), OBJECTS, plain(POINTERS))),
    "ndarray with strides": one(
        called(NDARRAY, plain((8,)), dtype("f8"), plain(bytes(8)), plain(0), plain((1 << 40,)))
    ),
    "dtype of a comma text": one(array(dtype("O,O"), (1,), plain(POINTERS[:16]))),
    "dtype of a list": one(array(dtype([("a", "O")]), (1,), plain(POINTERS[:8]))),
    "dtype that changes after the array is made": one(
        b"}" + plain("a") + array(dtype("f8") + b"q\xfe", (1,), plain(bytes(8))) + b"s"
        + plain("b") + b"h\xfe" + plain((3, "|", None, None, None, 1 << 40, 1, 63)) + b"bs"
    ),
    "array in the place of a dtype": one(array(array(dtype("f8"), (0,), plain(b"")), (1,), plain(bytes(8)))),
    "array of a subarray": one(
        array(dtype("V8", (3, "|", ("f8", (BILLION,)), None, None, 8, 1, 0)), (1,), plain(bytes(8)))
    ),
    "data of a list for numbers": one(array(dtype("f8"), (1,), plain([1.0]))),
    "data of an array for objects": one(array(OBJECTS, (1,), array(dtype("f8"), (1,), plain(bytes(8))))),
    # sizes that are only promised
    "billion objects at once": npy(array(OBJECTS, (BILLION,), b"N", first=(BILLION,), letter="O") + b"."),
    "billion objects in the state": npy(array(OBJECTS, (BILLION,), b"](Ne") + b".", shape=(BILLION,)),
    "billion objects in the header": npy(rows(b"N"), shape=(BILLION,)),
    "shape with a billion and none": one(array(dtype("f8"), (BILLION, 0), plain(b""))),
    "shape with none and a billion": one(array(dtype("f8"), (0, BILLION, BILLION, BILLION), plain(b""))),
    "negative shape": one(array(dtype("f8"), (-1,), plain(bytes(8)))),
    "two negative sizes": one(array(dtype("f8"), (-1, -1), plain(bytes(8)))),
    "shape of texts": one(array(dtype("f8"), ("1",), plain(bytes(8)))),
    "shape of sixty dimensions": one(array(dtype("f8"), (1,) * 60, plain(bytes(8)))),
    "array without dimensions": one(array(OBJECTS, (), plain([1] * 1000))),
    "stride of zero": one(called(NDARRAY, plain((BILLION,)), dtype("f8"), plain(bytes(8)), plain(0), plain((0,)))),
    "memo index of 2**30": npy(b"Nr" + struct.pack("<I", 1 << 30) + b"."),
    "bytes of 2**60": npy(b"\x8e" + struct.pack("<Q", 1 << 60)),
    "bytes of 2**34": npy(b"\x8e" + struct.pack("<Q", 1 << 34)),
    "bytearray of 2**34": npy(b"\x96" + struct.pack("<Q", 1 << 34)),
    "text of 2**34": npy(b"\x8d" + struct.pack("<Q", 1 << 34)),
    "frame of 2**34": npy(b"\x80\x04\x95" + struct.pack("<Q", 1 << 34)),
    "header of a plain array of 2**60": npy(b"\0" * 8, descr="<f8", shape=(1 << 60,)),
    "header with a negative shape": npy(b"\0" * 8, descr="<f8", shape=(-1,)),
    "header with a shape of true": npy(b"\0" * 8, descr="<f8", shape=(True,)),
    "billion items of V0": npy(b"", descr="|V0", shape=(BILLION,)),
    "billion items of S0": npy(b"", descr="|S0", shape=(BILLION,)),
    "billion items of U0": npy(b"", descr="<U0", shape=(BILLION,)),
    "billion items of V0 in a field": one(array(dtype("V0"), (BILLION,), plain(b""))),
    "billion items of S0 in a field": one(array(dtype("S0"), (BILLION,), plain(b""))),
    "billion items of U0 in a field": one(array(dtype("U0"), (BILLION,), plain(b""))),
    # floods
    "16 MB of empty dicts as rows": lambda: npy(
        array(OBJECTS, (1 << 24,), b"](" + b"}" * (1 << 24) + b"e") + b".", shape=(1 << 24,)
    ),
    "16 MB of empty lists in a field": lambda: one(b"](" + b"]" * (1 << 24) + b"e"),
    "16 MB of marks": lambda: npy(b"(" * (1 << 24) + b"."),
    "half a million calls": lambda: npy(
        name("numpy", "dtype") + b"q\x00" + plain(("f4", False, True)) + b"q\x01" + b"h\x00h\x01R0" * 500_000 + b"."
    ),
    "lists 100,000 deep": one(b"]" * 100_000 + b"a" * 99_999),
    "tuples 100,000 deep": one(b")" + b"\x85" * 100_000),
    "a list that holds itself": one(b"]q\xf02a"),
    "a list that holds itself ten times": one(b"]q\xf0(" + b"h\xf0" * 10 + b"e"),
    "shared lists that unfold": one(_bomb()),
    "shared lists that unfold, all rows": table(b"](" + plain(0) * 20_000 + b"eq\xf0", *[b"h\xf0"] * 200_000),
    "keys that collide": table(_colliding(9_999)),
    "integer of 4 MB": lambda: npy(b"\x8b" + struct.pack("<i", 1 << 22) + b"\x7f" * (1 << 22) + b"."),
    "integer of 100,000 digits": npy(b"I" + b"9" * 100_000 + b"\n."),
    # other programs
    "global with escape codes": npy(name("os\x1b[2J", "system") + b")R."),
    "name of a global of 1 MB": npy(name("os", "x" * (1 << 20)) + b")R."),
    "instance": npy(b"(iposix\ngetpid\n."),
    "object": npy(b"(" + name("builtins", "list") + b"o."),
    "extension": npy(b"\x82\x01."),
    "persistent id": npy(b"P1\n."),
    "persistent id from the stack": npy(b"NQ."),
    "state for a global": npy(RECONSTRUCT + b"}" + plain("__code__") + b"Nsb."),
    "attributes for a global": npy(RECONSTRUCT + b"(N}" + plain("__call__") + b"Nstb."),
    "new object of a global": npy(NDARRAY + b")\x81."),
    "codec that is none": npy(called(name("_codecs", "encode"), plain("00"), plain("hex")) + b"."),
    "next buffer": npy(b"\x97."),
    "set": one(b"\x8f(" + plain(1) + b"\x90"),
    "bytearray": one(b"\x96" + struct.pack("<Q", 3) + b"abc"),
    "date": one(array(dtype("M8[s]"), (1,), plain(bytes(8)))),
    "complex": one(array(dtype("c16"), (1,), plain(bytes(16)))),
    "text beyond Unicode": one(array(dtype("U1"), (1,), plain(b"\xff\xff\xff\xff"))),
    "keys that are no texts": table(plain({1: 2})),
    "an inert object as a key": table(b"}" + dtype("f4") + b"Ns"),
    # files
    "empty file": b"",
    "text": b"hello\n",
    "only the magic": b"\x93NUMPY",
    "version 9": headed(b"{}", version=b"\x09\x00"),
    "header of nothing": headed(b""),
    "header without a shape": headed(b"{'descr': '|O', 'fortran_order': False}"),
    "header of 60,000 brackets": headed(b"(" * 60_000),
    "header of 5,000 brackets": headed(b"(" * 5_000),
    "header that is a call": headed(b"__import__('os').system('id')"),
    "header of 4 GB": b"\x93NUMPY\x02\x00\xff\xff\xff\xff{",
    "structured file": npy(bytes(16), descr=[("a", "<f8")], shape=(2,)),
    "file of pointers": npy(POINTERS, descr="|V8", shape=(4,)),
    "header of objects and no pickle": npy(b""),
    "pickle of no array": npy(plain({"a": 1}) + b"."),
    "zip": _squashed(table(b"N")),
    "pickle without a header": pickle.dumps([record()]),
    "two million rows": lambda: npy(
        array(OBJECTS, (2_000_000,), b"](" + b"N" * 2_000_000 + b"e") + b".", shape=(2_000_000,)
    ),
    "plain array of 8 MB of bytes": lambda: npy(b"a" * (1 << 23), descr="|S1", shape=(1 << 23,)),
}  # fmt: skip


def _writes(content: bytes | Callable[[], bytes], command: list[str] | None = None) -> Callable[[Path], list[str]]:
    def make(folder: Path) -> list[str]:
        checked = put(folder, content if isinstance(content, bytes) else content())
        return command or checked

    return make


for _name, _content in FILES.items():
    DOOR.add(_name, _writes(_content), 2, says=(FILE,))
_MIA = ["mia", "--model", "m", "--red", "red", "--out", "o"]
for _name in ("object dtype without its flag", "billion items of V0", "memo index of 2**30"):
    DOOR.add(f"{_name}, mia", _writes(FILES[_name], _MIA), 2, says=(FILE,))
