"""Pickled object arrays read as they once were: numpy rebuilds the arrays, in this process.

The values are right for files that are not forged; ``pfl_audit.documents.npy`` must give the same, without numpy.
"""

from __future__ import annotations

import io
import pickle
from pathlib import Path
from typing import Any

import numpy as np

from pfl_audit.errors import AuditError

MAX_BYTES = 8 << 30
_UNFOLDED_PER_BYTE = 64
"""Values that a byte of the file may stand for; questions about one page share its words."""
_DEPTH = 16

_NUMPY_GLOBALS = frozenset(
    (module, name)
    for core in ("numpy.core", "numpy._core")
    for module, name in ((f"{core}.multiarray", "_reconstruct"), (f"{core}.multiarray", "scalar"))
) | {("numpy", "ndarray"), ("numpy", "dtype")}
_PLAIN = (str, int, float, bool, type(None), bytes)


def read_object_array(path: Path) -> list[Any]:
    """Read a one-dimensional ``.npy`` of records as plain Python values.

    Args:
        path: A file written by ``numpy.save``; pickled object arrays and plain arrays both do.

    Returns:
        The elements, as dict, list, tuple, str, int, float, bool or None; arrays become lists.

    Raises:
        AuditError: Not an ``.npy`` file, damaged, or the pickle asks for a global that is not plain
            data (the message names it).
    """
    try:
        if path.stat().st_size > MAX_BYTES:
            raise AuditError(f"{path} is larger than {MAX_BYTES >> 30} GiB", "Check that it is the right file")
        with path.open("rb") as file:
            array = _read(file)
    except OSError as error:
        raise AuditError(f"{path} cannot be read: {error.strerror}", "Check the path") from error
    except _ForbiddenGlobalError as error:
        raise AuditError(
            f"{path} is a pickle that asks for the global '{error}', which is not plain data; nothing was run",
            "Get the file from its publisher again, and do not open it with other tools",
        ) from error
    except _NotPlainError as error:
        raise AuditError(f"{path} holds a {error}, which is not plain data", "Export the file again") from error
    except RecursionError as error:
        raise AuditError(f"{path} is nested too deeply", "Export the file again") from error
    except Exception as error:  # a damaged pickle can raise anything
        raise AuditError(
            f"{path} is not a readable .npy file ({type(error).__name__})", "Export the file again"
        ) from error
    return array


class _ForbiddenGlobalError(Exception):
    pass


class _NotPlainError(Exception):
    pass


class _PlainUnpickler(pickle.Unpickler):
    def find_class(self, module_name: str, global_name: str) -> Any:
        if (module_name, global_name) == ("_codecs", "encode"):
            return _latin1
        if (module_name, global_name) not in _NUMPY_GLOBALS:
            raise _ForbiddenGlobalError(f"{module_name}.{global_name}")
        return super().find_class(module_name, global_name)

    def persistent_load(self, pid: Any) -> Any:
        raise _ForbiddenGlobalError("persistent id")


def _latin1(text: str, encoding: str) -> bytes:
    """How protocols below 3 write bytes; replaces codecs.encode, which can do more."""
    if encoding != "latin1":
        raise _ForbiddenGlobalError("_codecs.encode")
    return text.encode("latin1")


def _read(file: Any) -> list[Any]:
    version = np.lib.format.read_magic(file)
    read_header = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    if version not in read_header:
        raise _NotPlainError(f"format version {version}")
    shape, _, dtype = read_header[version](file)
    if dtype.hasobject:
        if dtype != np.dtype(object):
            raise _NotPlainError(f"dtype {dtype}")
        value = _PlainUnpickler(file, encoding="latin1").load()
    else:
        value = np.load(io.BytesIO(_rewind(file)), allow_pickle=False)
    plain = _Plain(_UNFOLDED_PER_BYTE * file.tell() + 1_000_000).convert(value)
    if isinstance(plain, list):
        return plain
    if shape == ():
        return [plain]
    raise _NotPlainError(type(value).__name__)


def _rewind(file: Any) -> bytes:
    file.seek(0)
    return file.read()


class _Plain:
    """Turns what came out of a pickle into plain values.

    What is shared in the pickle is shared in the result, and its unfolded size is bounded: shared
    references let a small file stand for more values than there is memory.

    Args:
        values: How many values the result may unfold to.
    """

    def __init__(self, values: int) -> None:
        self._values = values
        self._known: dict[int, tuple[Any, int]] = {}
        self._open: set[int] = set()
        self._kept: list[Any] = []

    def convert(self, value: Any) -> Any:
        """Plain values: dict, list, str, numbers, None."""
        return self._convert(value)[0]

    def _convert(self, value: Any) -> tuple[Any, int]:
        """The plain value, and how many values it unfolds to."""
        kind = type(value)
        if kind in _PLAIN:
            return value, 1
        if isinstance(value, np.generic):
            return self._convert(value.item())
        if id(value) in self._known:
            return self._known[id(value)]
        if kind is np.ndarray and not value.dtype.hasobject:
            return value.tolist(), value.size + 1
        if kind not in (list, tuple, dict, np.ndarray):
            raise _NotPlainError(f"value of type {kind.__name__}")
        if id(value) in self._open or len(self._open) >= _DEPTH:
            raise RecursionError
        self._open.add(id(value))
        parts = [self._convert(part) for part in (value.values() if kind is dict else value)]
        self._open.remove(id(value))
        size = 1 + sum(part[1] for part in parts)
        if size > self._values:
            raise _NotPlainError("structure that unfolds without end")
        plain = [part[0] for part in parts]
        result = dict(zip(map(_key, value), plain, strict=True)) if kind is dict else plain
        self._known[id(value)] = result, size
        self._kept.append(value)  # so that no other value gets its id
        return result, size


def _key(key: Any) -> Any:
    if type(key) not in _PLAIN:
        raise _NotPlainError(f"dict key of type {type(key).__name__}")
    return key
