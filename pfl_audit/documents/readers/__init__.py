"""Readers of corpora and importers of documents in other forms, found by entry point."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, Protocol

from pfl_audit.documents.corpus import Corpus
from pfl_audit.documents.formats import READER_ATTRIBUTES, Format, recognise
from pfl_audit.documents.provider_names import with_one_name
from pfl_audit.errors import AuditError, UsageError
from pfl_audit.filled_folder import refuse_unfinished
from pfl_audit.inputs import is_regular, require_input
from pfl_audit.registry import Registry

Part = Literal["red", "blue", "all"]
"""RED is asked about (members and non-members), BLUE is training data."""


class CorpusReader(Format, Protocol):
    """Reads one format of corpora. Entry point group: ``pfl_audit.corpora``."""

    def read(self, path: Path, part: Part) -> Corpus:
        """Read a part of a corpus; records that cannot be used become problems of the corpus.

        Raises:
            AuditError: The corpus as a whole cannot be read.
        """


@dataclass(frozen=True)
class ImportedCorpora:
    """Corpora made of documents in another form.

    Attributes:
        audit: Members (BLUE training pages and RED) and non-members (RED alone).
        out_model: BLUE training pages of other providers, to train a control on; None where there are none.
        unused: Number of usable pages of non-members that are left out, so that both classes are asked about alike.
    """

    audit: Corpus
    out_model: Corpus | None = None
    unused: int = 0


class Importer(Protocol):
    """Makes corpora of documents that name no members. Entry point group: ``pfl_audit.importers``.

    With a method ``recognises(path)`` it is found by ``data import`` without its name.
    """

    def __call__(self, folder: Path, seed: int) -> ImportedCorpora:
        """Make the corpora.

        Args:
            seed: Seed of all random draws.

        Raises:
            UsageError: There is no such folder.
            AuditError: The folder does not have the form of the source.
        """


READERS: Final = Registry[CorpusReader]("pfl_audit.corpora", "corpus reader", READER_ATTRIBUTES)
IMPORTERS: Final = Registry[Importer]("pfl_audit.importers", "importer")
DOCUMENTS: Final = (".pdf", ".png", ".jpg", ".jpeg", ".tif", ".tiff", ".webp", ".bmp")
"""Suffixes of documents that ``data import`` makes a corpus of."""


def open_corpus(path: Path, part: Part = "all") -> Corpus:
    """Read a corpus in any installed format; names of a provider that differ in case or spaces become one.

    Args:
        path: Folder or file of the corpus.
        part: Queries to return. Where nothing in the corpus is marked as RED or BLUE, all of it counts as RED.

    Raises:
        UsageError: ``path`` does not exist.
        AuditError: The format is not known, the corpus is not complete or cannot be read, or a provider is a member and
            a non-member.
    """
    from pfl_audit.documents.readers.folder import files_below
    from pfl_audit.documents.readers.json_lines import refuse_archive

    require_input(path, "Give the folder that holds the corpus")
    refuse_unfinished(path)
    reader = recognise(READERS, path)
    if reader is not None:
        return with_one_name(reader.read(path, part))
    if is_regular(path):
        refuse_archive(path)
    if files_below(path, DOCUMENTS):
        raise AuditError(
            f"{path} is a folder of documents, not a corpus",
            f"Run: pfl-audit data import {path} --out CORPUS, and give CORPUS",
        )
    raise AuditError(
        f"{path} is no corpus in a known format ({', '.join(READERS.installed())})",
        "Give a PFL-DocVQA folder or one with corpus.jsonl, or make one with 'pfl-audit data make'",
    )


def of_part(corpus: Corpus, part: Part) -> Corpus:
    """The queries of a part of a corpus, which has RED and BLUE; a page without a split is RED."""
    if part == "all":
        return corpus
    return corpus.where(lambda query: query.document.split.startswith("blue") is (part == "blue"))


def import_corpora(source: str, folder: Path, seed: int) -> ImportedCorpora:
    """Make corpora of documents in another form, or read a corpus by a reader that is named.

    Args:
        source: Name of an importer or of a corpus reader.
        seed: Seed of all random draws.

    Raises:
        UsageError: The source is not known, or the folder does not exist.
        AuditError: The folder does not have the form of the source.
    """
    importers, readers = IMPORTERS.installed(), READERS.installed()
    if source in importers:
        return importers[source](folder, seed)
    if source in readers:
        require_input(folder, "Give the folder of the source")
        return ImportedCorpora(with_one_name(readers[source].read(folder, "all")))
    raise UsageError(f"there is no source '{source}'", f"Choose one of: {', '.join(sorted({*importers, *readers}))}")
