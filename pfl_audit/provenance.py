"""Provenance of a result: package versions and command line."""

from __future__ import annotations

import platform
import shlex
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version

_PACKAGES = ("torch", "transformers", "scikit-learn", "numpy", "pandas", "rapidfuzz", "pillow", "sentencepiece")


def package_versions() -> dict[str, str]:
    """Versions of the packages that the results depend on."""
    found = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "missing"
    return found


def command_line(arguments: Sequence[str]) -> str:
    """The command line, quoted for a shell."""
    return shlex.join(["pfl-audit", *arguments])
