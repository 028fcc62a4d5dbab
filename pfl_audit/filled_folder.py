"""Folders that a command fills as a whole: complete, or not there.

While a command fills a folder, its marker is in it. What a killed command left is removed by the next command that
fills the folder, and is read by none.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from pfl_audit import files
from pfl_audit.errors import AuditError
from pfl_audit.out_folder import MARKER, OutFolder, kind_in

_KIND: Final = "filling"


def require_new(folder: Path) -> None:
    """Check that a folder is missing, empty, or left by a command that was killed while it filled it.

    Raises:
        UsageError: The folder is not empty, or its name is invalid.
        AuditError: The path or one above it is not a folder.
    """
    if not is_unfinished(folder):
        files.require_new(folder)


@contextlib.contextmanager
def whole_or_nothing(folder: Path) -> Iterator[None]:
    """Fill a new folder, and empty it again where that fails, so that the same command can be repeated.

    Raises:
        UsageError: The folder is not empty, or its name is invalid.
        AuditError: The path or one above it is not a folder, or another process fills it.
    """
    require_new(folder)
    with OutFolder(folder, _KIND) as out:
        try:
            _empty(folder)
        except OSError as error:
            raise files.cannot_write(folder, error) from error
        try:
            yield
        except BaseException:
            with contextlib.suppress(OSError):  # the first failure is the one to report
                _empty(folder)
            raise
        out.finish()


def is_unfinished(folder: Path) -> bool:
    """Whether a command is filling a folder, or was killed while it did."""
    return kind_in(folder) == _KIND


def refuse_unfinished(folder: Path) -> None:
    """Refuse to read a folder that is not complete.

    Raises:
        AuditError: A command is filling the folder, or was killed while it did.
    """
    if is_unfinished(folder):
        raise AuditError(f"{folder} is not complete", "Wait for the command that fills it, or repeat it")


def _empty(folder: Path) -> None:
    """Remove everything but the marker."""
    for path in list(folder.iterdir()):
        if path.name == MARKER:
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
