"""Untrusted input files: only regular files are opened, and read up to a limit."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Literal

from pfl_audit.errors import AuditError, UsageError

MIB = 1 << 20
_CHUNK = 1 << 20
_KINDS = (
    (stat.S_ISREG, "file"),
    (stat.S_ISDIR, "folder"),
    (stat.S_ISLNK, "link"),
    (stat.S_ISFIFO, "named pipe"),
    (stat.S_ISSOCK, "socket"),
    (stat.S_ISCHR, "device"),
    (stat.S_ISBLK, "device"),
)
_MISSING = (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG)


def is_regular(path: Path) -> bool:
    """Whether a path is a regular file, or a link to one; False for invalid names."""
    try:
        return stat.S_ISREG(path.stat().st_mode)
    except (OSError, ValueError):
        return False


def is_there(path: Path) -> bool:
    """Whether the path exists, as any kind of file; links are not followed."""
    try:
        path.lstat()
    except (OSError, ValueError):
        return False
    return True


def require_input(path: Path, remedy: str) -> None:
    """Check that a path is a folder or a regular file.

    Raises:
        UsageError: Nothing is there; ``remedy`` is its remedy.
        AuditError: It is something else, or must not be looked at.
    """
    found = _look_at(path, remedy)
    if not stat.S_ISDIR(found.st_mode):
        _require_regular(path, found, remedy)


def require_folder(path: Path, remedy: str) -> None:
    """Check that a path is a folder.

    Raises:
        UsageError: Nothing is there; ``remedy`` is its remedy.
        AuditError: It is something else, or must not be looked at.
    """
    if not stat.S_ISDIR(_look_at(path, remedy).st_mode):
        raise AuditError(f"{path} is no folder", remedy)


def kind_of(mode: int) -> str:
    """Kind of a file by its mode, for errors: "folder", "named pipe", "device"."""
    return next((name for test, name in _KINDS if test(mode)), "special file")


def open_input(path: Path, *, limit: int | None, remedy: str = "Check that it is the right file") -> BinaryIO:
    """Open a regular file for reading; never blocks on a pipe, a socket or a device.

    Args:
        path: File, or a link to one.
        limit: Largest size in bytes, or None if the caller reads a bounded part.
        remedy: Remedy for a file of another kind or above the limit.

    Raises:
        UsageError: The file does not exist.
        AuditError: The file is not regular, is larger than ``limit``, or cannot be read.
    """
    with _opening(path, "Check the path"):
        _require_regular(path, path.stat(), remedy)  # before opening, since opening a device can have side effects
        file = os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb")
    try:
        found = os.fstat(file.fileno())
        _require_regular(path, found, remedy)
        if limit is not None and found.st_size > limit:
            raise AuditError(f"{path} is larger than {_size(limit)}", remedy)
    except BaseException:
        file.close()
        raise
    return file


def read_bytes(path: Path, *, limit: int, remedy: str = "Check that it is the right file") -> bytes:
    """Read a regular file.

    Raises:
        UsageError: The file does not exist.
    """
    with open_input(path, limit=limit, remedy=remedy) as file:
        try:
            data = file.read(limit + 1)
        except OSError as error:
            raise _unreadable(path, error) from error
    if len(data) > limit:  # the file grew, or its file system reports no sizes
        raise AuditError(f"{path} is larger than {_size(limit)}", remedy)
    return data


def read_text(
    path: Path, *, limit: int, remedy: str = "Save it as UTF-8 text", errors: Literal["strict", "replace"] = "strict"
) -> str:
    """Read a regular file as UTF-8 text, with or without a byte order mark.

    Args:
        path: File to read.
        limit: Largest size in bytes.
        remedy: Remedy for a file that cannot be used.
        errors: Whether bytes that are not UTF-8 raise an error or are replaced.

    Raises:
        UsageError: The file does not exist.
        AuditError: As for open_input, or the file is not UTF-8.
    """
    try:
        return read_bytes(path, limit=limit, remedy=remedy).decode("utf-8-sig", errors)
    except UnicodeDecodeError as error:
        raise AuditError(f"{path} is not UTF-8 text", remedy) from error


def read_json(path: Path, *, limit: int = 64 * MIB, remedy: str = "Export the file again") -> Any:
    """Parse a JSON file.

    Raises:
        UsageError: The file does not exist.
        AuditError: As for read_text, or the file is not JSON.
    """
    text = read_text(path, limit=limit, remedy=remedy)
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise AuditError(f"{path} is not valid JSON: {error}", remedy) from error
    except ValueError as error:  # a number of thousands of digits
        raise AuditError(f"{path} is not valid JSON: a number in it is too long", remedy) from error
    except RecursionError as error:
        raise AuditError(f"{path} is nested too deeply", remedy) from error


def sha256_input(path: Path, *, limit: int | None = None) -> str:
    """Return the hexadecimal SHA-256 of the bytes of a regular file of at most ``limit`` bytes.

    Raises:
        UsageError: The file does not exist.
    """
    digest = hashlib.sha256()
    with open_input(path, limit=limit) as file:
        try:
            left = os.fstat(file.fileno()).st_size
            while left > 0 and (chunk := file.read(min(_CHUNK, left))):
                digest.update(chunk)
                left -= len(chunk)
        except OSError as error:
            raise _unreadable(path, error) from error
    return digest.hexdigest()


@contextmanager
def _opening(path: Path, remedy: str) -> Iterator[None]:
    """Raise UsageError with the remedy for what is not there, AuditError for what must not be looked at."""
    try:
        yield
    except ValueError as error:  # a NUL in the name
        raise UsageError(f"{path} is no name of a file", remedy) from error
    except OSError as error:
        if error.errno in _MISSING:
            raise UsageError(f"{path} does not exist", remedy) from error
        raise _unreadable(path, error) from error


def _look_at(path: Path, remedy: str) -> os.stat_result:
    with _opening(path, remedy):
        return path.stat()


def _require_regular(path: Path, found: os.stat_result, remedy: str) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise AuditError(f"{path} is a {kind_of(found.st_mode)}, not a regular file", remedy)


def _unreadable(path: Path, error: OSError) -> AuditError:
    return AuditError(f"{path} cannot be read: {error.strerror or error}", "Check the path and its permissions")


def _size(limit: int) -> str:
    for unit, name in ((1 << 30, "GiB"), (MIB, "MiB"), (1 << 10, "KiB")):
        if limit >= unit:
            return f"{limit / unit:g} {name}"
    return f"{limit} bytes"
