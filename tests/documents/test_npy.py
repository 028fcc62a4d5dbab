import datetime
import os
import pickle
import struct
from collections import OrderedDict
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from pfl_audit.documents.npy import read_object_array
from pfl_audit.errors import AuditError


def save(path: Path, *rows: object) -> Path:
    array = np.empty(len(rows), dtype=object)
    array[:] = rows
    np.save(path, array)
    return path


def save_pickle(path: Path, value: bytes) -> Path:
    header = b"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }"
    header += b" " * (-(len(header) + 11) % 64) + b"\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + value)
    return path


def test_reads_plain_records(tmp_path: Path) -> None:
    row = {"question": "Wer?", "answers": ["a", "b"], "boxes": np.eye(2), "n": np.float32(2.5), "t": (1, None, True)}
    rows = read_object_array(save(tmp_path / "x.npy", {"header": 1}, row))
    assert rows[0] == {"header": 1}
    assert rows[1] == {
        "question": "Wer?",
        "answers": ["a", "b"],
        "boxes": [[1, 0], [0, 1]],
        "n": 2.5,
        "t": [1, None, True],
    }


def test_reads_arrays_without_objects(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.arange(3))
    assert read_object_array(tmp_path / "x.npy") == [0, 1, 2]


class _Runs:
    def __reduce__(self) -> tuple[object, ...]:
        return (os.system, ("touch HACKED",))


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (_Runs(), "system"),
        (partial(print, "x"), "functools.partial"),
        (datetime.date(2020, 1, 1), "datetime.date"),
        (OrderedDict(a=1), "collections.OrderedDict"),
        ({1, 2}, "set"),
        (np.random.default_rng(0), "__generator_ctor"),
    ],
)
def test_names_what_is_forbidden_and_runs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: object, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    path = save(tmp_path / "x.npy", {"question": value})
    with pytest.raises(AuditError, match=name):
        read_object_array(path)
    assert not (tmp_path / "HACKED").exists()


@pytest.mark.parametrize("protocol", range(6))
def test_old_and_new_pickle_protocols(tmp_path: Path, protocol: int) -> None:
    array = np.empty(1, dtype=object)
    array[0] = {"a": "ü", "n": 3}
    path = save_pickle(tmp_path / "x.npy", pickle.dumps(array, protocol=protocol))
    assert read_object_array(path) == [{"a": "ü", "n": 3}]


def test_instance_opcode_is_forbidden_too(tmp_path: Path) -> None:
    with pytest.raises(AuditError, match=r"posix\.getpid"):
        read_object_array(save_pickle(tmp_path / "x.npy", b"(iposix\ngetpid\n."))


def test_shared_references_cannot_unfold_without_end(tmp_path: Path) -> None:
    bomb: list[object] = ["x"] * 10
    for _ in range(10):
        bomb = [bomb] * 10
    with pytest.raises(AuditError, match="without end"):
        read_object_array(save(tmp_path / "x.npy", {"a": bomb}))


def test_a_loop_is_an_error(tmp_path: Path) -> None:
    loop: list[object] = []
    loop.append(loop)
    with pytest.raises(AuditError, match="nested too deeply"):
        read_object_array(save(tmp_path / "x.npy", {"a": loop}))


@pytest.mark.parametrize("cut", [0, 5, 40, 100, 150])
def test_a_cut_file_is_one_clear_error(tmp_path: Path, cut: int) -> None:
    path = save(tmp_path / "x.npy", {"a": "b" * 50})
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(AuditError, match=r"x\.npy"):
        read_object_array(path)


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(AuditError, match="cannot be read"):
        read_object_array(tmp_path / "missing.npy")
