"""Corpora and small models that several tests read, made once for a checkout and shared by the processes of pytest.

They are kept in ``build/prepared``, in a folder named after the content of the source that makes them: of the whole
product, this folder's Python files that are not tests, and the pins of packages. Other folders are removed.
"""

from __future__ import annotations

import fcntl
import hashlib
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path

from tests.house.source import ROOT, product_files

_PLACE = ROOT / "build" / "prepared"
_KEPT = 2
"""Folders of states of the source: this one, and one of another branch."""


def prepared(name: str, make: Callable[[Path], object]) -> Path:
    """A folder that ``make`` fills, from the cache if it is there.

    Args:
        name: Name of the content, unique among all callers.
        make: Fills a folder that does not exist yet. It must not depend on anything but the source.

    Returns:
        The folder. It is shared, so no test writes into it.
    """
    folder = _state() / name
    with (folder.parent / f"{name}.lock").open("a+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # the other process may be making it
        lock.seek(0)
        if not lock.read():
            shutil.rmtree(folder, ignore_errors=True)  # what a killed process left
            make(folder)
            lock.write("made")  # the folder is made where it stays: records of trainings hold its path
    return folder


@cache
def _state() -> Path:
    """Folder of this state of the source; the oldest of the others are removed."""
    digest = hashlib.sha256((ROOT / "constraints.txt").read_bytes())
    support = (path for path in sorted((ROOT / "tests").rglob("*.py")) if not path.name.startswith("test_"))
    for path in (*(ROOT / name for name in product_files()), *support):
        digest.update(path.read_bytes())
    folder = _PLACE / digest.hexdigest()[:12]
    folder.mkdir(parents=True, exist_ok=True)
    others = sorted((one for one in _PLACE.iterdir() if one != folder), key=lambda one: one.stat().st_mtime)
    for old in others[: max(0, len(others) + 1 - _KEPT)]:
        shutil.rmtree(old, ignore_errors=True)
    return folder
