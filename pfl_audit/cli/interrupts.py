"""Signals that end a command: Ctrl-C, SIGTERM and SIGHUP alike, once."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_GRACE = 5.0
"""Seconds in which a further signal is the same wish: what the first one ends is not cut short."""
_last = -_GRACE


def obey_signals() -> None:
    """Let each of the signals raise KeyboardInterrupt; what nohup has made ignored stays so."""
    sys.unraisablehook = _interrupt_again
    for number in _SIGNALS:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _interrupt)


def ignore_signals() -> None:
    """Let nothing interrupt the last lines of the process."""
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def _interrupt(number: int, frame: FrameType | None) -> None:
    global _last  # noqa: PLW0603 - a process has one
    now = time.monotonic()
    if now - _last >= _GRACE:
        _last = now
        raise KeyboardInterrupt


def _interrupt_again(lost: sys.UnraisableHookArgs) -> None:
    """Give an interrupt once more that fell into a destructor, where Python drops it."""
    global _last  # noqa: PLW0603 - a process has one
    if issubclass(lost.exc_type, KeyboardInterrupt):
        _last = -_GRACE
        threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT)).start()
    else:
        sys.__unraisablehook__(lost)
