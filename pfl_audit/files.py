"""Atomic writing of files, and creation of folders."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from pfl_audit.errors import AuditError, StorageError, UsageError
from pfl_audit.inputs import is_there, kind_of, open_input

PAGE_MARK = '<meta name="generator" content="pfl-audit">'
"""Mark in the head of every HTML page of pfl-audit; only pages with it are overwritten."""
_HEAD = 1024
_NAMED = 200
"""Bytes of a name in that of its temporary file, which is longer, and a name has at most 255."""
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_FORBIDDEN = (errno.EACCES, errno.EPERM, errno.EROFS)
_NO_NAME = (errno.ENAMETOOLONG, errno.EILSEQ)
_TAKEN = (*_NO_NAME, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ELOOP)


def require_new(folder: Path) -> None:
    """Check that a folder is missing or empty.

    Raises:
        UsageError: The folder is not empty, or its name is invalid.
        AuditError: The path or one above it is not a folder.
    """
    if not is_new(folder):
        raise UsageError(f"{folder} is not empty", "Name a new folder")


def is_new(folder: Path) -> bool:
    """Whether a folder is missing or empty.

    Raises:
        UsageError: The name is invalid.
        AuditError: The path or one above it is not a folder, or cannot be read.
    """
    try:
        str(folder).encode()  # results contain the name
        mode = folder.stat().st_mode
        if stat.S_ISDIR(mode):
            with os.scandir(folder) as entries:
                return not any(entries)
    except ValueError as error:
        raise UsageError(f"{folder} cannot be a folder: its name is not valid UTF-8", "Name another --out") from error
    except FileNotFoundError as error:
        if folder.is_symlink():
            raise AuditError(f"{folder} is a link that leads nowhere", "Name another --out") from error
        return True
    except OSError as error:
        kind = UsageError if error.errno in _NO_NAME else AuditError
        reason = error.strerror
        if error.errno == errno.ENOTDIR:  # a parent is there, and is a file
            reason = f"{next(place for place in folder.parents if is_there(place))} is not one"
        raise kind(f"{folder} cannot be a folder: {reason}", "Name another --out") from error
    raise AuditError(f"{folder} is a {kind_of(mode)}, not a folder", "Name another --out")


def make_folder(folder: Path, *, private: bool) -> list[Path]:
    """Create a folder and its missing parents.

    Args:
        folder: Folder to create.
        private: Whether only the owner has access; otherwise the umask applies.

    Returns:
        Created folders, the topmost first.

    Raises:
        OSError: The folder cannot be created.
    """
    made: list[Path] = []
    try:
        if folder.is_dir():
            return made
        for place in (*reversed(folder.parents), folder):
            if not place.exists():
                place.mkdir(0o700 if private else 0o777, exist_ok=True)
                made.append(place)
        if not folder.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
    except OSError:
        remove_empty(made)
        raise
    return made


def remove_empty(folders: list[Path]) -> None:
    """Remove folders created by make_folder, as long as they are empty."""
    for folder in reversed(folders):
        try:
            folder.rmdir()
        except OSError:
            return


@contextlib.contextmanager
def atomic_write(path: Path, *, private: bool = True) -> Iterator[IO[bytes]]:
    """Write a file atomically.

    The bytes are written to a temporary file in the same folder, flushed to disk, and renamed to ``path``; on any error
    the temporary file is removed.

    Args:
        path: File to write. Missing parent folders are created.
        private: Whether only the owner has access to the file and to created folders (results contain recovered text);
            otherwise the umask applies.

    Raises:
        StorageError: The disk is full, or the folder cannot be written.
    """
    try:
        make_folder(path.parent, private=private)
        short = os.fsencode(path.name)[:_NAMED].decode(errors="ignore")
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{short}.", suffix=".part")
    except OSError as error:
        raise cannot_write(path, error) from error
    part = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if not private:
            part.chmod(0o666 & ~_umask())
        part.replace(path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise cannot_write(path, error) from error
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def write_text(path: Path, text: str, *, private: bool = True) -> None:
    """Write ``text`` as UTF-8, atomically."""
    with atomic_write(path, private=private) as file:
        file.write(text.encode())


def write_page(path: Path, html: str) -> None:
    """Write an HTML page with PAGE_MARK atomically; only a page with PAGE_MARK is overwritten.

    Raises:
        UsageError: The path is another file.
        AuditError: The path is not a file.
    """
    try:
        mode = path.lstat().st_mode
    except (OSError, ValueError):
        mode = None
    if mode is not None and not stat.S_ISREG(mode):
        raise AuditError(f"{path} is a {kind_of(mode)}, not a page of pfl-audit", "Move it away, or name another --out")
    if mode is not None:
        with open_input(path, limit=None) as file:
            head = file.read(_HEAD)
        if PAGE_MARK.encode() not in head:
            raise UsageError(f"{path} is not a page of pfl-audit", "Move it away, or name another --out")
    write_text(path, html)


def write_json(path: Path, value: object, *, private: bool = True) -> None:
    """Write ``value`` as indented JSON with a final newline, atomically."""
    text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)
    write_text(path, text + "\n", private=private)


def sha256_json(value: object) -> str:
    """Return the hexadecimal SHA-256 of a JSON value, independent of the order of its keys."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def remedy_for(error: OSError, option: str = "--out") -> str:
    """Remedy for a file that cannot be written."""
    if error.errno in _FULL:
        return f"Free some space or choose another {option}"
    if error.errno in _FORBIDDEN:
        return f"Make it writable, or choose another {option}"
    if error.errno in _TAKEN:
        return f"Choose another {option}"
    return f"Check the disk, or choose another {option}"


def cannot_write(path: Path, error: OSError) -> StorageError:
    """The error for a file or folder that cannot be written."""
    return StorageError(f"{path} cannot be written: {error.strerror or error}", remedy_for(error))
