"""Unpickler of numpy arrays without numpy: calls in the pickle create objects of this module that store its content.

No numpy object is created from a state in the file, because numpy trusts that state: a forged dtype makes it read bytes
as pointers. ``Array.count`` compares sizes, types and shapes after everything is read. Runs in a sandbox.
"""

from __future__ import annotations

import math
import pickle
import re
from typing import Any, BinaryIO

import numpy as np

from pfl_audit.sandbox import RefusedError

_LETTERS = re.compile(r"b1|[iu][1248]|f[248]|[US]\d{1,9}|O\d?")
_ORDERS = {"<": "<", ">": ">", "=": "=", "|": "="}
_MOST_DIMENSIONS = 8
_SHOWN = 100


class Dtype:
    """Type of the items of an array: ``letters`` such as f4, U12 or O8, byte ``order``, and bytes per ``item``."""

    __slots__ = ("item", "letters", "order")

    def __init__(self, letters: object, order: object = "=") -> None:
        if not isinstance(letters, str) or not _LETTERS.fullmatch(letters):
            raise RefusedError("it holds an array whose type is not plain data")
        self.letters = letters
        self.item = int(letters[1:] or 0) * (4 if letters[0] == "U" else 1)
        self.__setstate__((3, order, None, None, None, -1, -1, 0))

    def __setstate__(self, state: Any) -> None:
        """Set the byte order; everything else follows from the letters."""
        known = type(state) is tuple and len(state) in (8, 9) and state[2:5] == (None, None, None)
        if not known or not isinstance(state[1], str) or state[1] not in _ORDERS:
            raise RefusedError("it holds an array whose type is not plain data")
        self.order = _ORDERS[state[1]]

    def items(self, data: bytes) -> list[Any]:
        """Items in ``data``, whose length is a multiple of ``item``; the type is made of the letters alone."""
        found: list[Any] = np.ndarray(len(data) // self.item, f"{self.order}{self.letters}", data).tolist()
        return found


class Array:
    """An array as described by the file: a Dtype, a shape, and data (bytes or a list of objects)."""

    __slots__ = ("data", "dtype", "fortran", "shape")

    def __init__(self, dtype: Any = None, shape: Any = None, data: Any = None, *, fortran: Any = False) -> None:
        self.dtype, self.shape, self.data, self.fortran = dtype, shape, data, fortran

    def __setstate__(self, state: Any) -> None:
        """Set the state in the format of ``ndarray.__setstate__``."""
        if type(state) is not tuple or len(state) != 5:
            raise RefusedError("it holds a damaged array")
        _, self.shape, self.dtype, self.fortran, data = state
        self.data = _bytes(data)

    def parts(self) -> tuple[Any, str, Any, bool]:
        """Data, type, shape and order of an array of floats, for the parent process."""
        return self.data, f"{self.dtype.order}{self.dtype.letters}", self.shape, bool(self.fortran)

    def count(self) -> int:
        """Number of items.

        Raises:
            RefusedError: Type, shape and size of the data are inconsistent.
        """
        dtype, shape, data = self.dtype, self.shape, self.data
        if type(dtype) is not Dtype or type(self.fortran) not in (bool, int):
            raise RefusedError("it holds a damaged array")
        if type(shape) is not tuple or len(shape) > _MOST_DIMENSIONS or not all(type(size) is int for size in shape):
            raise RefusedError("it holds an array with a damaged shape")
        count = math.prod(shape)
        # (10**9, 0) would be a billion empty lists; numpy rejects sizes that it cannot count, even times 0.
        empty = count == 0 and (shape[0] != 0 or math.prod(size or 1 for size in shape) >= 1 << 31)
        if min(shape, default=1) < 0 or empty:
            raise RefusedError("it holds an array with a damaged shape")
        if dtype.letters[0] == "O":
            fits = type(data) is list and len(data) == count
        else:
            fits = type(data) is bytes and dtype.item > 0 and len(data) == count * dtype.item
        if not fits:
            raise RefusedError("it holds an array whose data does not fit its shape")
        return count

    def tolist(self) -> Any:
        """Result of ``ndarray.tolist``, as a new list; to be called after ``count``."""
        items = list(self.data if self.dtype.letters[0] == "O" else self.dtype.items(self.data))
        if self.fortran and len(self.shape) > 1:
            raise RefusedError("it holds an array in Fortran order")
        for size in self.shape[:0:-1]:
            items = [items[at : at + size] for at in range(0, len(items), size)]
        return items if self.shape else items[0]


class _Name:
    """A numpy global that a pickle may refer to; it accepts no state.

    Args:
        call: What a call of it gives; None where it is only referred to.
    """

    __slots__ = ("_call",)

    def __init__(self, call: Any = None) -> None:
        self._call = call

    def __call__(self, *arguments: object) -> Any:
        return self._call(*arguments)

    def __setstate__(self, state: object) -> None:
        raise RefusedError("it changes a global")


def _make_dtype(letters: object, align: object = False, copy: object = True) -> Dtype:
    return Dtype(letters)


def _reconstruct(kind: object, shape: object, letters: object) -> Array:
    if kind is not _NDARRAY:
        raise RefusedError("it holds a damaged array")
    return Array()


def _from_buffer(data: object, dtype: object, shape: object, order: object) -> Array:
    """Array constructor of protocol 5."""
    data = bytes(data) if type(data) is bytearray else data
    return Array(dtype, shape, data, fortran=order == "F")


def _scalar(dtype: object, data: object) -> Any:
    """The plain value of a numpy scalar."""
    data = _bytes(data)
    if type(dtype) is not Dtype or type(data) is not bytes or len(data) != dtype.item or dtype.letters[0] == "O":
        raise RefusedError("it holds a damaged number")
    return dtype.items(data)[0] if data else "" if dtype.letters[0] == "U" else b""


def _encode(text: object, encoding: object) -> bytes:
    """``codecs.encode`` restricted to the call by which protocols below 3 write bytes."""
    if type(text) is not str or encoding != "latin1":
        raise RefusedError("it asks for the global '_codecs.encode' with an encoding that writes no bytes")
    return text.encode("latin1")


_NDARRAY = _Name()
_GLOBALS: dict[tuple[str, str], _Name] = {
    ("numpy", "ndarray"): _NDARRAY,
    ("numpy", "dtype"): _Name(_make_dtype),
    ("_codecs", "encode"): _Name(_encode),
}
for _core in ("numpy.core", "numpy._core"):  # before numpy 2, and since
    _GLOBALS[f"{_core}.multiarray", "_reconstruct"] = _Name(_reconstruct)
    _GLOBALS[f"{_core}.multiarray", "scalar"] = _Name(_scalar)
    _GLOBALS[f"{_core}.numeric", "_frombuffer"] = _Name(_from_buffer)


class _Unpickler(pickle.Unpickler):
    def find_class(self, module_name: str, global_name: str) -> Any:
        try:
            return _GLOBALS[module_name, global_name]
        except KeyError:
            name = "".join(
                letter if letter.isprintable() else "?" for letter in f"{module_name}.{global_name}"[:_SHOWN]
            )
            raise _forbidden(f"the global '{name}'") from None

    def persistent_load(self, pid: object) -> Any:
        raise _forbidden("a persistent id")


def load(file: BinaryIO) -> Any:
    """Load a pickle: plain values, Array, and possibly other built-in objects that are not plain.

    Raises:
        RefusedError: The pickle refers to anything but arrays, numbers and texts.
    """
    return _Unpickler(file, encoding="latin1").load()


def _bytes(data: object) -> object:
    """Data as bytes, also if Python 2 wrote it as a text."""
    return data.encode("latin1") if type(data) is str else data


def _forbidden(what: str) -> RefusedError:
    return RefusedError(f"it is a pickle that asks for {what}, which is not plain data; nothing was run")
