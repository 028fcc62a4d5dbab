"""Data sets in the formats of others: Donut's metadata.jsonl, parquet and Arrow files."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.hostile.case import Case, Door
from tests.hostile.files import lines, png, sparse

DOOR = Door("data sets")
SECRET = "SecretName"
CONVERT = ["data", "convert", "red", "--out", "new"]
NOTHING = ("red", "no question")
GOOD = {"file_name": "a.png", "ground_truth": json.dumps({"gt_parse": {"total": SECRET}})}

DONUT: dict[str, dict[str, Any]] = {
    "a truth nested 10^5 deep": {"ground_truth": '{"gt_parse":' * 100_000},
    "a truth of 100,000 leaves": {"ground_truth": json.dumps({"gt_parse": {"a": [SECRET] * 100_000}})},
    "a truth of a number": {"ground_truth": 3},
    "a key of a megabyte": {"ground_truth": json.dumps({"gt_parse": {SECRET * 100_000: "1"}})},
    "a value of a megabyte": {"ground_truth": json.dumps({"gt_parse": {"a": SECRET * 100_000}})},
    "a picture outside": {"file_name": f"../../{SECRET}"},
    "a picture with a zero byte": {"file_name": f"{SECRET}\0"},
    "a provider of an object": {"provider": {SECRET: 1}},
    "lines of nothing": {"ground_truth": json.dumps({"gt_parse": {"a": "1"}, "meta": 3, "valid_line": [SECRET]})},
}


def _donut(change: dict[str, Any]) -> Callable[[Path], list[str]]:
    def make(folder: Path) -> list[str]:
        lines(folder / "red/metadata.jsonl", {**GOOD, **change})
        (folder / "red/a.png").write_bytes(png(10, 10))
        return CONVERT

    return make


for _name, _change in DONUT.items():
    DOOR.cases.append(Case(f"Donut: {_name}", DOOR.name, _donut(_change), (3,), NOTHING, (SECRET,)))


def _file(name: str, data: bytes) -> Callable[[Path], list[str]]:
    def make(folder: Path) -> list[str]:
        (folder / "red").mkdir()
        (folder / "red" / name).write_bytes(data)
        return CONVERT

    return make


FILES = {
    "no parquet": ("a.parquet", SECRET.encode() * 99),
    "a footer of two gigabytes": ("a.parquet", b"PAR1" + bytes(99) + b"\xff\xff\xff\x7fPAR1"),
    "a footer of noise": ("a.parquet", b"PAR1" + b"\x19\x5c" * 99 + b"\xc6\x00\x00\x00PAR1"),
    "no Arrow": ("a.arrow", SECRET.encode() * 99),
    "a message of two gigabytes": ("a.arrow", b"\xff\xff\xff\xff\xff\xff\xff\x7f" + bytes(99)),
    "an Arrow file without an end": ("a.arrow", b"ARROW1\0\0" + bytes(99)),
}
for _name, (_file_name, _data) in FILES.items():
    DOOR.cases.append(Case(_name, DOOR.name, _file(_file_name, _data), (3,), NOTHING, (SECRET,)))


@DOOR.case(3, says=NOTHING)
def _a_parquet_of_a_terabyte(folder: Path) -> list[str]:
    sparse(folder / "red/a.parquet", 1 << 40)
    return CONVERT


@DOOR.case(3, says=NOTHING, silent=(SECRET,))
def _a_parquet_that_decompresses_to_gigabytes(folder: Path) -> list[str]:
    import pyarrow as pa
    import pyarrow.parquet as parquet

    (folder / "red").mkdir()
    once = pa.array(["x" * (64 << 20)])
    question = pa.chunked_array([once] * 20)  # one text in memory, twenty in the file
    table = pa.table({"question": question, "image": [SECRET] * 20, "answers": [["1"]] * 20})
    packed = {"compression": "zstd", "use_dictionary": False, "write_statistics": False}  # statistics take 10 s
    parquet.write_table(table, folder / "red/a.parquet", **packed)
    return CONVERT
