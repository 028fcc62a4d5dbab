import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from pfl_audit.errors import AuditError
from pfl_audit.models.safetensors_file import read_header
from pfl_audit.models.tensor_file import read_tensors


def written(path: Path, header: object, data: bytes = b"", length: int | None = None) -> Path:
    content = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes((len(content) if length is None else length).to_bytes(8, "little") + content + data)
    return path


def one(dtype: str = "F32", shape: object = (2,), offsets: object = (0, 8), **more: Any) -> dict[str, Any]:
    return {"a": {"dtype": dtype, "shape": shape, "data_offsets": offsets}, **more}


def test_every_kind_of_tensor_comes_back(tmp_path: Path) -> None:
    kinds = (torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16,
             torch.int8, torch.uint8, torch.bool)  # fmt: skip
    state = {str(kind): torch.tensor([[0, 1, 1]]).to(kind) for kind in kinds}
    state |= {"one": torch.tensor(3.0), "none": torch.ones(0, 3)}
    save_file(state, tmp_path / "a.safetensors", metadata={"format": "pt"})
    header = read_header(tmp_path / "a.safetensors")
    read = read_tensors(tmp_path / "a.safetensors", header.entries)
    assert header.metadata == {"format": "pt"}
    assert read.keys() == state.keys()
    assert all(read[name].dtype is tensor.dtype and torch.equal(read[name], tensor) for name, tensor in state.items())


@pytest.mark.parametrize(
    "header",
    [
        [],
        {"a": 1},
        {"a": {}},
        b"{",
        b"\xff\xff",
        b"[" * 100_000,
        b'{"a":' + b"1" * 5000 + b"}",
        {"__metadata__": {"a": 1}},
        one("F4"),
        one("F8_E4M3", offsets=(0, 2)),
        one(["F32"]),
        one(shape=[3]),
        one(shape=[-2]),
        one(shape=[2.0]),
        one(shape="2"),
        one(shape=[1 << 63]),
        one(shape=[1 << 30] * 9),
        one(shape=[1] * 1000),
        one(offsets=[0]),
        one(offsets=[8, 0]),
        one(offsets=[4, 12]),
        one(b={"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}),
        one(b={"dtype": "F32", "shape": [2], "data_offsets": [8, 16]}),
    ],
)
def test_headers_that_lie(tmp_path: Path, header: object) -> None:
    path = written(tmp_path / "a.safetensors", header, bytes(8))
    with pytest.raises(AuditError, match=r"a\.safetensors cannot be read: .*[^.]\. Copy it again"):
        read_header(path)


@pytest.mark.parametrize("length", [0, 1, 10**6, 1 << 63])
def test_a_header_of_another_length(tmp_path: Path, length: int) -> None:
    path = written(tmp_path / "a.safetensors", one(), bytes(8), length)
    with pytest.raises(AuditError, match="it has no header"):
        read_header(path)


def test_a_file_that_shrinks_while_it_is_read(tmp_path: Path) -> None:
    path = written(tmp_path / "a.safetensors", one(), bytes(8))
    entries = read_header(path).entries
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(AuditError, match="ends too early"):
        read_tensors(path, entries)
