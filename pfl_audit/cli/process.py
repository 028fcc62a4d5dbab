"""The process of a command: restrained libraries (no network, no files outside the run), and interrupts by signals."""

from __future__ import annotations

import logging
import os
import re
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import FrameType

from pfl_audit.cli.console import note
from pfl_audit.registry import ExtensionWarning
from pfl_audit.sandbox import SandboxWarning

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_GRACE = 5.0
"""Seconds in which further signals are ignored, so that the shutdown is not interrupted."""
_last = -_GRACE
_COMMAND = re.compile(r"(?:\A|[\r\n])[^\S\r\n]*:(?=:)|##(?=\[)")
"""Beginning of a command to GitHub's runner: ``::name`` at the start of a line, ``##[name]`` anywhere."""


def restrain() -> None:
    """Set environment variables that libraries read at import, and suppress their warnings and log messages.

    ``python -W default`` or PYTHONWARNINGS=default enables both. onnxruntime is restrained where it is
    imported (``models/rapid_ocr.py``).
    """
    for name, value in {
        "HF_HUB_OFFLINE": "1",  # no network access unless --download is given
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "TRANSFORMERS_VERBOSITY": "error",
        "MPLCONFIGDIR": str(cache_folder() / "matplotlib"),
    }.items():
        os.environ.setdefault(name, value)
    if not sys.warnoptions:
        warnings.showwarning = _show_extensions
        logging.getLogger().addHandler(logging.NullHandler())


def mute_commands() -> None:
    """In a job of GitHub, write nothing that its runner takes for a command: titles may come from elsewhere."""
    if os.environ.get("GITHUB_ACTIONS") == "true":
        for stream in filter(None, (sys.stdout, sys.stderr)):
            stream.write = _Muted(stream.write)


class _Muted:
    def __init__(self, write: Callable[[str], int]) -> None:
        self._write, self._begun = write, ""

    def __call__(self, text: str) -> int:
        """Write a text, which may go on with a line; the count of its letters is returned."""
        muted = _COMMAND.sub(r"\g<0> ", self._begun + text)
        self._write(muted[len(self._begun) :])
        line = re.split(r"[\r\n]", muted)[-1].lstrip()
        self._begun = line if len(line) < 2 else "." + line[-2:]  # as much as may become the beginning of a command
        return len(text)


def _show_extensions(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, *rest: object, **more: object
) -> None:
    """Print each warning about an extension or the sandbox once, and drop all others."""
    if issubclass(category, ExtensionWarning | SandboxWarning):
        _show_once(str(message))


@cache
def _show_once(text: str) -> None:
    note(f"warning: {text}")


def cache_folder() -> Path:
    """The only folder outside a run that is written to: fonts of matplotlib, and secrets of canaries while they run."""
    # expanduser, unlike Path.home, does not fail without a home folder.
    return Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")) / "pfl-audit"  # noqa: PTH111


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
