"""Corpora on disk, one format a module; the format is recognised by what lies in the folder."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, Protocol

from pfl_audit.documents.corpus import Corpus
from pfl_audit.errors import AuditError
from pfl_audit.inputs import is_regular, require_input

Part = Literal["red", "blue", "all"]
"""RED is asked (members and non-members), BLUE was trained on."""


class Reader(Protocol):
    """Reads one format of corpora."""

    name: str
    """What the format is called in reports."""

    def recognises(self, path: Path) -> bool:
        """Whether ``path`` looks like this format."""
        ...

    def read(self, path: Path, part: Part) -> Corpus:
        """Read a part of it; records that cannot be used become problems of the corpus.

        Raises:
            AuditError: The corpus as a whole cannot be read.
        """
        ...


def open_corpus(path: Path, part: Part = "all") -> Corpus:
    """Read a corpus in whichever known format it is.

    Args:
        path: A PFL-DocVQA folder, or a folder with ``corpus.jsonl`` (or that file).
        part: Which queries are wanted. Where nothing in the corpus is marked as RED or BLUE,
            all of it counts as RED.

    Raises:
        UsageError: Nothing is there.
        AuditError: No known format, or nothing that can be read.
    """
    from pfl_audit.documents.readers.jsonl import JsonlReader
    from pfl_audit.documents.readers.lines import refuse_archive
    from pfl_audit.documents.readers.pfl_docvqa import PflDocVqaReader

    readers: tuple[Reader, ...] = (JsonlReader(), PflDocVqaReader())
    require_input(path, "Give the folder that holds the corpus")
    for reader in readers:
        if reader.recognises(path):
            return reader.read(path, part)
    if is_regular(path):
        refuse_archive(path)
    raise AuditError(
        f"{path} is no corpus: it holds neither corpus.jsonl nor any imdb .npy file",
        "Give a PFL-DocVQA folder, or make one with 'pfl-audit data make'",
    )
