import contextlib
import datetime
import gc
import json
import os
import pickle
import resource
import struct
import uuid
from collections import OrderedDict
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pfl_audit.documents.npy import read_object_arrays
from pfl_audit.documents.npy_rows import SHARED, next_rows
from pfl_audit.errors import AuditError, UsageError
from pfl_audit.sandbox import RefusedError, SandboxError
from tests.oracles.imdb import read_object_array as numpy_reads


def read_object_array(path: Path) -> list[Any]:
    return [element for _, _, element in read_object_arrays([path])]


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
    rows[1]["boxes"] = rows[1]["boxes"].tolist()
    assert rows[1] == {
        "question": "Wer?",
        "answers": ["a", "b"],
        "boxes": [[1, 0], [0, 1]],
        "n": 2.5,
        "t": [1, None, True],
    }


def plainly(value: Any) -> Any:
    """The value with lists in the place of arrays."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, dict):
        return {key: plainly(part) for key, part in value.items()}
    return [plainly(part) for part in value] if isinstance(value, list) else value


def nested_objects() -> np.ndarray:
    array = np.empty((2, 2), dtype=object)
    array[:] = [["a", 1], [None, [2.5]]]
    return array


FIELDS = [
    np.linspace(0, 1, 12, dtype=np.float32).reshape(3, 4),
    np.asfortranarray(np.arange(6, dtype=">f8").reshape(2, 3)),
    np.zeros((0, 4), np.float16),
    np.arange(3, dtype=np.float64),
    np.array(2.5),
    [np.array([0.5, 1], np.float32)] * 3,
    [(0.1, 0.2), [0.3, 0.4]],
    ([0.1], (0.2,)),
    [[np.float32(0.5), np.float16(0.25)], [np.float64(1), np.int64(-7)]],
    [np.str_("straße\U0001f600"), np.str_(""), np.bytes_(b"ab"), np.bool_(True)],
    np.array(["a", "straße", ""]),
    np.array(["a", "bc"]).astype(">U3"),
    np.array([b"a", b"bcd"]),
    np.array([[True, False]]),
    np.array([[1, -2]], dtype=">i2"),
    np.array([2**64 - 1], dtype=np.uint64),
    nested_objects(),
    {"a": {"b": (None, True, 10**30, b"x")}},
    [],
    {},
]


@pytest.mark.sampled(12)
@pytest.mark.parametrize("protocol", [2, 3, 4])
@pytest.mark.parametrize("core", [b"numpy._core", b"numpy.core"])
@pytest.mark.parametrize("field", FIELDS, ids=lambda field: type(field).__name__)
def test_genuine_values_are_those_that_numpy_reads(tmp_path: Path, field: Any, core: bytes, protocol: int) -> None:
    array = np.empty(1, dtype=object)
    array[0] = {"field": field, "again": field}
    content = pickle.dumps(array, protocol)
    if b"__builtin__" in content:
        pytest.skip("in protocol 2 empty bytes are a call of bytes, which is not read")
    if protocol < 4:  # later ones write how long a name is
        content = content.replace(b"numpy._core", core)
    path = save_pickle(tmp_path / "x.npy", content)
    assert plainly(read_object_array(path)) == numpy_reads(path)


def test_protocol_5_writes_arrays_in_another_way(tmp_path: Path) -> None:
    array = np.empty(1, dtype=object)
    array[0] = {"boxes": np.eye(3, 4, dtype=np.float32), "n": np.arange(2)}
    (row,) = read_object_array(save_pickle(tmp_path / "x.npy", pickle.dumps(array, protocol=5)))
    assert plainly(row) == {"boxes": np.eye(3, 4).tolist(), "n": [0, 1]}


def test_what_records_share_is_shared(tmp_path: Path) -> None:
    words = ["a", "b"]
    first, second = read_object_array(save(tmp_path / "x.npy", {"words": words}, {"words": words}))
    assert first["words"] is second["words"]


def test_many_rows_come_in_pieces(tmp_path: Path) -> None:
    rows = [{"text": f"{number} " + "x" * 3_000_000} for number in range(12)]
    assert read_object_array(save(tmp_path / "x.npy", *rows)) == rows


@pytest.mark.parametrize("number", [-1, 1, "0", None, 0.0])
def test_a_row_shares_the_values_of_earlier_ones_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: object
) -> None:
    pieces = iter([[{"a": ["x"]}, {"b": {SHARED: number}}], None])
    monkeypatch.setattr("pfl_audit.documents.npy.Sandbox.call", lambda *_: next(pieces))
    assert read_object_array(save(tmp_path / "x.npy", {})) == [{"a": ["x"]}, {"b": {SHARED: number}}]


@pytest.mark.parametrize("forged", [3, "rows", {"a": 1}])
def test_forged_rows_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forged: object) -> None:
    monkeypatch.setattr("pfl_audit.documents.npy.Sandbox.call", lambda *_: forged)
    with pytest.raises(AuditError, match="cannot be read: it is damaged"):
        read_object_array(save(tmp_path / "x.npy", {}))


def test_a_file_that_takes_too_long_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def call(*_: object) -> None:
        raise SandboxError("time")

    monkeypatch.setattr("pfl_audit.documents.npy.Sandbox.call", call)
    with pytest.raises(AuditError, match=r"x\.npy cannot be read: it takes longer than a file of its size may take"):
        read_object_array(save(tmp_path / "x.npy", {}))


def test_several_files(tmp_path: Path) -> None:
    files = [save(tmp_path / f"{name}.npy", {"a": name}, {"b": name}) for name in "xy"]
    found = list(read_object_arrays(files))
    assert found == [(file, row, {"ab"[row]: file.stem}) for file in files for row in (0, 1)]
    assert not list(read_object_arrays([]))


_GENUINE = [
    {"question": "Who?", "n": np.float32(1), "words": np.array(["a", "b"]), "boxes": np.eye(2, 4, dtype=np.float32)},
    {"question": "What?", "answers": ["a", "ü"], "boxes": [[0.5, 0.25], [1, 2**40]], "more": (None, np.str_("x"))},
]


@given(data=st.data())
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_file_with_other_bytes_is_read_or_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: st.DataObject
) -> None:
    class Here:
        """The child's function in this process: 150 children would take a minute."""

        def __init__(self, *_: object, **__: object) -> None: ...

        def __enter__(self) -> "Here":
            return self

        def __exit__(self, *_: object) -> None: ...

        def call(self, *file: BinaryIO) -> Any:
            before = resource.getrlimit(resource.RLIMIT_AS)
            used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (used + (256 << 20), before[1]))
            try:
                return next_rows(*file)
            except (RefusedError, RecursionError) as error:
                raise SandboxError("refused", str(error)) from error
            except Exception as error:
                raise SandboxError("ended", type(error).__name__) from error
            finally:
                resource.setrlimit(resource.RLIMIT_AS, before)

    monkeypatch.setattr("pfl_audit.documents.npy.Sandbox", Here)
    path = save(tmp_path / f"{uuid.uuid4()}.npy", *_GENUINE)
    content = bytearray(path.read_bytes())
    places = st.integers(0, len(content) - 1)
    for at, value in data.draw(st.lists(st.tuples(places, st.integers(0, 255)), min_size=1, max_size=4)):
        content[at] = value
    if data.draw(st.booleans()):
        at, length = data.draw(places), data.draw(st.integers(0, 40))
        content[at : at + length] = data.draw(st.binary(max_size=40))
    path.write_bytes(content)
    with contextlib.suppress(AuditError):
        for row in read_object_array(path):
            json.dumps(plainly(row), default=repr)
    gc.enable()


def test_a_large_number_in_the_memo_costs_no_memory(tmp_path: Path) -> None:
    """Python's unpickler makes room for as many objects as the number says."""
    path = save_pickle(tmp_path / "x.npy", b"\x80\x02]r" + struct.pack("<I", 1_600_000_000) + b".")
    with pytest.raises(AuditError, match="needs more memory than a file of its size may use"):
        read_object_array(path)


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
        (partial(len, "x"), "functools.partial"),
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
    with pytest.raises(UsageError, match="does not exist"):
        read_object_array(tmp_path / "missing.npy")
