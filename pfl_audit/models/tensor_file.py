"""Tensors in a file: the place of each is validated against the file before it is read. Imports no torch at once."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import TYPE_CHECKING, cast

from pfl_audit.errors import AuditError
from pfl_audit.inputs import open_input
from pfl_audit.models.memory import free_memory

if TYPE_CHECKING:
    from torch import Tensor

MOST_TENSORS = 100_000
_MOST_DIMENSIONS = 16
MOST_ELEMENTS = 1 << 40
_MOST_VIEWS = 8
"""Largest ratio of the tensors' bytes to the file's: a VT5 has four names for its embedding."""
_ROOM = 1.25
"""Bytes of free memory per byte of weights, for what else opening them needs."""


@dataclass(frozen=True)
class ElementType:
    """Type of a tensor's elements, described without torch.

    Attributes:
        name: Attribute of the torch module, such as ``float32``.
        itemsize: Bytes of an element.
        is_floating_point: Whether it is a floating-point type.
    """

    name: str
    itemsize: int
    is_floating_point: bool = False

    def __str__(self) -> str:
        return f"torch.{self.name}"


_SIZES = {"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2, "int64": 8, "int32": 4, "int16": 2, "int8": 1,
          "uint8": 1, "bool": 1}  # fmt: skip
ELEMENT_TYPES = {name: ElementType(name, size, "float" in name) for name, size in _SIZES.items()}
"""By name; other types are refused."""


@dataclass(frozen=True)
class Entry:
    """Place of a tensor in a file, as its header gives it.

    Attributes:
        strides: Strides in elements.
        start: Offset of its first element in the file, in bytes.
    """

    dtype: ElementType
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    start: int

    @property
    def elements(self) -> int:
        """Number of its elements."""
        return math.prod(self.shape)

    @property
    def span(self) -> int:
        """Number of elements from its first to its last in the file."""
        if not self.elements:
            return 0
        return 1 + sum((size - 1) * stride for size, stride in zip(self.shape, self.strides, strict=True))

    def bytes(self, *, single: bool) -> int:
        """Bytes in memory; with ``single`` floating-point tensors count as float32."""
        return self.elements * (4 if single and self.dtype.is_floating_point else self.dtype.itemsize)


def dense(shape: Iterable[int]) -> tuple[int, ...]:
    """Strides of a contiguous tensor."""
    strides = [1]
    for size in reversed(list(shape)[1:]):
        strides.append(strides[-1] * max(size, 1))
    return tuple(reversed(strides)) if shape else ()


def whole_numbers(values: object, most: int) -> tuple[int, ...]:
    """Validate integers of 0 to ``most`` from outside.

    Raises:
        ValueError: They are not.
    """
    if not isinstance(values, list | tuple) or len(values) > _MOST_DIMENSIONS:
        raise ValueError(f"a list in it is not one of at most {_MOST_DIMENSIONS} numbers")
    if not all(type(value) is int and 0 <= value <= most for value in values):
        raise ValueError("a size of a tensor is not a whole number in range")
    return tuple(values)


def shape_of(values: object) -> tuple[int, ...]:
    """Validate a shape from outside.

    Raises:
        ValueError: It is no shape, or has too many elements.
    """
    shape = whole_numbers(values, MOST_ELEMENTS)
    if math.prod(max(size, 1) for size in shape) > MOST_ELEMENTS:
        raise ValueError("a tensor has too many elements")
    return shape


def require_views(path: Path, entries: Mapping[str, Entry], size: int) -> None:
    """Refuse tensors that repeat the bytes of a file too often.

    Raises:
        AuditError: Too many tensors, or too many bytes altogether.
    """
    if len(entries) > MOST_TENSORS:
        raise AuditError(f"{path} has more than {MOST_TENSORS:,} tensors", "Check that it is the right file")
    if sum(max(entry.span, entry.elements) * entry.dtype.itemsize for entry in entries.values()) > _MOST_VIEWS * size:
        raise AuditError(f"{path} promises more bytes than it has", "Ask its owner for a safetensors file")


def read_tensors(path: Path, entries: Mapping[str, Entry], *, single: bool = False) -> dict[str, Tensor]:
    """Read tensors to the CPU. Names of the same place share memory.

    Args:
        path: The file that the entries were read from.
        entries: Name to place of the tensors.
        single: Whether to convert floating-point tensors to float32.

    Raises:
        AuditError: It ends too early, cannot be read, or needs more memory than is free.
    """
    import torch

    require_memory(path, sum(entry.bytes(single=single) for entry in set(entries.values())))
    read: dict[Entry, Tensor] = {}
    with open_input(path, limit=None) as file:
        for entry in sorted(set(entries.values()), key=lambda entry: entry.start):
            flat = torch.empty(entry.span, dtype=getattr(torch, entry.dtype.name))
            file.seek(entry.start)
            if entry.span and cast("BufferedReader", file).readinto(flat.view(torch.uint8).numpy().data) != flat.nbytes:
                raise AuditError(f"{path} ends too early", "Copy it again from its source")
            tensor = flat.as_strided(entry.shape, entry.strides).contiguous()
            read[entry] = tensor.to(torch.float32) if single and tensor.is_floating_point() else tensor
    return {name: read[entry] for name, entry in entries.items()}


def size_of(path: Path) -> int:
    """Size of a regular file in bytes.

    Raises:
        UsageError: There is no such file.
        AuditError: It is not a regular file.
    """
    with open_input(path, limit=None) as file:
        return os.fstat(file.fileno()).st_size


def require_memory(path: Path, needed: int) -> None:
    """Check that a file's tensors fit into free memory.

    Args:
        path: File, for the message.
        needed: Bytes of the tensors.

    Raises:
        AuditError: They do not.
    """
    free = free_memory()
    if free is not None and needed * _ROOM > free:
        raise AuditError(
            f"{path} needs {needed / 1e9:.1f} GB of memory, and {free / 1e9:.1f} GB are free",
            "Check that it is the right file, or use a machine with more memory",
        )
