"""Pickled object arrays, read as plain data without executing the pickle.

PFL-DocVQA's ``imdb_*.npy`` are pickles, and a pickle is a program. A child process with limits of memory and time reads
the file (``npy_rows``), creates no numpy objects from its content (``npy_pickle``), and returns plain values.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from pfl_audit.documents.npy_rows import SHARED
from pfl_audit.errors import AuditError
from pfl_audit.inputs import MIB, open_input
from pfl_audit.sandbox import Sandbox, SandboxError

MAX_BYTES = 8 << 30
_CHILD = "pfl_audit.documents.npy_rows:next_rows"
_MEMORY, _MEMORY_PER_BYTE = 256 * MIB, 16
"""Memory limit of the child in bytes; a short word takes 13 times as many bytes in memory as in the file."""
_SECONDS, _SECONDS_PER_BYTE = 10.0, 2e-7
"""CPU limit of a call; four times the need of words and boxes as lists of numbers."""
_REMEDY = "Get the file from its publisher again, and do not open it with other tools"


def read_object_arrays(paths: Sequence[Path]) -> Iterator[tuple[Path, int, Any]]:
    """Iterate over the elements of one-dimensional ``.npy`` files of records, in one child process.

    Args:
        paths: Files written by ``numpy.save``: pickled object arrays or plain arrays.

    Yields:
        The file, the row, and the element: dict, list, str, int, float, bool, None or bytes. Arrays are lists; those
        of floats with two and more dimensions are arrays.

    Raises:
        UsageError: A file does not exist.
        AuditError: A file is not an ``.npy`` file, is damaged, or is a pickle that refers to more than plain data (the
            message names the global), or that needs more memory or time than the limits for its size.
    """
    sizes = [_size(path) for path in paths]
    if not sizes:
        return
    memory, seconds = _MEMORY + _MEMORY_PER_BYTE * max(sizes), _SECONDS + _SECONDS_PER_BYTE * max(sizes)
    with Sandbox(_CHILD, memory=memory, seconds=seconds, keeps_state=True) as child:
        for path in paths:
            with open_input(path, limit=MAX_BYTES) as file:
                for row, value in enumerate(_elements(child, path, file)):
                    yield path, row, value


def _size(path: Path) -> int:
    with open_input(path, limit=MAX_BYTES) as file:
        return file.seek(0, io.SEEK_END)


def _elements(child: Sandbox, path: Path, file: BinaryIO) -> Iterator[Any]:
    piece = _call(child, path, file)
    while piece is not None:
        shared: list[Any] = []
        for row in piece:
            yield _restored(row, shared)
        piece = _call(child, path)


def _restored(row: Any, shared: list[Any]) -> Any:
    """A row with the values that it shares with earlier ones, whose numbers ``npy_rows`` has put in their place."""
    if not isinstance(row, dict):
        return row
    for name, value in row.items():
        if isinstance(value, dict) and isinstance(number := value.get(SHARED), int) and 0 <= number < len(shared):
            row[name] = shared[number]
        elif not isinstance(value, str | int | float | None):
            shared.append(value)
    return row


def _call(child: Sandbox, *arguments: Path | BinaryIO) -> Any:
    try:
        found = child.call(*arguments[1:])
        if not isinstance(found, list | None):
            raise SandboxError("ended")
        return found
    except SandboxError as error:
        reason = error.reason(
            f"it is damaged ({error.text or 'the reader ended'})",
            "it needs more memory than a file of its size may use",
            "it takes longer than a file of its size may take",
        )
        raise AuditError(f"{arguments[0]} cannot be read: {reason}", _REMEDY) from error
