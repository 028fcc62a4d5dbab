"""Formats of corpora and of forms: readers found by entry point, tried in the order of their precedence."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Protocol, TypeVar

from pfl_audit.errors import AuditError
from pfl_audit.registry import ExtensionWarning, Registry

READER_ATTRIBUTES = ("name", "precedence", "recognises", "read")
"""What every extension of ``pfl_audit.corpora`` and ``pfl_audit.forms`` has."""


class Format(Protocol):
    """The part of a reader that recognises its format."""

    name: str
    """Name of the format in reports."""
    precedence: int
    """Readers are tried from the lowest number to the highest, and at equal numbers in order of their names. A format
    with a file name of its own is tried early (ours: 10), one that is recognised by suffixes alone late (ours: 100)."""

    def recognises(self, path: Path) -> bool:
        """Whether ``path`` looks like this format."""


FormatT = TypeVar("FormatT", bound=Format)


def recognise(readers: Registry[FormatT], path: Path) -> FormatT | None:
    """The first installed reader that recognises ``path``, or None.

    A reader that raises an unexpected exception is skipped with an `ExtensionWarning`.

    Raises:
        AuditError: A reader cannot look into ``path``.
    """
    for reader in sorted(readers.installed().values(), key=lambda reader: (reader.precedence, reader.name)):
        try:
            if reader.recognises(path):
                return reader
        except AuditError:
            raise
        except Exception as error:  # a reader may come from any package
            message = f"the {readers.kind} '{reader.name}' is left out: {type(error).__name__} in recognises"
            warnings.warn(message, ExtensionWarning, stacklevel=2)
    return None
