import pickle
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from pfl_audit.errors import AuditError
from pfl_audit.models.torch_file import read_archive


class _Runs:
    def __reduce__(self) -> tuple[object, ...]:
        return (eval, ("1",))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    torch.save({"a": torch.ones(2, 3)}, tmp_path / "pytorch_model.bin")
    return tmp_path / "pytorch_model.bin"


def hand_made(path: Path, opcodes: bytes, **members: bytes) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", opcodes)
        for name, content in members.items():
            archive.writestr(f"archive/{name.replace('data_', 'data/')}", content)
    return path


def tensor(
    offset: object = 0, size: object = (2, 3), stride: object = (3, 1), *, key: str = "0", kind: str = "FloatStorage"
) -> bytes:
    """A state dict whose one tensor has these arguments."""
    pushed = (pickle.dumps(value, 2)[2:-1] for value in (offset, size, stride))
    storage = b"(X\x07\0\0\0storagectorch\n" + kind.encode() + b"\nX" + len(key).to_bytes(4, "little") + key.encode()
    start = b"\x80\x02}X\x01\0\0\0actorch._utils\n_rebuild_tensor_v2\n("
    return start + storage + b"X\x03\0\0\0cpuK\x06tQ" + b"".join(pushed) + b"\x89}tRs."


def test_every_protocol_is_read(tmp_path: Path) -> None:
    for protocol in (2, 3, 4, 5):
        torch.save({"a": torch.ones(2, 3)}, tmp_path / "a.bin", pickle_protocol=protocol)
        assert read_archive(tmp_path / "a.bin")["a"].shape == (2, 3)


def test_the_hand_made_tensor_is_one(path: Path) -> None:
    entry = read_archive(hand_made(path, tensor(), data_0=bytes(24)))["a"]
    assert (entry.dtype.name, entry.shape, entry.strides) == ("float32", (2, 3), (3, 1))


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_globals_are_refused_in_every_protocol(path: Path, protocol: int) -> None:
    torch.save({"x": _Runs()}, path, pickle_protocol=protocol)
    with pytest.raises(AuditError, match=r"asks for the global '(__builtin__|builtins)\.eval', .*; nothing was run"):
        read_archive(path)


@pytest.mark.parametrize(
    "opcodes",
    [
        b"(ios\nsystem\n.",  # INST
        b"\x80\x04\x8c\x02os\x94\x8c\x06system\x94\x93.",  # STACK_GLOBAL
        b"\x80\x04\x8c\x02os\x94\x8c\x06system\x94h\x00h\x01\x93.",  # STACK_GLOBAL out of the memo
        b"cos\nsystem\n.",
    ],
)
def test_hidden_globals_are_refused(path: Path, opcodes: bytes) -> None:
    with pytest.raises(AuditError, match=r"asks for the global 'os\.system'"):
        read_archive(hand_made(path, opcodes))


@pytest.mark.parametrize(
    "opcodes",
    [
        b"",
        b"}",
        b"\x80\x02\x82\x01.",  # EXT1
        b"r\xff\xff\xff\x7f}.",  # nothing to put under a number of 2^31
        b"}r\xff\xff\xff\x7f.",
        b"(" * 1000 + b".",
        bytes(range(256)) * 40,
        tensor(key="1"),
        tensor(kind="Tensor"),
        tensor().replace(b"ctorch\nFloatStorage\n", b"X\x05\0\0\0Float"),  # a text in place of the class
        tensor(-1),
        tensor(2.0),
        tensor(1 << 62),
        tensor(1),
        tensor(0, (2, 4)),
        tensor(0, (-2, -3)),
        tensor(0, (1 << 40,), (0,)),
        tensor(0, (1 << 20, 1 << 20), (0, 0)),
        tensor(0, (0, 1 << 62), (1, 1)),
        tensor(0, (2, 3), (1 << 40, 1)),
        tensor(0, (2, 3), (3, -1)),
        tensor(0, (2, 3), (3,)),
        tensor(0, (True, True), (1, 1)),
        tensor(0, (1,) * 100, (1,) * 100),
        tensor(0, "ab", "ab"),
        tensor(0, [2, 3], [3, 1]),
        b"\x80\x02}X\x01\0\0\0actorch._utils\n_rebuild_tensor_v2\n)Rs.",
    ],
)
def test_forged_pickles(path: Path, opcodes: bytes) -> None:
    with pytest.raises(AuditError, match=r"pytorch_model\.bin (is damaged|cannot be read|is a pickle that asks)"):
        read_archive(hand_made(path, opcodes, data_0=bytes(24)))


@pytest.mark.parametrize("content", [b"", b"no zip", pickle.dumps({"a": 1}), b"PK\x03\x04" + b"\0" * 50])
def test_other_formats_are_refused(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(AuditError, match="not in the zip format"):
        read_archive(path)


def test_legacy_torch_format_is_refused(path: Path) -> None:
    torch.save({"a": torch.ones(1)}, path, _use_new_zipfile_serialization=False)
    with pytest.raises(AuditError, match="not in the zip format"):
        read_archive(path)


@pytest.mark.parametrize("compression", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_compressed_member(path: Path, compression: int) -> None:
    with zipfile.ZipFile(path, "w", compression) as archive:
        archive.writestr("archive/data.pkl", b"}." + bytes(10_000))
    with pytest.raises(AuditError, match=r"its member data\.pkl is compressed or encrypted"):
        read_archive(path)


@pytest.mark.parametrize("name", ["data_1", "code", "data.pkl_more"])
def test_members_that_no_tensor_uses(path: Path, name: str) -> None:
    with pytest.raises(AuditError, match="holds a member that"):
        read_archive(hand_made(path, tensor(), data_0=bytes(24), **{name: b"hidden"}))


def test_the_notes_of_every_release_of_torch_belong_to_it(path: Path) -> None:
    notes = {"version": b"3\n", "byteorder": b"little", ".format_version": b"1"}
    assert set(read_archive(hand_made(path, tensor(), data_0=bytes(24), **notes))) == {"a"}
    with pytest.raises(AuditError, match="big-endian"):
        read_archive(hand_made(path, tensor(), data_0=bytes(24), byteorder=b"big"))


def directory(content: bytearray, number: int = 0) -> int:
    """Place of an entry of the zip directory."""
    place = -1
    for _ in range(number + 1):
        place = content.index(b"PK\x01\x02", place + 1)
    return place


@pytest.mark.parametrize(
    "change",
    [
        lambda c: struct.pack_into("<H", c, directory(c) + 8, 1),  # encrypted
        lambda c: struct.pack_into("<H", c, directory(c) + 10, 77),  # a compression that does not exist
        lambda c: struct.pack_into("<II", c, directory(c) + 20, 1 << 30, 1 << 30),  # larger than the file
        lambda c: struct.pack_into("<I", c, directory(c) + 42, 7),  # begins elsewhere
        lambda c: struct.pack_into("<I", c, directory(c, 1) + 42, 0),  # begins where another one does
    ],
)
def test_a_directory_that_lies(path: Path, change: Callable[[bytearray], None]) -> None:
    content = bytearray(path.read_bytes())
    change(content)
    path.write_bytes(content)
    with pytest.raises(AuditError, match=r"pytorch_model\.bin cannot be read: it"):
        read_archive(path)


def test_many_names_for_the_same_bytes(path: Path) -> None:
    one = torch.ones(1000)
    torch.save({f"name {number}": one for number in range(100)}, path)
    with pytest.raises(AuditError, match="promises more bytes than it has"):
        read_archive(path)
