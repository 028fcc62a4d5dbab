"""Output folder of a command: new or its own, locked, and removed if nothing was written."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import stat
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pfl_audit.errors import AuditError, UsageError, another_run
from pfl_audit.files import cannot_write, is_new, make_folder, remove_empty, sha256_json
from pfl_audit.inputs import read_bytes

MARKER = ".pfl-audit"
_PART = re.compile(r"\..+\.[a-z0-9_]{8}\.part")
"""Temporary files of atomic_write in a killed run."""
_LARGEST = 4096
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)
_open_folders: weakref.WeakSet[OutFolder] = weakref.WeakSet()


class OutFolder:
    """Exclusive output folder of a process.

    The folder is new (missing or empty), or contains the marker of the same kind of command. The marker is locked while
    the process writes; the kernel releases the lock whenever the process ends. Temporary files of a killed process
    are removed. If nothing is written, the marker and the created folders are removed as well.

    Args:
        path: Output folder.
        kind: Kind of output, such as "audit".
        settings: Settings that determine the output, as JSON; None if the caller compares them.
        keeps: File names; if one exists, other settings are refused.
        private: Whether only the owner has access; otherwise the umask applies.

    Raises:
        UsageError: The folder has files of another command or of other settings, or its name is invalid.
        AuditError: Another process writes into the folder, it contains a link, or it is not a folder.
    """

    def __init__(
        self, path: Path, kind: str, settings: Any = None, *, keeps: Sequence[str] = (), private: bool = False
    ) -> None:
        self.path = path
        self._kind = kind
        new = is_new(path)
        self._owned = new
        try:
            self._made = make_folder(path, private=private) if new else []
        except OSError as error:
            raise cannot_write(path, error) from error
        try:
            self._handle = self._lock(new)
            self._release = weakref.finalize(self, os.close, self._handle)
            _open_folders.add(self)
            self._claim(None if settings is None else sha256_json(settings), keeps)
        except BaseException:
            self.close()
            raise

    def finish(self) -> None:
        """Remove the marker: the output is complete, and no command continues in the folder."""
        (self.path / MARKER).unlink(missing_ok=True)

    def close(self) -> None:
        """Release the folder."""
        if (release := getattr(self, "_release", None)) is None:
            remove_empty(self._made)
        elif release.alive:
            if self._owned and self._names() == {MARKER}:
                (self.path / MARKER).unlink(missing_ok=True)
                remove_empty(self._made)
            release()

    def __enter__(self) -> OutFolder:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    def _lock(self, new: bool) -> int:
        """Open and lock the marker."""
        marker = self.path / MARKER
        flags = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | (os.O_CREAT if new else 0)
        while True:
            try:
                handle = os.open(marker, flags, 0o600)
            except OSError as error:
                if error.errno in (errno.ENOENT, errno.ELOOP, errno.EISDIR, errno.ENXIO):
                    raise self._foreign_error() from error
                raise cannot_write(marker, error) from error
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.path.samestat(os.fstat(handle), marker.stat()):  # unless another process has just removed it
                    return handle
            except FileNotFoundError:
                pass
            except OSError as error:
                if error.errno in _NO_LOCKS:
                    return handle
                os.close(handle)
                if isinstance(error, BlockingIOError):
                    raise AuditError(
                        f"{self.path} is in use: another pfl-audit writes into it",
                        "Wait until it has ended, or name another --out",
                    ) from error
                raise cannot_write(marker, error) from error
            os.close(handle)

    def _claim(self, settings: str | None, keeps: Sequence[str]) -> None:
        held = self._content()
        if held is None and self._names() != {MARKER}:  # a marker is empty if its writer was killed
            raise self._foreign_error()
        if held is not None and held.get("kind") != self._kind:
            raise UsageError(f"{self.path} holds the files of another command", "Name another --out")
        if held is not None and held.get("settings") != settings and any((self.path / name).exists() for name in keeps):
            raise another_run(self.path)
        self._owned = True
        self._clean_up()
        content = json.dumps({"made_by": "pfl-audit", "kind": self._kind, "settings": settings}).encode()
        try:
            os.pwrite(self._handle, content, 0)
            os.ftruncate(self._handle, len(content))
        except OSError as error:
            raise cannot_write(self.path / MARKER, error) from error

    def _content(self) -> dict[str, Any] | None:
        """Content of the marker, or None if it is empty."""
        if not stat.S_ISREG(os.fstat(self._handle).st_mode):
            raise self._foreign_error()
        if not (text := os.pread(self._handle, _LARGEST, 0)):
            return None
        if (content := _read_marker(text)) is None:
            raise self._foreign_error()
        return content

    def _clean_up(self) -> None:
        """Refuse links, which lead out of the folder, and remove temporary files of a killed run."""
        for place, folders, files in os.walk(self.path):
            for name in (*folders, *files):
                path = Path(place) / name
                if path.is_symlink():
                    raise AuditError(f"{path} is a link, which is not followed", "Delete it, or name another --out")
            for name in files:
                if _PART.fullmatch(name):
                    (Path(place) / name).unlink(missing_ok=True)
            # Folders of other runs are not touched.
            folders[:] = [name for name in folders if not (Path(place) / name / MARKER).exists()]

    def _names(self) -> set[str]:
        return {path.name for path in self.path.iterdir()}

    def _foreign_error(self) -> UsageError:
        return UsageError(f"{self.path} holds files that this command did not make", "Name another --out")


def kind_in(folder: Path) -> str | None:
    """Kind of output in a folder by its marker; None without a marker of ours."""
    try:
        found = _read_marker(read_bytes(folder / MARKER, limit=_LARGEST))
    except AuditError:
        return None
    return None if found is None else found.get("kind")


def _read_marker(text: bytes) -> dict[str, Any] | None:
    """Content of a marker; None if it is not one of ours."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) and content.get("made_by") == "pfl-audit" else None


def _release_in_child() -> None:
    """Release locks in a forked worker, which may outlive the process that holds them."""
    for folder in list(_open_folders):
        folder._release()


os.register_at_fork(after_in_child=_release_in_child)
