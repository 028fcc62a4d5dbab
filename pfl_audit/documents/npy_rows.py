"""Rows of an ``.npy`` file as plain values, in pieces. Runs in the child process of ``npy``."""

from __future__ import annotations

import gc
from collections.abc import Collection, Iterable, Iterator
from itertools import chain
from typing import Any, BinaryIO

import numpy.lib.format as npy

from pfl_audit.documents.npy_pickle import Array, Dtype, load
from pfl_audit.sandbox import RefusedError

_MAX_ROWS = 1_000_000
_ROW_VALUES = 1_000_000
"""Largest number of values of a row, eight letters of a text counting as one; a page has at most 20,000 words, each
with four coordinates."""
_PIECE = 250_000
"""Values of a piece, within which what rows share is sent once."""
SHARED = "\1"
"""Key of the dict in the place of a field's value that an earlier field of the piece has, with that field's number.
Fields with texts, numbers and None are not counted."""
_UNFOLDED_PER_BYTE = 64
"""Largest number of values per byte of the file; questions about one page share its words."""
_DEPTH = 16
_MOST_BITS = 1024
"""Of a whole number; a larger one is infinite, since its digits cannot be sent."""
_SCALARS = frozenset((str, int, float, bool, type(None), bytes))
_LISTS = frozenset((list, tuple))
_TEXTS = frozenset((str, bytes))
_COUNTLESS = _SCALARS - {bytes}


_reading: list[Iterator[list[Any]]] = []


def next_rows(file: BinaryIO | None = None) -> list[Any] | None:
    """The next rows, or None after the last.

    Args:
        file: File to begin with; None to read on.

    Raises:
        RefusedError: The file is not an array of plain values.
    """
    if file is not None:
        _reading[:] = [_pieces(file)]
    return next(_reading[0], None)


def _pieces(file: BinaryIO) -> Iterator[list[Any]]:
    gc.disable()  # millions of lists, none of them garbage
    rows = _rows(file)
    plain = _PlainValues(_UNFOLDED_PER_BYTE * file.tell() + _ROW_VALUES)
    piece: list[Any] = []
    numbers: dict[int, int] = {}
    total = 0
    for number, row in enumerate(rows):
        try:
            value, size = plain.row(row)
        except RefusedError as error:
            raise RefusedError(f"{error} (row {number})") from error
        piece.append({name: _once(field, numbers) for name, field in value.items()} if type(value) is dict else value)
        total += size
        if total > _PIECE:
            yield piece
            piece, numbers, total = [], {}, 0
    yield piece


def _once(field: Any, numbers: dict[int, int]) -> Any:
    """A field's value, or its number where one before has the same."""
    if type(field) in _COUNTLESS:
        return field
    if id(field) in numbers:
        return {SHARED: numbers[id(field)]}
    numbers[id(field)] = len(numbers)
    return field


def _rows(file: BinaryIO) -> list[Any]:
    """Elements of the array in the order of the file."""
    array = _header(file)
    if array.dtype.letters == "O":
        value = load(file)
        if type(value) is not Array or value.shape != array.shape:
            raise RefusedError("it is a pickle that holds no array, or not the one that its header announces")
        array = value
    else:
        array.data = file.read()
    if array.count() > _MAX_ROWS:
        raise RefusedError(f"it holds more than {_MAX_ROWS:,} rows")
    rows = array.tolist()
    return rows if array.shape else [rows]


def _header(file: BinaryIO) -> Array:
    """Array described by the header of the file, without its data."""
    try:
        read = npy.read_array_header_1_0 if npy.read_magic(file) == (1, 0) else npy.read_array_header_2_0
        shape, fortran, dtype = read(file)
    except ValueError as error:
        raise RefusedError("it is no .npy file, or its header is damaged") from error
    return Array(Dtype(dtype.str[1:], dtype.str[0]), shape, fortran=fortran)


class _PlainValues:
    """Converts unpickled objects to plain values, and bounds the number of values.

    References shared in the file are shared in the result: a small file may otherwise expand to more values than fit
    into memory. Lists of scalars, and lists of such lists, are checked without a Python step per item.

    Args:
        values: Largest number of values of all rows together.
    """

    def __init__(self, values: int) -> None:
        self._left = values
        self._known: dict[int, tuple[Any, int]] = {}
        self._open: set[int] = set()
        self._kept: list[Any] = []

    def row(self, value: Any) -> tuple[Any, int]:
        """A row as plain values, and how many they are.

        They are dict, list, str, numbers, None, and Array for floats of two or more dimensions.
        """
        plain, size = self._convert(value)
        self._spend(size)
        return plain, size

    def _convert(self, value: Any) -> tuple[Any, int]:
        """The plain value, and its number of values with shared references expanded."""
        kind = type(value)
        if kind in _SCALARS:
            if kind is int and value.bit_length() > _MOST_BITS:
                return float("inf"), 1
            return value, 1 + _weight((value,), {kind})
        if (known := self._known.get(id(value))) is not None:
            return known
        if id(value) in self._open or len(self._open) >= _DEPTH:
            raise RecursionError
        self._open.add(id(value))
        found: tuple[Any, int]
        if kind in _LISTS:
            found = self._list(value)
        elif kind is dict:
            found = self._dict(value)
        elif kind is Array:
            found = self._array(value)
        else:
            raise RefusedError(f"it holds a value of type {kind.__name__}, which is not plain data")
        self._open.remove(id(value))
        if found[1] > _ROW_VALUES:
            raise _too_many_values()
        self._known[id(value)] = found
        return found

    def _list(self, value: Any) -> tuple[list[Any], int]:
        kinds = set(map(type, value))
        size = 1 + len(value)
        if kinds <= _SCALARS:
            return _as_list(value), size + _weight(value, kinds)
        if kinds <= _LISTS:
            size += sum(map(len, value))
            self._spend(size)
            if (inner := set(map(type, chain.from_iterable(value)))) <= _SCALARS:
                size += _weight(chain.from_iterable(value), inner)
                return (_as_list(value) if tuple not in kinds else list(map(_as_list, value))), size
        parts = [self._convert(part) for part in value]
        return [part for part, _ in parts], 1 + sum(size for _, size in parts)

    def _dict(self, value: dict[Any, Any]) -> tuple[dict[str, Any], int]:
        if not set(map(type, value)) <= {str}:
            raise RefusedError("it holds a dict whose keys are not texts")
        parts = [self._convert(part) for part in value.values()]
        plain = dict(zip(value, (part for part, _ in parts), strict=True))
        return plain, 1 + sum(size for _, size in parts)

    def _array(self, value: Array) -> tuple[Any, int]:
        count = value.count()
        if count > _ROW_VALUES:
            raise _too_many_values()
        if value.dtype.letters[0] == "f" and len(value.shape) > 1:
            return value, 1 + count
        unfolded = value.tolist()
        self._kept.append(unfolded)  # so that no other list gets its id
        return self._convert(unfolded)

    def _spend(self, values: int) -> None:
        self._left -= values
        if self._left < 0 or values > _ROW_VALUES:
            raise _too_many_values()


def _weight(values: Iterable[Any], kinds: Collection[type]) -> int:
    """Letters of the texts among some values, eight as one value."""
    texts = values if _TEXTS.issuperset(kinds) else [one for one in values if type(one) in _TEXTS]
    return sum(map(len, texts)) >> 3 if not _TEXTS.isdisjoint(kinds) else 0


def _as_list(value: Any) -> list[Any]:
    return value if type(value) is list else list(value)


def _too_many_values() -> RefusedError:
    return RefusedError("it holds a structure that unfolds without end")
