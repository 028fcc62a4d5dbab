"""Registry of exports, found by entry point: a text file for another tool, made of results.json on request."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pfl_audit.errors import AuditError, is_interrupt
from pfl_audit.files import write_text
from pfl_audit.registry import Registry

if TYPE_CHECKING:  # it builds large models of pydantic, which help can do without
    from pfl_audit.core.results import Results


@dataclass(frozen=True)
class Export:
    """A format that another tool reads.

    Attributes:
        name: Name of the entry point, and of the option ``--NAME FILE``.
        help: What the file is, for help.
        text: Makes the content; a pure function of the results.
    """

    name: str
    help: str
    text: Callable[[Results], str]


EXPORTS: Registry[Export] = Registry("pfl_audit.exports", "export", ("name", "help", "text"))


def write_exports(results: Results, wanted: Mapping[str, Path]) -> list[Path]:
    """Write files in the formats of their names.

    Args:
        results: Results of an audit.
        wanted: Name of an export to the file.

    Raises:
        UsageError: There is no such export.
        AuditError: A file cannot be written, or an export of another package ends with an exception.
    """
    written = []
    for name, path in wanted.items():
        export = EXPORTS.named(name)
        try:
            text = export.text(results)
        except AuditError:
            raise
        except Exception as error:  # whatever a stranger's export raises; its text may hold a value
            if is_interrupt(error):
                raise
            raise AuditError(f"the export '{name}' ended with {type(error).__name__}", f"Leave out --{name}") from error
        write_text(path, text, private=results.provenance.revealed)
        written.append(path)
    return written
