"""A pytorch_model.bin that is no honest zip of tensors."""

from __future__ import annotations

import json
import struct
import zlib
from pathlib import Path

from tests.hostile.case import Door
from tests.hostile.second import (
    FIXTURES,
    TOUCH,
    VT5,
    call,
    checkpoint,
    header_of,
    name,
    pickled,
    safetensors,
    several,
    sparse,
    value,
    write,
    zipped,
)  # fmt: skip

DOOR = Door("second: torch")
_INSPECT = ["inspect", "ckpt", "--open"]
_FILE = "pytorch_model.bin"
_SHARED = "language_backbone.shared.weight"


def _tensor(key: str, numbers: int, size: tuple[int, ...], stride: tuple[int, ...], offset: int = 0) -> bytes:
    storage = several(value("storage"), name("torch", "HalfStorage"), value(key), value("cpu"), value(numbers)) + b"Q"
    hooks = call(name("collections", "OrderedDict"))
    rebuild = name("torch._utils", "_rebuild_tensor_v2")
    return call(rebuild, storage, value(offset), value(size), value(stride), value(False), hooks)


def _strides(shape: list[int]) -> tuple[int, ...]:
    steps = [1]
    for size in shape[:0:-1]:
        steps.insert(0, steps[0] * size)
    return tuple(steps[: len(shape)])


