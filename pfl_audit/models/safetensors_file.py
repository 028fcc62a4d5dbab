"""Header of a safetensors file, parsed as data and validated against the file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pfl_audit.errors import AuditError
from pfl_audit.inputs import MIB, open_input
from pfl_audit.models.tensor_file import ELEMENT_TYPES, Entry, dense, require_views, shape_of, size_of, whole_numbers

_LARGEST_HEADER = 8 * MIB
"""A tensor takes some hundred bytes; real models have hundreds of tensors."""
_NAMES = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "I64": "int64", "I32": "int32",
          "I16": "int16", "I8": "int8", "U8": "uint8", "BOOL": "bool"}  # fmt: skip
DTYPES = {code: ELEMENT_TYPES[name] for code, name in _NAMES.items()}


@dataclass(frozen=True)
class Header:
    """Header of a safetensors file.

    Attributes:
        entries: Name to place of every tensor, in the order of the header.
        metadata: Texts by key.
    """

    entries: Mapping[str, Entry]
    metadata: Mapping[str, str]


def read_header(path: Path, *, largest: int = _LARGEST_HEADER, remedy: str = "Copy it again from its source") -> Header:
    """Read the header of a safetensors file. No tensor is read.

    Args:
        largest: Largest size of the header in bytes, its metadata included.
        remedy: Remedy in the error of a file that cannot be read.

    Raises:
        UsageError: There is no such file.
        AuditError: It is damaged, of another format, or promises what the file does not hold.
    """
    size = size_of(path)
    try:
        with open_input(path, limit=None) as file:
            length = int.from_bytes(file.read(8), "little")
            if not 2 <= length <= min(size - 8, largest):
                raise ValueError("it has no header, or one that is too large")
            content = json.loads(file.read(length))
        if not isinstance(content, dict):
            raise TypeError("its header is not a JSON object")
        metadata = content.pop("__metadata__", {})
        if not isinstance(metadata, dict) or not all(isinstance(text, str) for text in metadata.values()):
            raise TypeError("its metadata are not texts")
        entries = {name: _entry(name, said, 8 + length, size) for name, said in content.items()}
        _require_whole(entries, 8 + length, size)
    except UnicodeDecodeError as error:
        raise _unreadable(path, "its header is not UTF-8", remedy) from error
    except json.JSONDecodeError as error:
        raise _unreadable(path, "its header is not JSON", remedy) from error
    except RecursionError as error:
        raise _unreadable(path, "its header is nested too deeply", remedy) from error
    except (TypeError, ValueError, OSError) as error:
        raise _unreadable(path, str(error)[:200], remedy) from error
    require_views(path, entries, size)
    return Header(entries, metadata)


def _entry(name: str, said: Any, begin: int, size: int) -> Entry:
    if not isinstance(said, dict):
        raise TypeError(f"{name[:80]!r} in its header is no tensor")
    dtype = DTYPES.get(str(said.get("dtype")))
    if dtype is None:
        raise ValueError(f"the tensor {name[:80]!r} is of {said.get('dtype')!s:.20}, not of {', '.join(DTYPES)}")
    shape = shape_of(said.get("shape"))
    offsets = whole_numbers(said.get("data_offsets"), size)
    entry = Entry(dtype, shape, dense(shape), begin + (offsets[0] if offsets else 0))
    if len(offsets) != 2 or offsets[1] - offsets[0] != entry.elements * dtype.itemsize:
        raise ValueError(f"the tensor {name[:80]!r} has another size than its shape says")
    return entry


def _require_whole(entries: Mapping[str, Entry], begin: int, size: int) -> None:
    """Check that the tensors are contiguous and end with the file."""
    for entry in sorted(entries.values(), key=lambda entry: (entry.start, entry.elements)):
        if entry.start != begin:
            raise ValueError("its tensors do not follow each other")
        begin += entry.elements * entry.dtype.itemsize
    if begin != size:
        raise ValueError("its tensors do not end where the file ends")


def _unreadable(path: Path, why: str, remedy: str) -> AuditError:
    return AuditError(f"{path} cannot be read: {why}", remedy)
