"""Readers of forms, found by entry point."""

from __future__ import annotations

from pathlib import Path
from typing import Final, Protocol

from pfl_audit.documents.formats import READER_ATTRIBUTES, Format, recognise
from pfl_audit.documents.forms.form import FormCorpus
from pfl_audit.documents.readers.json_lines import refuse_archive
from pfl_audit.errors import AuditError
from pfl_audit.filled_folder import refuse_unfinished
from pfl_audit.inputs import is_regular, require_input
from pfl_audit.registry import Registry


class FormReader(Format, Protocol):
    """Reads one format of forms. Entry point group: ``pfl_audit.forms``."""

    def read(self, path: Path) -> FormCorpus:
        """Read all forms; records that cannot be used become problems of the corpus.

        Raises:
            AuditError: The corpus as a whole cannot be read.
        """


READERS: Final = Registry[FormReader]("pfl_audit.forms", "form reader", READER_ATTRIBUTES)


def reader_of(path: Path) -> FormReader | None:
    """The reader of the forms at ``path``, or None where there are none in a known format."""
    return recognise(READERS, path)


def open_forms(path: Path) -> FormCorpus:
    """Read forms in any installed format.

    Args:
        path: Folder or file of the forms.

    Raises:
        UsageError: ``path`` does not exist.
        AuditError: The format is not known, the folder is not complete, or there is no form that can be used.
    """
    require_input(path, "Give the folder that holds the forms")
    refuse_unfinished(path)
    reader = reader_of(path)
    if reader is None:
        if is_regular(path):
            refuse_archive(path)
        raise AuditError(
            f"{path} holds no forms in a known format ({', '.join(READERS.installed())})",
            "See docs/forms.md for the formats, or make forms with 'pfl-audit data make-forms'",
        )
    corpus = reader.read(path)
    if not corpus.forms:
        first = "".join(
            f": {problem.reason}" if problem.is_page else f": {problem.record}: {problem.reason}"
            for problem in corpus.problems[:1]
        )
        raise AuditError(f"{path} holds no form that can be used{first}", "Run 'pfl-audit data check' on it")
    return corpus
