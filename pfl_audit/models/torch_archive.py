"""Table of contents of a ``torch.save`` file, read without torch. Runs in a sandbox: see ``torch_file``.

Its pickle is read with inert classes: every global of a plain state dict becomes one of ours, which keeps what it is
given and computes nothing. Every other global is refused, so nothing of the file is ever run.
"""

from __future__ import annotations

import io
import os
import pickle
import struct
import zipfile
from typing import Any, BinaryIO

from pfl_audit.inputs import MIB
from pfl_audit.sandbox import RefusedError

LARGEST_PICKLE = 16 * MIB
"""Of ``data.pkl``: some hundred bytes a tensor, and real models have hundreds."""
_LARGEST_NOTE = 64 << 10
_NOTES = ("version", "byteorder", ".format_version", ".storage_alignment", ".data/serialization_id")
_LOCAL_HEADER = struct.Struct("<4s22sHH")
NOT_A_TABLE = "it is not a table of tensors"

Row = tuple[str, str, int, int, int, tuple[int, ...], tuple[int, ...]]
"""Name, kind of storage, where the storage lies in the file, its bytes, offset, size and stride of the tensor."""


class _Inert:
    def __init__(self, *arguments: object) -> None:
        self.arguments = arguments

    def __setstate__(self, state: object) -> None:
        """Ignore the state in the pickle."""


class _Tensor(_Inert): ...


class _Parameter(_Inert): ...


class _Storage(_Inert): ...


class _Other(_Inert): ...


class _Size(tuple[Any, ...]): ...


class _Table(dict[Any, Any]):
    def __setstate__(self, state: object) -> None:
        """Ignore the module versions of a state dict."""


_GLOBALS: dict[str, type] = {
    "collections.OrderedDict": _Table,
    "torch._utils._rebuild_tensor_v2": _Tensor,
    "torch._utils._rebuild_parameter": _Parameter,
    "torch.Size": _Size,
    "torch.device": _Other,
}
STORAGES = (
    "FloatStorage", "HalfStorage", "BFloat16Storage", "DoubleStorage", "LongStorage", "IntStorage", "ShortStorage",
    "CharStorage", "ByteStorage", "BoolStorage", "UntypedStorage",
)  # fmt: skip


class _Unpickler(pickle.Unpickler):
    def __init__(self, content: bytes) -> None:
        super().__init__(io.BytesIO(content))
        self.seen: set[str] = set()

    def find_class(self, module_name: str, global_name: str) -> Any:
        name = f"{module_name}.{global_name}"
        if name in _GLOBALS:
            return _GLOBALS[name]
        if module_name == "torch" and global_name in STORAGES:
            return global_name
        raise RefusedError(f"asks for the global '{name[:200]}'")

    def persistent_load(self, pid: Any) -> Any:
        known = isinstance(pid, tuple) and len(pid) == 5 and pid[0] == "storage" and pid[1] in STORAGES
        if not known or not isinstance(pid[2], str):
            raise RefusedError("it is damaged: a storage is none")
        self.seen.add(pid[2])
        return _Storage(pid[1], pid[2])


def table_of(file: BinaryIO) -> list[Row]:
    """List the tensors of a ``torch.save`` file.

    Raises:
        RefusedError: It is no such file, is damaged, or holds anything but tensors.
    """
    try:
        with zipfile.ZipFile(file) as archive:
            members = _members(archive)
            places = {member: _place(file, info) for member, info in members.items()}
            if "data.pkl" not in places:
                raise RefusedError("it is no checkpoint of torch.save")
            if _bytes(file, places, "byteorder", _LARGEST_NOTE).strip() not in (b"", b"little"):
                raise RefusedError("its numbers are big-endian")
            unpickler = _Unpickler(_bytes(file, places, "data.pkl", LARGEST_PICKLE))
    except (zipfile.BadZipFile, RuntimeError, struct.error, ValueError, OSError) as error:
        raise RefusedError("it is damaged, or not in the zip format of torch.save (torch 1.6 or newer)") from error
    try:
        value = unpickler.load()
    except (RefusedError, MemoryError):
        raise
    except RecursionError as error:
        raise RefusedError("its data.pkl is nested too deeply") from error
    except Exception as error:  # a damaged pickle raises anything
        raise RefusedError("it is damaged: its data.pkl is no pickle of a state dict") from error
    storages = {member.removeprefix("data/"): place for member, place in places.items() if member.startswith("data/")}
    if hidden := sorted(set(storages) - unpickler.seen):
        raise RefusedError(f"it holds a member that no tensor uses: data/{hidden[0][:80]}")
    return _rows(value, storages)


def _members(archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    """Members by their names within the archive's only folder."""
    members: dict[str, zipfile.ZipInfo] = {}
    prefix = ""
    for info in archive.infolist():
        folder, _, name = info.filename.partition("/")
        prefix = prefix or folder
        if folder != prefix or not (name in _NOTES or name == "data.pkl" or name.startswith("data/")):
            raise RefusedError(f"it holds a member that does not belong to a checkpoint: {info.filename[:80]}")
        if name in members:
            raise RefusedError(f"it holds {name[:80]} twice")
        if info.compress_type != zipfile.ZIP_STORED or info.flag_bits & 1 or info.compress_size != info.file_size:
            raise RefusedError(f"its member {name[:80]} is compressed or encrypted, which torch.save never does")
        members[name] = info
    return members


def _place(file: Any, info: zipfile.ZipInfo) -> tuple[int, int]:
    """Offset and number of a member's bytes."""
    file.seek(info.header_offset)
    magic, _, name, extra = _LOCAL_HEADER.unpack(file.read(_LOCAL_HEADER.size))
    begin = info.header_offset + _LOCAL_HEADER.size + name + extra
    if magic != b"PK\x03\x04" or file.read(name) != info.orig_filename.encode() or info.header_offset < 0:
        raise RefusedError("it is damaged: its directory names members that are not there")
    if begin + info.file_size > os.fstat(file.fileno()).st_size:
        raise RefusedError("it is damaged: a member is larger than the file")
    return begin, info.file_size


def _bytes(file: Any, places: dict[str, tuple[int, int]], name: str, limit: int) -> bytes:
    begin, size = places.get(name, (0, 0))
    if size > limit:
        raise RefusedError(f"its {name} is larger than any checkpoint's")
    file.seek(begin)
    return bytes(file.read(size))


def _rows(value: Any, storages: dict[str, tuple[int, int]]) -> list[Row]:
    if not isinstance(value, dict):
        raise RefusedError(NOT_A_TABLE)
    rows: list[Row] = []
    for name, held in value.items():
        tensor = held.arguments[0] if isinstance(held, _Parameter) and held.arguments else held
        if not isinstance(tensor, _Tensor) or not isinstance(name, str):
            raise RefusedError(NOT_A_TABLE)
        storage, offset, size, stride = (*tensor.arguments, *[None] * 4)[:4]
        if not (isinstance(storage, _Storage) and isinstance(size, tuple) and isinstance(stride, tuple)):
            raise RefusedError("it is damaged: a tensor is none")
        kind, key = (str(part) for part in storage.arguments)
        if key not in storages:
            raise RefusedError(f"it lacks the member data/{key[:80]}")
        if not isinstance(offset, int) or not all(type(part) is int for part in (offset, *size, *stride)):
            raise RefusedError("it is damaged: a tensor's shape is none")
        rows.append((name, kind, *storages[key], offset, tuple(size), tuple(stride)))
    return rows
