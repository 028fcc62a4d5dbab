"""Forms on disk, one format a module; the format is recognised by what lies in the folder."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from pfl_audit.documents.forms.form import FormCorpus
from pfl_audit.documents.readers.lines import refuse_archive
from pfl_audit.errors import AuditError
from pfl_audit.inputs import is_regular, require_input


class Reader(Protocol):
    """Reads one format of forms."""

    name: str
    """What the format is called in reports."""

    def recognises(self, path: Path) -> bool:
        """Whether ``path`` looks like this format."""
        ...

    def read(self, path: Path) -> FormCorpus:
        """Read it; records that cannot be used become problems of the corpus.

        Raises:
            AuditError: The corpus as a whole cannot be read.
        """
        ...


def reader_of(path: Path) -> Reader | None:
    """The reader of the forms at ``path``, or None where there are none in a known format."""
    from pfl_audit.documents.forms.readers.fcc_adbuy import FccAdbuyReader
    from pfl_audit.documents.forms.readers.funsd import FunsdReader
    from pfl_audit.documents.forms.readers.jsonl import JsonlReader
    from pfl_audit.documents.forms.readers.sroie import SroieReader

    readers: tuple[Reader, ...] = (JsonlReader(), FunsdReader(), SroieReader(), FccAdbuyReader())
    return next((reader for reader in readers if reader.recognises(path)), None)


def open_forms(path: Path) -> FormCorpus:
    """Read forms in whichever known format they are.

    Args:
        path: A folder with ``forms.jsonl`` (or that file), FUNSD's or SROIE's folders, or fcc-adbuy's.

    Raises:
        UsageError: Nothing is there.
        AuditError: No known format, or no form that can be used.
    """
    require_input(path, "Give the folder that holds the forms")
    reader = reader_of(path)
    if reader is None:
        if is_regular(path):
            refuse_archive(path)
        raise AuditError(
            f"{path} holds no forms: neither forms.jsonl nor folders of FUNSD, SROIE or fcc-adbuy",
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
