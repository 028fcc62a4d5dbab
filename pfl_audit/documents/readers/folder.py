"""Files of a corpus in nested folders."""

from __future__ import annotations

import os
from pathlib import Path

from pfl_audit.errors import AuditError

MAX_FILES = 1_000_000


def files_below(root: Path, suffixes: tuple[str, ...]) -> list[Path]:
    """Paths below a folder with one of the ``suffixes``, folders excluded, sorted.

    Links to folders are not followed. Pipes, sockets and devices are included: opening one is refused with an error
    that names it, and leaving it out would hide it.

    Args:
        suffixes: File name suffixes in lower case, such as ``.npy``; case is ignored.

    Raises:
        AuditError: A folder cannot be listed, or there are more than MAX_FILES files.
    """
    found: list[str] = []
    folders, seen = [str(root)], 0
    while folders:
        folder = folders.pop()
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    seen += 1
                    if seen > MAX_FILES:
                        raise AuditError(
                            f"{root} holds more than {MAX_FILES:,} files", "Give the folder of the corpus alone"
                        )
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
                    elif entry.name.lower().endswith(suffixes) and not Path(entry.path).is_dir():
                        found.append(entry.path)
        except OSError as error:
            raise AuditError(
                f"{folder} cannot be listed: {error.strerror}", "Check the folder and its permissions"
            ) from error
    return [Path(path) for path in sorted(found)]
