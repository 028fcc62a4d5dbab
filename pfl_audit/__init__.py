"""pfl-audit: what a document-understanding model reveals about its training documents."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pfl_audit.version import __version__

if TYPE_CHECKING:
    from pfl_audit.api import audit as audit
    from pfl_audit.api import open_corpus as open_corpus
    from pfl_audit.api import open_model as open_model
    from pfl_audit.api import render as render

__all__ = ["__version__", "audit", "open_corpus", "open_model", "render"]


def __getattr__(name: str) -> object:
    """Import the Python interface when it is used, so that the command line starts without it."""
    if name in __all__:
        from pfl_audit import api

        return getattr(api, name)
    raise AttributeError(f"module 'pfl_audit' has no attribute '{name}'")
