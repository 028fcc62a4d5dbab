"""What the libraries underneath may not do: reach the network, write beside the run, print on the terminal."""

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
    """Set what libraries read from the environment as they are imported, and drop their warnings and log lines.

    ``python -W default`` or PYTHONWARNINGS=default shows both. onnxruntime is restrained where it is
    imported (``models/rapid_ocr.py``).
    """
    os.environ.setdefault("HF_HUB_OFFLINE", "1")  # nothing touches the network unless --download asks for it
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
    """The one folder outside the run that is written to: matplotlib keeps its list of the installed fonts there."""
    # expanduser, unlike Path.home, does not fail where there is no home.
    return Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")) / "pfl-audit"  # noqa: PTH111
