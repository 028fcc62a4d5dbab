"""Messages between a process and its sandbox: JSON, and bytes beside it. Nothing in a message is ever run.

The sizes come first and are checked before anything is read, because the process on the other side may have been taken
over by the file that it reads.
"""

from __future__ import annotations

import json
import os
import socket
import struct
import time
from typing import Any, Final

_MIB = 1 << 20
MOST_TEXT: Final = 64 * _MIB
"""Bytes of JSON in a message."""
_MOST_BYTES: Final = 512 * _MIB
"""Bytes beside the JSON; a page of 64 million pixels has 192 MB."""
_MOST_VALUES: Final = 10_000_000
"""Commas and brackets of the JSON: an empty list in memory takes twenty times the three bytes of ``[],``."""
_PLACE: Final = "\0"
"""Key of the dict that stands for bytes, an array or a file in the JSON."""
_HEAD: Final = struct.Struct("<QQII")
_BEGIN: Final = 1 << 16
"""Bytes that are read with the head."""
_DTYPES: Final = frozenset({"<f2", ">f2", "=f2", "<f4", ">f4", "=f4", "<f8", ">f8", "=f8"})


class MessageError(Exception):
    """A message exceeds a limit, or is none."""


def send(channel: socket.socket, value: object) -> None:
    """Send plain data: None, bool, int, float, str, bytes, list, tuple (as list), and dict with texts as keys.

    An open file becomes a descriptor of the other process. What has a method ``parts`` (bytes, dtype, shape, whether in
    Fortran order) becomes an array.

    Raises:
        MessageError: It is larger than a message may be.
        TypeError: It is not plain data.
    """
    beside: list[bytes] = []
    files: list[int] = []

    def place(one: Any) -> dict[str, Any]:
        if isinstance(one, bytes):
            beside.append(one)
            return {_PLACE: len(one)}
        if hasattr(one, "parts"):
            data, dtype, shape, fortran = one.parts()
            beside.append(data)
            return {_PLACE: len(data), "dtype": dtype, "shape": shape, "fortran": fortran}
        files.append(one.fileno() if hasattr(one, "fileno") else _not_plain())
        return {_PLACE: None}

    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=place).encode("utf-8", "surrogatepass")
    size = sum(map(len, beside))
    if len(text) > MOST_TEXT or size > _MOST_BYTES:
        raise MessageError(f"what it holds is larger than {MOST_TEXT // _MIB} MiB")
    begin, rest = text[:_BEGIN], text[_BEGIN:]
    head = _HEAD.pack(len(text), size, len(files), len(beside) + len(files)) + begin
    sent = socket.send_fds(channel, [head], files)
    for part in (head[sent:], rest, *beside):
        if part:
            channel.sendall(part)


def receive(channel: socket.socket, seconds: float | None = None, *, most_files: int = 0) -> Any:
    """Receive what was sent.

    Args:
        seconds: Longest wait for the whole message, or None to wait for ever.
        most_files: Files that may come with it; they are open for reading.

    Raises:
        EOFError: The other side has ended.
        TimeoutError: It takes longer.
        MessageError: It exceeds a limit, or is no message.
    """
    deadline = None if seconds is None else time.monotonic() + seconds
    channel.settimeout(seconds)
    begin, numbers, _, _ = socket.recv_fds(channel, _HEAD.size + _BEGIN, most_files)
    if len(begin) < _HEAD.size:
        raise EOFError
    length, size, count, places = _HEAD.unpack_from(begin)
    if length > MOST_TEXT or size > _MOST_BYTES or count != len(numbers):
        raise MessageError("a result that is too large")
    files = iter([os.fdopen(number, "rb") for number in numbers])
    whole = _read(channel, begin[_HEAD.size :], length + size, deadline)
    text, beside = whole[:length], memoryview(whole)[length:]
    if sum(map(text.count, (b",", b"[", b"{"))) > _MOST_VALUES:
        raise MessageError("a result that is too large")
    place = 0

    def placed(one: dict[str, Any]) -> Any:
        nonlocal place
        if _PLACE not in one:
            return one
        if (held := one[_PLACE]) is None:
            return next(files)
        if type(held) is not int or not 0 <= held <= len(beside) - place:
            raise ValueError("not plain data")
        part = bytes(beside[place : place + held])
        place += held
        return _array(part, one["dtype"], one["shape"], one["fortran"]) if "dtype" in one else part

    try:
        return json.loads(text.decode("utf-8", "surrogatepass"), object_hook=placed if places else None)
    except (ValueError, TypeError, KeyError, StopIteration, RecursionError) as error:
        raise MessageError("a result that is not plain data") from error


def _read(channel: socket.socket, begin: bytes, size: int, deadline: float | None) -> bytearray:
    """All bytes of a message, of which the first have been read."""
    data = bytearray(size)
    data[: len(begin)] = begin
    view, place = memoryview(data), len(begin)
    while place < size:
        if deadline is not None:
            channel.settimeout(max(0.001, deadline - time.monotonic()))
        count = channel.recv_into(view[place:])
        if not count:
            raise EOFError
        place += count
    return data


def _array(data: bytes, dtype: object, shape: list[int], fortran: object) -> Any:
    import numpy as np

    if dtype not in _DTYPES:
        raise ValueError("not plain data")
    return np.ndarray(shape, str(dtype), data, order="F" if fortran else "C")


def _not_plain() -> int:
    raise TypeError("not plain data")
