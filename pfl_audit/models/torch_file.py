"""Places of the tensors in a ``pytorch_model.bin``, read without torch.load and without running its code."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pfl_audit.errors import AuditError
from pfl_audit.inputs import open_input
from pfl_audit.models.tensor_file import (
    ELEMENT_TYPES,
    MOST_ELEMENTS,
    Entry,
    require_views,
    shape_of,
    size_of,
    whole_numbers,
)
from pfl_audit.models.torch_archive import NOT_A_TABLE, Row
from pfl_audit.sandbox import SandboxError, call_sandboxed

_NAMES = {"FloatStorage": "float32", "HalfStorage": "float16", "BFloat16Storage": "bfloat16",
          "DoubleStorage": "float64", "LongStorage": "int64", "IntStorage": "int32", "ShortStorage": "int16",
          "CharStorage": "int8", "ByteStorage": "uint8", "BoolStorage": "bool", "UntypedStorage": "uint8"}  # fmt: skip
_DTYPES = {storage: ELEMENT_TYPES[name] for storage, name in _NAMES.items()}
_MEMORY = 1 << 30
_SECONDS = 10
_REMEDY = "Copy it again from its source, or ask its owner for a safetensors file"


def read_archive(path: Path) -> Mapping[str, Entry]:
    """Read the places of the tensors in a ``torch.save`` file. No tensor is read.

    Raises:
        UsageError: There is no such file.
        AuditError: It asks for a global that no tensor needs (the message names it), is of the old format, is
            damaged, or promises what the file does not hold.
    """
    size = size_of(path)
    try:
        with open_input(path, limit=None) as file:
            rows: list[Row] = call_sandboxed(
                "pfl_audit.models.torch_archive:table_of", file, memory=_MEMORY, seconds=_SECONDS
            )
    except SandboxError as error:
        raise _refused(path, error) from error
    try:
        entries = {str(row[0]): _entry(row, size) for row in rows}
    except (ValueError, TypeError, KeyError) as error:
        raise AuditError(f"{path} is damaged: {error}", _REMEDY) from error
    require_views(path, entries, size)
    return entries


def _entry(row: Row, whole: int) -> Entry:
    name, kind, start, size, offset, shape, strides = row
    dtype = _DTYPES[kind]
    room = size // dtype.itemsize
    entry = Entry(dtype, shape_of(shape), whole_numbers(strides, MOST_ELEMENTS), start + offset * dtype.itemsize)
    if len(shape) != len(strides) or not (0 <= offset <= room and 0 <= start <= start + size <= whole):
        raise ValueError(f"the tensor {name[:80]!r} has no place")
    if offset + entry.span > room or entry.elements > room:
        raise ValueError(f"the tensor {name[:80]!r} is larger than what is stored of it")
    return entry


def _refused(path: Path, error: SandboxError) -> AuditError:
    if error.text == NOT_A_TABLE:
        return AuditError(f"{path} is not a table of tensors", "Save the model's state_dict() alone")
    if error.text.startswith("asks for"):
        return AuditError(
            f"{path} is a pickle that {error.text}, which is not a tensor; nothing was run",
            "Ask its owner for a safetensors file, and do not open this one with other tools",
        )
    return AuditError(f"{path} cannot be read: {error.reason()}", _REMEDY)