def _whole(folder: Path, spoilt: bytes) -> list[str]:
    """The embedded checkpoint in torch's format, with one tensor (the embedding) put together otherwise."""
    place = checkpoint(folder, VT5, "model.safetensors")
    header, data = header_of(FIXTURES / VT5 / "model.safetensors")
    header.pop("__metadata__", None)
    entries, state = [], b"}("
    for number, (key, found) in enumerate(header.items()):
        shape = found["shape"]
        begin, end = found["data_offsets"]
        own = _tensor(str(number), (end - begin) // 2, tuple(shape), _strides(shape))
        state += value(key) + (spoilt if key == _SHARED else own)
        entries.append((f"archive/data/{number}", data[begin:end]))
    entries.append(("archive/data/tiny", b"\x00\x00"))
    head = [("archive/data.pkl", pickled(state + b"u", 2)), ("archive/byteorder", b"little")]
    zipped(place / _FILE, [*head, *entries, ("archive/version", b"3\n")])
    return _INSPECT


def _only(folder: Path, entries: list[tuple[str, bytes]]) -> list[str]:
    zipped(checkpoint(folder, VT5, "model.safetensors") / _FILE, entries)
    return _INSPECT


@DOOR.case(2, says=(_FILE,), absent=("marker",))
def _two_pickles_of_one_name_the_second_of_which_runs_a_command(folder: Path) -> list[str]:
    clean = ("archive/data.pkl", pickled(b"}", 2))
    return _only(folder, [clean, ("archive/version", b"3\n"), ("archive/data.pkl", pickled(TOUCH, 2))])


@DOOR.case(2, says=(_FILE,), absent=("marker",))
def _a_name_that_differs_between_directory_and_entry(folder: Path) -> list[str]:
    place = checkpoint(folder, VT5, "model.safetensors")
    entries = [("archive/data.pkl", pickled(b"}", 2)), ("archive/datb.pkl", pickled(TOUCH, 2))]
    data = zipped(place / _FILE, entries).read_bytes()
    local, directory = data[: data.index(b"PK\x01\x02")], data[data.index(b"PK\x01\x02") :]
    swapped = directory.replace(b"data.pkl", b"dat_.pkl").replace(b"datb.pkl", b"data.pkl")
    write(place / _FILE, local + swapped.replace(b"dat_.pkl", b"datb.pkl"))
    return _INSPECT


@DOOR.case(2, says=(_FILE,), absent=("marker",))
def _the_old_format_without_a_zip(folder: Path) -> list[str]:
    magic = b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19."
    place = checkpoint(folder, VT5, "model.safetensors")
    write(place / _FILE, magic + pickled(value(1001), 2) + pickled(TOUCH, 2))
    return _INSPECT


@DOOR.case(2, says=(_FILE,))
def _a_pickle_that_unpacks_to_four_gigabytes(folder: Path) -> list[str]:
    # zeros are compressed once, and the block is repeated: four megabytes on disk
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    first = packer.compress(bytes(1 << 20)) + packer.flush(zlib.Z_FULL_FLUSH)
    block = packer.compress(bytes(1 << 20)) + packer.flush(zlib.Z_FULL_FLUSH)
    body, size = first + block * 4094 + packer.flush(), 4095 << 20
    entry = b"archive/data.pkl"
    fields = struct.pack("<HHHHHIIIHH", 20, 0, 8, 0, 0, 0, len(body), size, len(entry), 0)
    local = b"PK\x03\x04" + fields + entry
    central = b"PK\x01\x02" + struct.pack("<H", 20) + fields + struct.pack("<HHHII", 0, 0, 0, 0, 0) + entry
    end = struct.pack("<HHHHIIH", 0, 0, 1, 1, len(central), len(local) + len(body), 0)
    write(checkpoint(folder, VT5, "model.safetensors") / _FILE, local + body + central + b"PK\x05\x06" + end)
    return _INSPECT


@DOOR.case(2, says=(_FILE,))
def _a_tensor_of_a_trillion_numbers_over_one(folder: Path) -> list[str]:
    return _whole(folder, _tensor("tiny", 1, (1 << 40, 192), (0, 0)))


@DOOR.case(2, says=(_FILE,))
def _a_storage_whose_key_climbs_out_of_the_archive(folder: Path) -> list[str]:
    return _whole(folder, _tensor("../../../ckpt/config.json", 192000, (1000, 192), (192, 1)))


@DOOR.case(2, says=("pytorch_model.bin.index.json",))
def _shards_outside_of_the_checkpoint(folder: Path) -> list[str]:
    place = checkpoint(folder, VT5, "model.safetensors")
    write(folder / "secret.bin", b"x" * 100)
    found = {"metadata": {}, "weight_map": {_SHARED: "../secret.bin", "b": "/dev/zero"}}
    write(place / "pytorch_model.bin.index.json", json.dumps(found))
    return _INSPECT


# Safetensors


def _header(folder: Path, changes: dict[str, object], more: bytes = b"") -> list[str]:
    file = checkpoint(folder, VT5) / "model.safetensors"
    header, data = header_of(file)
    header = {key: found for key, found in header.items() if key not in changes} | {
        key: (header[key] | found if isinstance(found, dict) and key in header else found)
        for key, found in changes.items()
    }
    write(file, safetensors(header, data + more))
    return _INSPECT


_WEIGHTS = "model.safetensors"


@DOOR.case(2, says=("ckpt",))
def _a_tensor_of_a_terabyte_in_a_file_of_holes(folder: Path) -> list[str]:
    file = checkpoint(folder, VT5) / _WEIGHTS
    size = 1 << 40
    head = safetensors({_SHARED: {"dtype": "F16", "shape": [size // 384, 192], "data_offsets": [0, size // 384 * 384]}})
    file.unlink()
    sparse(file, len(head) + size // 384 * 384, head)
    return _INSPECT


@DOOR.case(2, says=(_WEIGHTS,))
def _a_shape_whose_product_wraps_around(folder: Path) -> list[str]:
    return _header(folder, {_SHARED: {"shape": [2**32, 2**32 + 1, 0, 2**63]}})


@DOOR.case(0, 2)
def _a_tensor_whose_name_is_a_megabyte_of_escapes(folder: Path) -> list[str]:
    return _header(folder, {"\x1b]0;" + "x" * (1 << 20): {"dtype": "F16", "shape": [0, 2**60], "data_offsets": [0, 0]}})
