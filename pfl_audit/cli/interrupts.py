"""Signal handling: SIGINT, SIGTERM and SIGHUP interrupt a command once."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_GRACE = 5.0
"""Seconds in which further signals are ignored, so that the shutdown is not interrupted."""
_last = -_GRACE


def obey_signals() -> None:
    """Make each signal raise KeyboardInterrupt; signals ignored by nohup stay ignored."""
    sys.unraisablehook = _interrupt_again
    for number in _SIGNALS:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _interrupt)


def ignore_signals() -> None:
    """Ignore all signals at the end of the process."""
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def _interrupt(number: int, frame: FrameType | None) -> None:
    global _last  # noqa: PLW0603 - a process has one
    now = time.monotonic()
    if now - _last >= _GRACE:
        _last = now
        raise KeyboardInterrupt


def _interrupt_again(lost: sys.UnraisableHookArgs) -> None:
    """Repeat an interrupt that was raised in a destructor, where Python drops it."""
    global _last  # noqa: PLW0603 - a process has one
    if issubclass(lost.exc_type, KeyboardInterrupt):
        _last = -_GRACE
        threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT)).start()
    else:
        sys.__unraisablehook__(lost)
