import pickle
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from pfl_audit.errors import AuditError
from pfl_audit.models.pickle_scan import pickle_globals, refuse_code
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


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_globals_are_found_in_every_protocol(tmp_path: Path, protocol: int) -> None:
    folder = folder_with(tmp_path, {"x": _Runs()}, pickle_protocol=protocol)
    assert any(name.endswith(".eval") for name in pickle_globals(folder / "pytorch_model.bin"))


def hand_made(tmp_path: Path, opcodes: bytes) -> Path:
    with zipfile.ZipFile(tmp_path / "pytorch_model.bin", "w") as archive:
        archive.writestr("archive/data.pkl", opcodes)
    return tmp_path / "pytorch_model.bin"


@pytest.mark.parametrize(
    "opcodes",
    [
        b"(ios\nsystem\n.",  # INST
        b"\x80\x04\x8c\x02os\x94\x8c\x06system\x94\x93.",  # STACK_GLOBAL
        b"\x80\x04\x8c\x02os\x94\x8c\x06system\x94h\x00h\x01\x93.",  # STACK_GLOBAL out of the memo
        b"\x80\x04X\x06\x00\x00\x00systemX\x02\x00\x00\x00os0\x93.",  # pushed in another order
        b"\x80\x02\x82\x01.",  # EXT1
        b"cos\nsystem\n.",
    ],
)
def test_hidden_globals_are_refused(tmp_path: Path, opcodes: bytes) -> None:
    with pytest.raises(AuditError, match="asks for the global"):
        refuse_code(hand_made(tmp_path, opcodes))


@pytest.mark.parametrize("content", [b"", b"no zip", pickle.dumps({"a": 1}), b"PK\x03\x04" + b"\0" * 50])
def test_other_formats_are_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "pytorch_model.bin"
    path.write_bytes(content)
    with pytest.raises(AuditError, match="zip format"):
        refuse_code(path)


def test_legacy_torch_format_is_refused(tmp_path: Path) -> None:
    folder = folder_with(tmp_path, {"a": torch.ones(1)}, _use_new_zipfile_serialization=False)
    with pytest.raises(AuditError, match="not in the zip format"):
        read_state(folder)


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
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "model.safetensors.index.json").write_text('{"weight_map": {"a": "../other.safetensors"}}')
    with pytest.raises(AuditError, match="not in the folder"):
        checkpoint_files(tmp_path)


@pytest.mark.parametrize("content", ["", "[]", "{", "[" * 100_000])
def test_config_must_be_a_json_object(tmp_path: Path, content: str) -> None:
    from pfl_audit.models.weights import read_config

    (tmp_path / "config.json").write_text(content)
    with pytest.raises(AuditError, match=r"config\.json"):
        read_config(tmp_path)


@pytest.mark.parametrize("compression", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA, zipfile.ZIP_STORED])
def test_a_damaged_member(tmp_path: Path, compression: int) -> None:
    path = tmp_path / "pytorch_model.bin"
    with zipfile.ZipFile(path, "w", compression) as archive:
        archive.writestr("archive/data.pkl", bytes(range(256)) * 40)
    content = bytearray(path.read_bytes())
    start = 30 + len("archive/data.pkl")
    content[start : start + 40] = b"\xff" * 40
    path.write_bytes(content)
    with pytest.raises(AuditError, match=r"pytorch_model\.bin is damaged: .*Copy it again"):
        refuse_code(path)


@pytest.mark.parametrize(("offset", "value"), [(8, 1), (10, 77)])  # the encrypted flag; a compression nobody knows
def test_a_member_that_cannot_be_unpacked(tmp_path: Path, offset: int, value: int) -> None:
    path = hand_made(tmp_path, b"}.")
    content = bytearray(path.read_bytes())
    content[content.index(b"PK\x01\x02") + offset] = value
    content[offset - 2] = value
    path.write_bytes(content)
    with pytest.raises(AuditError, match="is damaged"):
        refuse_code(path)


def test_an_index_with_a_name_that_no_file_can_have(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "model.safetensors.index.json").write_text(f'{{"weight_map": {{"a": "{"a" * 300}"}}}}')
    with pytest.raises(AuditError, match="not in the folder"):
        checkpoint_files(tmp_path)
