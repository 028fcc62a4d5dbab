"""Running processes that tests share, such as an interpreter that forks commands."""

from __future__ import annotations

import os
from pathlib import Path

helpers: set[int] = set()
"""Their process ids; what they use is counted as the time of the tests, see ``tests/timing.py``."""
_TICKS = os.sysconf("SC_CLK_TCK")


def helper_seconds() -> float:
    """CPU seconds of all of them, and of their children that have ended."""
    return sum(map(_seconds, helpers))


def _seconds(number: int) -> float:
    """0 of a process that is gone."""
    try:
        fields = Path(f"/proc/{number}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / _TICKS
