"""Import of a folder of documents: a corpus where values are given, else proposed values for a person to correct."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from pfl_audit.documents.corpus import Corpus, Problem, require_questions
from pfl_audit.documents.document import Document, Membership, Query
from pfl_audit.documents.images import PageImage
from pfl_audit.documents.readers.jsonl import FILE_NAME as CORPUS_NAME
from pfl_audit.documents.record_validation import MAX_NAME
from pfl_audit.documents.writers import write_jsonl
from pfl_audit.errors import NotAuditableError, UsageError
from pfl_audit.importing import contact_sheet, labels
from pfl_audit.importing.labels import Labels, Row, read_labels, write_labels
from pfl_audit.importing.pages import find_documents, require_pdf_reader
from pfl_audit.importing.proposals import KEYS, Proposal, propose, require_packages
from pfl_audit.importing.questions import Questions, default_questions
from pfl_audit.importing.reading import PICTURE, ReadingSettings, ReadPage, read_documents
from pfl_audit.inputs import is_there, require_input
from pfl_audit.models.rapid_ocr import require_language
from pfl_audit.out_folder import OutFolder
from pfl_audit.progress import Progress

KIND: Final = "import of documents"
CACHE: Final = "cache"
_IMAGES: Final = "images"
FORMAT = "documents"


@dataclass(frozen=True)
class FolderSettings:
    """Settings of an import.

    Attributes:
        path: Folder of documents, or one document.
        out: Output folder; new, or of the same import.
        labels: Table of labels, or None.
        accept: Whether proposed values are used.
        questions: Question templates.
        region: Country of phone and tax numbers without a country code.
        reading: How pages are read.
        cache: Folder of the words that were read; None for one inside of ``out``.
        seed: Seed of the choice among question templates.
    """

    path: Path
    out: Path
    labels: Path | None = None
    accept: bool = False
    questions: Questions = field(default_factory=default_questions)
    region: str = "US"
    reading: ReadingSettings = field(default_factory=ReadingSettings)
    cache: Path | None = None
    seed: int = 0


@dataclass(frozen=True)
class Imported:
    """What an import has written.

    Attributes:
        pages: Pages that were read.
        corpus: The corpus; None where values are proposed.
        table: Table of proposed values; None where the corpus is written.
        proposed: Number of proposed values.
        problems: Documents and pages that are left out.
    """

    pages: Sequence[ReadPage]
    corpus: Corpus | None
    table: Path | None
    proposed: int
    problems: Sequence[Problem]


def import_folder(settings: FolderSettings, progress: Progress) -> Imported:
    """Import a folder.

    Everything that can be refused is refused before the first page is read.

    Raises:
        UsageError: A path does not exist, a package is missing, or proposed values are not accepted.
        AuditError: The table or the output folder cannot be used.
        NotAuditableError: The folder has no document, or none that can be read.
    """
    require_input(settings.path, "Give the folder of the documents")
    files = find_documents(settings.path, settings.out)
    require_pdf_reader(files)
    if settings.reading.ocr != "never":
        require_language(settings.reading.language)
    given = _labels(settings, {file.name for file in files})
    if not given.has_values:
        require_packages()
        _refuse_table(settings.out / labels.FILE_NAME)
    what = {"path": str(settings.path.resolve()), "dpi": settings.reading.dpi}
    with OutFolder(settings.out, KIND, what, keeps=(CORPUS_NAME, labels.FILE_NAME)) as folder:
        cache = settings.cache or folder.path / CACHE
        pages, problems = read_documents(files, folder.path, cache, settings.reading, progress)
        if not pages:
            raise NotAuditableError(
                f"none of the {len(files)} documents of {settings.path} can be read: {problems[0].reason}",
                "Give documents that open in a viewer",
            )
        documents = by_document(pages)
        if given.has_values:
            corpus = build_corpus(documents, given.rows, settings.questions, settings.seed)
            corpus = replace(corpus, problems=(*problems, *corpus.problems))
            require_questions(corpus, settings.path)
            write_jsonl(corpus, folder.path)
            _remove_unused(folder.path / _IMAGES, pages)
            return Imported(pages, corpus, None, 0, corpus.problems)
        table, count = _propose(settings, documents, given.rows, folder.path)
        return Imported(pages, None, table, count, problems)


def _labels(settings: FolderSettings, files: set[str]) -> Labels:
    """The table that is given, or the one that an earlier import has proposed."""
    path, proposed = settings.labels, settings.out / labels.FILE_NAME
    if path is None and settings.accept:
        if not is_there(proposed):
            raise UsageError(
                f"there is nothing to accept: {proposed} does not exist", "Leave --accept out to have values proposed"
            )
        path = proposed
    if path is None:
        return Labels({}, has_values=False)
    found = read_labels(path, files)
    if settings.accept and not found.has_values:
        raise UsageError(f"{path} has no values to accept", f"Leave --labels out to accept those of {proposed}")
    if not settings.accept and any(row.proposed for row in found.rows.values()):
        raise UsageError(
            f"{path} has proposed values that a person has not accepted",
            f"Look at {contact_sheet.FILE_NAME}, correct the table, and add --accept",
        )
    return found


def _refuse_table(table: Path) -> None:
    if is_there(table):
        raise UsageError(
            f"{table} has values that were proposed before",
            "Correct it and add --accept, or delete it to have values proposed again",
        )


def _propose(
    settings: FolderSettings,
    documents: Mapping[str, Sequence[ReadPage]],
    rows: Mapping[str, Row],
    folder: Path,
) -> tuple[Path, int]:
    """Write the contact sheet and the table; the table is last, since an import does not overwrite it."""
    proposals: dict[str, list[Proposal]] = {name: propose(pages, settings.region) for name, pages in documents.items()}
    contact_sheet.write_contact_sheet(folder / contact_sheet.FILE_NAME, documents, proposals)
    table = [
        replace(
            rows.get(name, Row(name)),
            values={one.key: (one.value.replace("|", " "),) for one in found},
            proposed=bool(found),
        )
        for name, found in proposals.items()
    ]
    write_labels(folder / labels.FILE_NAME, table, KEYS)
    return folder / labels.FILE_NAME, sum(map(len, proposals.values()))


def _remove_unused(images: Path, pages: Sequence[ReadPage]) -> None:
    """Remove pictures of documents that are no longer in the folder, and nothing that is of another name."""
    used = {page.picture.name for page in pages}
    for picture in images.iterdir():
        if PICTURE.fullmatch(picture.name) and picture.name not in used:
            picture.unlink()


def by_document(pages: Sequence[ReadPage]) -> dict[str, list[ReadPage]]:
    """Document to its pages, in their order."""
    found: defaultdict[str, list[ReadPage]] = defaultdict(list)
    for page in pages:
        found[page.file].append(page)
    return dict(found)


def build_corpus(
    documents: Mapping[str, Sequence[ReadPage]], rows: Mapping[str, Row], questions: Questions, seed: int
) -> Corpus:
    """Ask for every value on the first page that shows it, else on the first page of its document.

    Args:
        documents: Document to its pages.
        rows: Document to its labels; a document without labels or without a value is a problem of the corpus.
        questions: Question templates.
        seed: Seed of the choice among them.
    """
    queries: list[Query] = []
    problems: list[Problem] = []
    membership: dict[str, Membership] = {}
    for name, pages in documents.items():
        row = rows.get(name)
        if row is None or not row.values:
            reason = "the table has no row for it" if row is None else "its row has no value"
            problems.append(Problem(name, reason, is_page=True))
            continue
        provider = row.provider or name
        membership[provider] = row.membership
        made: dict[int, Document] = {}
        for key, answers in row.values.items():
            at = _page_of(pages, answers)
            page = made.setdefault(at, _document(pages[at], provider, row))
            if len(f"{page.id}-{key}") > MAX_NAME:
                problems.append(Problem(name, f"its name and a key have more than {MAX_NAME:,} letters", is_page=True))
                continue
            question = questions.draw(key, page.id, seed)
            queries.append(Query(f"{page.id}-{key}", page, question, answers, key))
    return Corpus(tuple(queries), membership, FORMAT, tuple(problems))


def _document(page: ReadPage, provider: str, row: Row) -> Document:
    name, image = f"{page.file}_{page.number}", PageImage(page.picture)
    return Document(name, provider, page.words, page.boxes, image, row.split, person=row.person, group=row.group)


def _page_of(pages: Sequence[ReadPage], answers: Sequence[str]) -> int:
    wanted = [text for answer in answers if (text := _letters(answer))]
    for at, page in enumerate(pages):
        text = _letters(" ".join(page.words))
        if any(answer in text for answer in wanted):
            return at
    return 0


def _letters(text: str) -> str:
    return re.sub(r"[\W_]+", "", text).casefold()
