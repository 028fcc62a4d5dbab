"""One command of pfl-audit with a profile of the files that its calls enter; see ``tests.bench.hops``."""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType
from typing import Any

from pfl_audit.cli.main import main

ROOT = str(Path(__file__).resolve().parents[2])


class Profile:
    """Counts files that functions of the checkout are entered in, and changes of file."""

    def __init__(self) -> None:
        self.entered: set[str] = set()
        self.changes = 0
        self._last = ""

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        """Count a call; a module or a class body is none."""
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(ROOT) or not code.co_flags & 1:
            return
        name = str(Path(code.co_filename).resolve()) if code.co_filename != self._last else self._last
        if "/.venv/" in name or "/tests/" in name:
            return
        self.entered.add(name)
        self.changes += name != self._last
        self._last = name


def loaded() -> int:
    """Number of modules of the checkout that are imported."""
    files = {
        str(Path(found).resolve())
        for module in list(sys.modules.values())
        if (found := getattr(module, "__file__", None))
    }
    return sum(name.startswith(ROOT) and "/.venv/" not in name and "/tests/" not in name for name in files)


if __name__ == "__main__":
    profile = Profile()
    sys.setprofile(profile)
    try:
        main()
    except SystemExit as end:
        code = end.code
    finally:
        sys.setprofile(None)
        print(f"{loaded()} | {len(profile.entered)} | {profile.changes}")
    sys.exit(0 if code in (0, 1, 3, None) else code)
