"""What a process does that another one leads."""

from __future__ import annotations

import os
import signal
import threading
import time

LOOK = 1.0
"""Seconds between two looks at whether the process that leads is still there."""


def follow(parent: int | None = None) -> None:
    """Leave interrupts to the process that leads, and do not outlive it, however it ends.

    Args:
        parent: Id of that process, which may have ended since it started this one; the present parent if None.
    """
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(target=leave_with, args=(parent or os.getppid(),), daemon=True).start()


def leave_with(parent: int) -> None:
    """Wait until a process is no longer the parent of this one, and end."""
    while os.getppid() == parent:
        time.sleep(LOOK)
    os._exit(1)
