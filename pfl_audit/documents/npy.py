"""Pickled object arrays without running them: only plain data comes out, or nothing.

PFL-DocVQA's ``imdb_*.npy`` are pickles, and a pickle is a program. A child with limits of memory and time reads the
file (``npy_rows``), makes no object of numpy of what it says (``npy_pickle``), and hands over plain values.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pfl_audit.confined import Confined, ConfinedError
from pfl_audit.documents.npy_pickle import Array
from pfl_audit.errors import AuditError
from pfl_audit.inputs import MIB, open_input

MAX_BYTES = 8 << 30
_CHILD = "pfl_audit.documents.npy_rows:next_rows"
_MEMORY, _MEMORY_PER_BYTE = 256 * MIB, 16
"""Of the child: a short word takes 13 times as many bytes in memory as in the file."""
_SECONDS, _SECONDS_PER_BYTE = 10.0, 2e-7
"""Of the child: four times what words and boxes as lists of numbers need."""
_REMEDY = "Get the file from its publisher again, and do not open it with other tools"


def read_object_arrays(paths: Sequence[Path]) -> Iterator[tuple[Path, int, Any]]:
    """The elements of one-dimensional ``.npy`` files of records, one child for all of them.

    Args:
        paths: Files written by ``numpy.save``; pickled object arrays and plain arrays both do.

    Yields:
        The file, the row, and the element: dict, list, str, int, float, bool, None or bytes. Arrays are lists; those
        of floats with two and more dimensions are arrays.

    Raises:
        UsageError: There is no such file.
        AuditError: Not an ``.npy`` file, damaged, or a pickle that asks for more than plain data (the message names
            what it asks for), or for more memory or time than a file of its size may.
    """
    sizes = [_size(path) for path in paths]
    if not sizes:
        return
    memory, seconds = _MEMORY + _MEMORY_PER_BYTE * max(sizes), _SECONDS + _SECONDS_PER_BYTE * sum(sizes)
    with Confined(_CHILD, memory=memory, seconds=seconds) as child:
        for path in paths:
            for row, value in enumerate(_elements(child, path)):
                yield path, row, value


def _size(path: Path) -> int:
    with open_input(path, limit=MAX_BYTES) as file:
        return file.seek(0, io.SEEK_END)


def _elements(child: Confined, path: Path) -> Iterator[Any]:
    while (piece := _call(child, path)) is not None:
        unpickler = _Unpickler(io.BytesIO(piece))
        while True:
            try:
                value = unpickler.load()
            except EOFError:
                break
            yield value


def _call(child: Confined, path: Path) -> Any:
    try:
        return child.call(str(path))
    except ConfinedError as error:
        reasons = {
            "refused": error.text,
            "memory": "it needs more memory than a file of its size may",
            "time": "it takes longer than a file of its size may",
        }
        reason = reasons.get(error.kind, f"it is damaged ({error.text or 'the reader ended'})")
        raise AuditError(f"{path} cannot be read: {reason}", _REMEDY) from error


class _Unpickler(pickle.Unpickler):
    """Plain values, and arrays of floats."""

    def find_class(self, module_name: str, global_name: str) -> Any:
        if (module_name, global_name) == (Array.__module__, Array.__name__):
            return _floats
        raise pickle.UnpicklingError("not plain data")


def _floats(order: str, letters: str, shape: tuple[int, ...], data: bytes, fortran: bool) -> np.ndarray[Any, Any]:
    return np.ndarray(shape, np.dtype(order + letters), data, order="F" if fortran else "C")
