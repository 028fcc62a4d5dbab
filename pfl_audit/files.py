"""Writing files whole or not at all, and naming files by their content."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from pfl_audit.errors import AuditError, UsageError

_CHUNK = 1 << 20


def require_new(folder: Path) -> None:
    """Check that nothing is there yet.

    Raises:
        UsageError: A file, or a folder that holds something.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"{folder} is not empty", "Name a new folder")


@contextlib.contextmanager
def atomic_write(path: Path, *, private: bool = True) -> Iterator[IO[bytes]]:
    """Open a file that appears under its name only once it is complete.

    The bytes go to a temporary file in the same folder, are flushed to disk and renamed over
    ``path``; on any error nothing of it is left.

    Args:
        path: Where the file shall stand. Missing parent folders are made.
        private: Readable by the owner only (results hold recovered text), else the umask decides.

    Raises:
        AuditError: The disk is full, or the folder cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    except OSError as error:
        raise _cannot_write(path, error) from error
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
        raise _cannot_write(path, error) from error
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def write_text(path: Path, text: str, *, private: bool = True) -> None:
    """Write ``text`` as UTF-8, whole or not at all."""
    with atomic_write(path, private=private) as file:
        file.write(text.encode())


def write_json(path: Path, value: object, *, private: bool = True) -> None:
    """Write ``value`` as indented JSON with a final newline, whole or not at all."""
    text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)
    write_text(path, text + "\n", private=private)


def read_json(path: Path, *, limit: int = 64 << 20) -> Any:
    """Parse a JSON file as data.

    Raises:
        AuditError: The file is missing, larger than ``limit`` bytes, or not JSON.
    """
    try:
        if path.stat().st_size > limit:
            raise AuditError(f"{path} is larger than {limit >> 20} MiB", "Check that it is the right file")
        return json.loads(path.read_bytes())
    except OSError as error:
        raise AuditError(f"{path} cannot be read: {error.strerror}", "Check the path") from error
    except (ValueError, RecursionError) as error:
        raise AuditError(f"{path} is not valid JSON: {error}", "Export the file again") from error


def sha256_file(path: Path) -> str:
    """Return the hexadecimal SHA-256 of a file's bytes."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def sha256_json(value: object) -> str:
    """Return the hexadecimal SHA-256 of a JSON value, independent of the order of its keys."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _cannot_write(path: Path, error: OSError) -> AuditError:
    return AuditError(f"{path} cannot be written: {error.strerror or error}", "Free some space or choose another --out")
