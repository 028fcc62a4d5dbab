"""``data import``, ``data questions`` and ``data make-documents``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from pfl_audit.cli import options
from pfl_audit.cli.console import make_progress, note, print_json
from pfl_audit.cli.corpora import list_left_out, report_corpora
from pfl_audit.cli.help import NAME_A_PATH
from pfl_audit.cli.options import refuse_unused
from pfl_audit.errors import AuditError, NotAuditableError, UsageError
from pfl_audit.files import write_text
from pfl_audit.filled_folder import refuse_unfinished, require_new, whole_or_nothing
from pfl_audit.inputs import is_there, require_input
from pfl_audit.registry import entries

if TYPE_CHECKING:
    from pfl_audit.documents.corpus import Corpus
    from pfl_audit.importing.folder import Imported
    from pfl_audit.importing.reading import ReadPage

DOCUMENTS = "documents"
OUT_MODEL = "out-model"
"""Subfolder of the corpus that a control model is trained on."""
_NAMED: Final = 5
"""Pages that a line names."""
_OF_DOCUMENTS = ("labels", "accept", "questions", "ocr", "language", "dpi", "region", "processes", "cache")


def installed(*groups: str, also: tuple[str, ...] = ()) -> str:
    """Names of the entry points of groups, without loading them, and others among them."""
    return ", ".join(sorted({*also, *(point.name for group in groups for point in entries(f"pfl_audit.{group}"))}))


_SOURCES = installed("importers", "corpora", also=(DOCUMENTS,))


def import_(
    context: typer.Context,
    first: Annotated[
        str,
        typer.Argument(metavar="PATH_OR_SOURCE", help=f"Folder or file; or its source ({_SOURCES}), before the path."),
    ],
    second: Annotated[str | None, typer.Argument(metavar="[PATH]", help="Folder or file of the source.")] = None,
    *,
    out: Annotated[Path, typer.Option("--out", help="Output folder.")],
    labels: Annotated[
        Path | None,
        typer.Option(
            help="Table (CSV, XLSX, JSON lines): file, provider, member, split, person, group, a column for each key.",
            show_default=False,
        ),
    ] = None,
    accept: Annotated[
        bool, typer.Option("--accept", help="Use the proposed values, which a person has checked.")
    ] = False,
    questions: Annotated[
        Path | None,
        typer.Option(help="Question templates (TOML) as 'data questions' writes them.", show_default="English ones"),
    ] = None,
    ocr: Annotated[
        str,
        typer.Option(help="When a page is read by OCR: auto (no text layer, or a scan with a stamp), always, never."),
    ] = "auto",
    language: Annotated[str, typer.Option(help="Language of the recogniser.")] = "en",
    dpi: Annotated[int, typer.Option(min=36, max=600, help="Resolution at which pages of PDF files are drawn.")] = 150,
    region: Annotated[
        str, typer.Option(help="Country of phone and tax numbers without a country code (two letters).")
    ] = "US",
    processes: Annotated[
        int | None, typer.Option(min=1, max=64, help="Pages read at the same time.", show_default="one for each core")
    ] = None,
    cache: Annotated[
        Path | None,
        typer.Option(help="Folder of the words that were read.", show_default="cache/ in the output folder"),
    ] = None,
    seed: options.Seed = 0,
    reveal: options.Reveal = False,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
    config: options.Config = None,
) -> None:
    """Import a folder of documents, or a data set in a known format, as a corpus.

    Documents (PDF, PNG, JPEG, TIFF, WebP) need a table of labels. Where it has no values, they are proposed in
    labels.csv and contact-sheet.html, and used when the command is repeated with --accept. A killed import goes on
    where it stopped.

    Example: pfl-audit data import invoices --labels labels.csv --out data/corpus
    """
    source, path = _source_and_path(first, second)
    refuse_unfinished(path)
    if second is None and not quiet:
        documents = "a folder of documents" if path.is_dir() else "a document"
        note(f"{path} is {documents if source == DOCUMENTS else f'in the format {source}'}")
    if source != DOCUMENTS:
        refuse_unused(context, dict.fromkeys(_OF_DOCUMENTS, f"with a source other than {DOCUMENTS}"))
        _import_data_set(source, path, out, seed, reveal=reveal, as_json=as_json, quiet=quiet)
        return
    require_input(path, "Give the folder to import")
    if not quiet and path.is_dir():
        _list_unread(path)
    from pfl_audit.importing.folder import FolderSettings, import_folder
    from pfl_audit.importing.questions import default_questions, read_questions
    from pfl_audit.importing.reading import ReadingSettings

    if ocr not in ("auto", "always", "never"):
        raise UsageError(f"there is no OCR '{ocr:.40}'", "Give auto, always or never")
    if not (len(region) == 2 and region.isascii() and region.isalpha()):
        raise UsageError(f"'{region:.40}' is no country of two letters", "Give one such as US, DE or FR")
    reading = ReadingSettings(dpi, ocr, language, **({"processes": processes} if processes else {}))  # type: ignore[arg-type]
    settings = FolderSettings(
        path,
        out,
        labels,
        accept,
        read_questions(questions) if questions else default_questions(),
        region.upper(),
        reading,
        cache,
        seed,
    )
    _show(
        import_folder(settings, make_progress(quiet=quiet)), settings.out, reveal=reveal, as_json=as_json, quiet=quiet
    )


def questions_(
    out: Annotated[Path, typer.Option("--out", help="TOML file to write; must not exist.")],
    config: options.Config = None,
) -> None:
    """Write the question templates of each key to a file that can be edited, for data import --questions.

    Example: pfl-audit data questions --out questions.toml
    """
    from pfl_audit.importing.questions import default_questions

    if is_there(out):
        raise UsageError(f"{out} exists", "Name another --out")
    write_text(out, default_questions().to_toml(), private=False)
    note(f"question templates written to {out}")


def _source_and_path(first: str, second: str | None) -> tuple[str, Path]:
    """Source and path of the arguments; without a source the reader that recognises the path, else documents."""
    from pfl_audit.documents.formats import recognise
    from pfl_audit.documents.readers import DOCUMENTS as SUFFIXES
    from pfl_audit.documents.readers import IMPORTERS, READERS
    from pfl_audit.importing.pages import is_documents

    if "" in (first, second):
        raise UsageError("PATH is an empty path", NAME_A_PATH)
    if second is not None:
        return first, Path(second)
    path = Path(first)
    require_input(path, "Give the folder to import")
    known = [name for name, importer in IMPORTERS.installed().items() if _recognises(importer, path)]
    reader = recognise(READERS, path)
    if known or reader is not None:
        return known[0] if known else reader.name if reader is not None else "", path
    if is_documents(path):
        return DOCUMENTS, path
    raise AuditError(
        f"{path} is neither a data set in a known format nor a folder of documents",
        f"Give a folder with {', '.join(SUFFIXES)} files, or one of: {_SOURCES}",
    )


def _list_unread(path: Path) -> None:
    """Say how many files of a folder are documents of a kind that is not read."""
    from pfl_audit.documents.readers import DOCUMENTS as SUFFIXES
    from pfl_audit.documents.readers.folder import files_below
    from pfl_audit.importing.pages import UNREAD

    if unread := files_below(path, UNREAD):
        kinds = ", ".join(sorted({file.suffix.lower() for file in unread}))
        note(f"files of a kind that is not read ({kinds}): {len(unread)}; save them as one of {', '.join(SUFFIXES)}")


def _recognises(importer: Any, path: Path) -> bool:
    """Whether an importer says that a folder is its source; it may have no such method."""
    check = getattr(importer, "recognises", None)
    return bool(check(path)) if callable(check) else False


def _import_data_set(
    source: str, path: Path, out: Path, seed: int, *, reveal: bool, as_json: bool, quiet: bool
) -> None:
    from pfl_audit.documents.corpus import require_questions
    from pfl_audit.documents.readers import import_corpora
    from pfl_audit.documents.writers import write_jsonl

    require_new(out)
    found = import_corpora(source, path, seed)
    if found.out_model is not None and not found.audit.queries:
        raise NotAuditableError(f"{path} holds no question about a station with two documents", "Give more documents")
    require_questions(found.audit, path)
    written: dict[Path, Corpus] = {out: found.audit}
    if found.out_model is not None:
        written[out / OUT_MODEL] = found.out_model
    with whole_or_nothing(out):
        for folder, corpus in written.items():
            write_jsonl(corpus, folder)
    report_corpora(written, reveal=reveal, as_json=as_json, quiet=quiet, unused=found.unused)


def _show(imported: Imported, out: Path, *, reveal: bool, as_json: bool, quiet: bool) -> None:
    by_ocr = sum(page.by_ocr for page in imported.pages)
    if not quiet:
        note(f"{len(imported.pages)} pages read, {by_ocr} of them by OCR")
        for line in _disagreements(imported.pages):
            note(line)
    if imported.corpus is not None:
        report_corpora({out: imported.corpus}, reveal=reveal, as_json=as_json, quiet=quiet)
        return
    table = imported.table
    if not quiet:
        list_left_out(imported.problems, reveal=reveal)
    if as_json:
        counts = {"pages": len(imported.pages), "proposed": imported.proposed, "left_out": len(imported.problems)}
        print_json({"out": str(out), "labels": str(table), **counts})
    elif not quiet:
        note(f"{imported.proposed} values are proposed in {table}, with their pages in {out / 'contact-sheet.html'}")
        note("Nothing is imported yet: correct the table, fill in provider and member, and repeat with --accept")


def _disagreements(pages: Sequence[ReadPage]) -> Iterator[str]:
    """One line for each way in which text layers and pictures differ, with the first pages of which it is true."""
    for concerned, text in (
        ([page for page in pages if page.stamped], "are scans with a few words of text over them"),
        ([page for page in pages if page.hidden > page.covered], "hold hidden words, which are left out"),
        ([page for page in pages if page.covered], "hold words BELOW A BAR: they are still in the file"),
        ([page for page in pages if page.undrawn], "have typed notes without a drawing: print them to a new PDF"),
    ):
        if concerned:
            names = ", ".join(f"{one.file} page {one.number}" for one in concerned[:_NAMED])
            more = f" and {len(concerned) - _NAMED} more" if concerned[_NAMED:] else ""
            yield f"pages that {text}: {len(concerned)} ({names}{more})"


def make_documents_(
    out: Annotated[Path, typer.Option("--out", help="Output folder.")],
    providers: Annotated[int, typer.Option(min=1, help="Companies of each class.")] = 20,
    documents: Annotated[int, typer.Option(min=1, max=100, help="Documents of each company.")] = 2,
    seed: options.Seed = 0,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
    config: options.Config = None,
) -> None:
    """Draw a folder of invoices to import: PDF files with a text layer, scanned ones, and labels.csv.

    The companies are members and non-members of the embedded model vt5-finetuned; the pages are new to it. The same
    seed gives the same bytes.

    Example: pfl-audit data make-documents --out invoices
    """
    from pfl_audit.documents.synthetic.folder import FolderRecipe, make_folder_of_documents

    count = make_folder_of_documents(FolderRecipe(providers, documents, seed), out, make_progress(quiet=quiet))
    if as_json:
        print_json({"out": str(out), "documents": count})
    elif not quiet:
        note(f"{count} documents and labels.csv written to {out}")
