"""Versions of pfl-audit and of the packages that results depend on."""

from __future__ import annotations

import platform

__version__ = "0.1.0"
_PACKAGES = (
    "torch", "transformers", "scikit-learn", "numpy", "pandas", "Levenshtein", "rapidfuzz", "pillow", "sentencepiece",
)  # fmt: skip


def package_versions() -> dict[str, str]:
    """Versions of the packages that the results depend on."""
    from importlib.metadata import PackageNotFoundError, version  # slow, and every process imports this module

    found = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "missing"
    return found
