"""A folder that a command writes into: new, or its own from before; locked, and left as it was where nothing came."""

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
from types import TracebackType
from typing import Any

from pfl_audit.errors import AuditError, UsageError
from pfl_audit.files import cannot_write, is_new, make_folder, remove_empty, sha256_json

MARKER = ".pfl-audit"
_PART = re.compile(r"\..+\.[a-z0-9_]{8}\.part")
"""What atomic_write leaves of a killed run."""
_LARGEST = 4096
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)
_held: weakref.WeakSet[OutFolder] = weakref.WeakSet()


class OutFolder:
    """A folder that one process writes into.

    It is new (missing or empty), or holds the marker that the same kind of command has written. The marker is locked
    as long as the process writes; the kernel lets go of it when the process ends, however it ends. Files that a killed
    process left half-written are removed. Where nothing came of it, so are the marker and the folders that were made.

    Args:
        path: The folder.
        kind: Of what is written into it, such as "audit".
        settings: What decides what is written, as JSON; None where the caller compares it.
        keeps: Names of files; where one is there, other settings are refused.
        private: For the owner only, else the umask decides.

    Raises:
        UsageError: It holds what others made, or what other settings made, or it is no name of a folder.
        AuditError: Another process writes into it, a link is in it, or it cannot be a folder.
    """

    def __init__(
        self, path: Path, kind: str, settings: Any = None, *, keeps: Sequence[str] = (), private: bool = False
    ) -> None:
        self.path = path
        self._kind = kind
        new = is_new(path)
        self._mine = new
        try:
            self._made = make_folder(path, private=private) if new else []
        except OSError as error:
            raise cannot_write(path, error) from error
        try:
            self._handle = self._lock(new)
            self._let_go = weakref.finalize(self, os.close, self._handle)
            _held.add(self)
            self._claim(None if settings is None else sha256_json(settings), keeps)
        except BaseException:
            self.close()
            raise

    def finish(self) -> None:
        """Remove the marker: what is in the folder is complete, and no command goes on in it."""
        (self.path / MARKER).unlink(missing_ok=True)

    def close(self) -> None:
        """Let go of the folder."""
        if (let_go := getattr(self, "_let_go", None)) is None:
            remove_empty(self._made)
        elif let_go.alive:
            if self._mine and self._names() == {MARKER}:
                (self.path / MARKER).unlink(missing_ok=True)
                remove_empty(self._made)
            let_go()

    def __enter__(self) -> OutFolder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _lock(self, new: bool) -> int:
        """The open marker, which no other process has locked."""
        marker = self.path / MARKER
        flags = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | (os.O_CREAT if new else 0)
        while True:
            try:
                handle = os.open(marker, flags, 0o600)
            except OSError as error:
                if error.errno in (errno.ENOENT, errno.ELOOP, errno.EISDIR, errno.ENXIO):
                    raise self._foreign() from error
                raise cannot_write(marker, error) from error
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.path.samestat(os.fstat(handle), marker.stat()):  # or another has just removed it
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
        if held is None and self._names() != {MARKER}:  # an empty marker is one whose writer was killed
            raise self._foreign()
        if held is not None and held.get("kind") != self._kind:
            raise UsageError(f"{self.path} holds the files of another command", "Name another --out")
        if held is not None and held.get("settings") != settings and any((self.path / name).exists() for name in keeps):
            raise UsageError(
                f"{self.path} holds a run with other data or settings",
                "Name another --out, or repeat the command that began it",
            )
        self._mine = True
        self._tidy()
        content = json.dumps({"made_by": "pfl-audit", "kind": self._kind, "settings": settings}).encode()
        try:
            os.pwrite(self._handle, content, 0)
            os.ftruncate(self._handle, len(content))
        except OSError as error:
            raise cannot_write(self.path / MARKER, error) from error

    def _content(self) -> dict[str, Any] | None:
        """What the marker says; None where it is empty."""
        if not stat.S_ISREG(os.fstat(self._handle).st_mode):
            raise self._foreign()
        text = os.pread(self._handle, _LARGEST, 0)
        try:
            content = json.loads(text) if text else None
        except (ValueError, RecursionError) as error:
            raise self._foreign() from error
        if text and not (isinstance(content, dict) and content.get("made_by") == "pfl-audit"):
            raise self._foreign()
        return content

    def _tidy(self) -> None:
        """Refuse links, which would lead out of the folder, and remove what a killed run left half-written."""
        for place, folders, files in os.walk(self.path):
            for name in (*folders, *files):
                path = Path(place) / name
                if path.is_symlink():
                    raise AuditError(f"{path} is a link, which is not followed", "Delete it, or name another --out")
            for name in files:
                if _PART.fullmatch(name):
                    (Path(place) / name).unlink(missing_ok=True)
            # Another run's folder in this one is its own affair.
            folders[:] = [name for name in folders if not (Path(place) / name / MARKER).exists()]

    def _names(self) -> set[str]:
        return {path.name for path in self.path.iterdir()}

    def _foreign(self) -> UsageError:
        return UsageError(f"{self.path} holds files that this command did not make", "Name another --out")


def _let_go_in_child() -> None:
    """A forked worker may outlive the process that holds the lock, and must not hold it."""
    for folder in list(_held):
        folder._let_go()


os.register_at_fork(after_in_child=_let_go_in_child)
