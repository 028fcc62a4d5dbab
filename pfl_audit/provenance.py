"""Which versions made a result, and the command that makes it again."""

from __future__ import annotations

import platform
import shlex
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version

_PACKAGES = ("torch", "transformers", "scikit-learn", "numpy", "pandas", "rapidfuzz", "pillow", "sentencepiece")


def package_versions() -> dict[str, str]:
    """Versions of what the numbers depend on."""
    found = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "missing"
    return found


def command_line(arguments: Sequence[str]) -> str:
    """The command as one would type it."""
    return shlex.join(["pfl-audit", *arguments])
