from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from pfl_audit.errors import AuditError
from pfl_audit.models.weights import checkpoint_files, read_state, tensor_names


class _Runs:
    def __reduce__(self) -> tuple[object, ...]:
        return (eval, ("open('HACKED', 'w').close()",))


def folder_with(tmp_path: Path, value: object, **options: object) -> Path:
    (tmp_path / "config.json").write_text("{}")
    torch.save(value, tmp_path / "pytorch_model.bin", **options)
    return tmp_path


def test_a_plain_state_dict_is_read(tmp_path: Path) -> None:
    state = OrderedDict(a=torch.arange(3.0), b=torch.ones(2, 2, dtype=torch.float16), c=torch.tensor([1, 2]))
    state["p"] = torch.nn.Parameter(torch.ones(1))
    read = read_state(folder_with(tmp_path, state))
    assert {name: tensor.dtype for name, tensor in read.items()} == {
        "a": torch.float32,
        "b": torch.float32,
        "c": torch.int64,
        "p": torch.float32,
    }
    assert tensor_names(tmp_path) == {"a", "b", "c", "p"}


@pytest.mark.parametrize("wrap", [lambda x: x, lambda x: {"weights": torch.ones(1), "hook": x}, lambda x: [x]])
def test_a_pickle_that_runs_something_is_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrap: Callable[[object], object]
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = folder_with(tmp_path, wrap(_Runs()))
    with pytest.raises(AuditError, match=r"global '(__builtin__|builtins)\.eval'"):
        read_state(folder)
    assert not Path("HACKED").exists()


@pytest.mark.parametrize("value", [torch.ones(2), [torch.ones(2)], {"a": 1}, {"a": {"b": torch.ones(1)}}])
def test_anything_but_a_table_of_tensors_is_refused(tmp_path: Path, value: object) -> None:
    with pytest.raises(AuditError, match="not a table of tensors"):
        read_state(folder_with(tmp_path, value))


def test_safetensors_come_first(tmp_path: Path) -> None:
    folder_with(tmp_path, {"a": _Runs()})
    save_file({"a": torch.ones(1)}, tmp_path / "model.safetensors")
    assert [path.name for path in checkpoint_files(tmp_path)] == ["model.safetensors"]
    assert read_state(tmp_path)["a"].item() == 1.0


@pytest.mark.parametrize("content", [b"", b"\xff" * 100, b"\x08\0\0\0\0\0\0\0{}      garbage"])
def test_damaged_safetensors(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "model.safetensors").write_bytes(content)
    with pytest.raises(AuditError, match=r"model\.safetensors cannot be read"):
        read_state(tmp_path)


def test_an_index_cannot_lead_outside(tmp_path: Path) -> None:
    folder = tmp_path / "checkpoint"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors.index.json").write_text('{"weight_map": {"a": "../other.safetensors"}}')
    save_file({"a": torch.ones(1)}, tmp_path / "other.safetensors")
    with pytest.raises(AuditError, match="not in the folder"):
        checkpoint_files(folder)


@pytest.mark.parametrize("content", ["", "[]", "{", "[" * 100_000])
def test_config_must_be_a_json_object(tmp_path: Path, content: str) -> None:
    from pfl_audit.models.weights import read_config

    (tmp_path / "config.json").write_text(content)
    with pytest.raises(AuditError, match=r"config\.json"):
        read_config(tmp_path)


def test_an_index_with_a_name_that_no_file_can_have(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "model.safetensors.index.json").write_text(f'{{"weight_map": {{"a": "{"a" * 300}"}}}}')
    with pytest.raises(AuditError, match="not in the folder"):
        checkpoint_files(tmp_path)


def test_a_tensor_in_two_shards(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    for name in ("1.safetensors", "2.safetensors"):
        save_file({"a": torch.ones(1)}, tmp_path / name)
    (tmp_path / "model.safetensors.index.json").write_text(
        '{"weight_map": {"a": "1.safetensors", "b": "2.safetensors"}}'
    )
    with pytest.raises(AuditError, match=r"2\.safetensors holds the tensor a once more"):
        read_state(tmp_path)


def test_tied_tensors_of_a_pickle_share_memory(tmp_path: Path) -> None:
    shared = torch.ones(3)
    read = read_state(folder_with(tmp_path, {"a": shared, "b": shared, "c": shared.clone()}))
    assert read["a"].data_ptr() == read["b"].data_ptr() != read["c"].data_ptr()


def test_views_are_read_as_they_are(tmp_path: Path) -> None:
    table = torch.arange(12.0).view(3, 4)
    state = {"t": table.t(), "row": table[1], "column": table[:, 2], "places": torch.arange(5).expand((1, -1)),
             "none": torch.ones(0, 3), "one": torch.tensor(2.0)}  # fmt: skip
    read = read_state(folder_with(tmp_path, state))
    assert all(torch.equal(read[name], tensor) for name, tensor in state.items())


def test_more_memory_than_there_is(tmp_path: Path) -> None:
    header = b'{"a":{"dtype":"F16","shape":[1000000000000],"data_offsets":[0,2000000000000]}}'
    (tmp_path / "config.json").write_text("{}")
    with (tmp_path / "model.safetensors").open("wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        file.truncate(8 + len(header) + 2 * 10**12)
    assert tensor_names(tmp_path) == {"a"}
    with pytest.raises(AuditError, match=r"model\.safetensors needs 4000\.0 GB of memory, and .* are free"):
        read_state(tmp_path)
