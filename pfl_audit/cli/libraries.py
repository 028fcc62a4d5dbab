"""Restrictions of third-party libraries: no network, no files outside the run, no output to the terminal."""

from __future__ import annotations

import logging
import os
import sys
import warnings
from functools import cache
from pathlib import Path

from pfl_audit.cli.console import note
from pfl_audit.registry import ExtensionWarning


def restrain() -> None:
    """Set environment variables that libraries read at import, and suppress their warnings and log messages.

    ``python -W default`` or PYTHONWARNINGS=default enables both. onnxruntime is restrained where it is
    imported (``models/rapid_ocr.py``).
    """
    os.environ.setdefault("HF_HUB_OFFLINE", "1")  # no network access unless --download is given
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("MPLCONFIGDIR", str(cache_folder() / "matplotlib"))
    if not sys.warnoptions:
        warnings.showwarning = _show_extensions
        logging.getLogger().addHandler(logging.NullHandler())


def _show_extensions(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, *rest: object, **more: object
) -> None:
    """Print each warning about an extension once, and drop all others."""
    if issubclass(category, ExtensionWarning):
        _show_once(str(message))


@cache
def _show_once(text: str) -> None:
    note(f"warning: {text}")


def cache_folder() -> Path:
    """The only folder outside a run that is written to: fonts of matplotlib, and secrets of canaries while they run."""
    # expanduser, unlike Path.home, does not fail without a home folder.
    return Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")) / "pfl-audit"  # noqa: PTH111
