"""``data``: check, convert, import and make corpora."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from pfl_audit.cli import options
from pfl_audit.cli.console import make_progress, note, print_json
from pfl_audit.cli.corpora import masked as _masked
from pfl_audit.cli.corpora import report_corpora, unlabelled_line
from pfl_audit.cli.data_import import import_, installed, make_documents_, questions_
from pfl_audit.cli.help import App
from pfl_audit.cli.options import refuse_unused
from pfl_audit.documents.units import UnitName
from pfl_audit.errors import EXIT_FINDING, NotAuditableError, UsageError
from pfl_audit.filled_folder import require_new, whole_or_nothing
from pfl_audit.inputs import require_input

if TYPE_CHECKING:
    from pfl_audit.documents.check import CorpusCheck, FormCheck
    from pfl_audit.documents.corpus import Corpus


app = App(rich_markup_mode=None, help="Check, convert, import and make corpora.")
_MOST_REASONS = 10
_Source = Annotated[Path, typer.Argument(help=f"Corpus in a known format: {installed('corpora')}.")]
_Target = Annotated[Path, typer.Option("--out", help="Output folder.")]


@app.command()
def check(
    context: typer.Context,
    path: Annotated[
        Path | None, typer.Argument(help=f"A corpus ({installed('corpora')}) or forms ({installed('forms')}).")
    ] = None,
    members: Annotated[
        Path | None, typer.Option(help="Corpus of documents that were trained on, with --non-members in place of PATH.")
    ] = None,
    non_members: Annotated[Path | None, typer.Option(help="Corpus of documents that were not trained on.")] = None,
    unit: Annotated[
        UnitName, typer.Option(help="Unit of privacy; document and person need --members and --non-members.")
    ] = "provider",
    groups: Annotated[
        Path | None,
        typer.Option(help="Table (CSV: unit, group) of clients, vendors or corporate groups, as audits take it."),
    ] = None,
    blue: Annotated[
        Path | None, typer.Option(help="Training corpus: near-duplicates and providers that it shares with the corpus.")
    ] = None,
    images: Annotated[bool, typer.Option(help="Open every page image.")] = True,
    seed: options.Seed = 0,
    reveal: options.Reveal = False,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
    config: options.Config = None,
) -> None:
    """Count a corpus (the paper's Table 5) or forms, list unusable records, and decide whether a corpus is fit.

    A corpus is unfit for an audit of membership if its documents alone distinguish members from non-members, or if
    providers or pages are on both sides. Also prints the power of an audit by the size of the leak. Exit code 1 if the
    corpus is unfit.

    Example: pfl-audit data check data/red
    """
    import numpy as np

    from pfl_audit.cli.fitness import show_fitness, show_power
    from pfl_audit.core.power import power_table
    from pfl_audit.core.redaction import Redactor, visible
    from pfl_audit.documents.check import check_corpus, check_forms, check_pages
    from pfl_audit.documents.corpus import is_training
    from pfl_audit.documents.forms.readers import reader_of
    from pfl_audit.documents.group_table import with_groups
    from pfl_audit.documents.units import UNITS

    asked = _asked_paths(path, members, non_members, unit)
    progress = make_progress(quiet=quiet)
    found: CorpusCheck | FormCheck
    corpus = power = fitness = None
    redactor = Redactor(secrets.token_hex(), reveal=reveal)
    if len(asked) == 1 and (reader := reader_of(asked[0])) is not None:
        refuse_unused(context, dict.fromkeys(("blue", "groups", "seed", "unit"), "for forms"))
        found = check_forms(reader.read(asked[0]), progress, images=images)
        rows, empty = _form_rows(found), not found.forms
    else:
        from pfl_audit.fitness.page_look import PageLooks

        corpus, looks = _opened(asked, unit), PageLooks()
        if groups is not None:
            corpus = with_groups(corpus, groups)
        pages = _opened([blue], unit).documents if blue is not None else ()
        training = [page for page in pages if is_training(page)] or pages
        found = check_corpus(corpus, progress, images=images, why_not=looks.unusable)
        rows, empty, power = _corpus_rows(found), not found.counts, power_table(corpus)
        if images:
            check_pages(training, progress, looks.unusable)
        if not empty:
            from pfl_audit.fitness.verdict import fitness_of

            fitness = fitness_of(corpus, looks, np.random.default_rng(seed), progress, training)
    found = replace(found, problems=_masked(found.problems, reveal=reveal))
    if as_json:
        print_json(
            found.to_dict()
            | ({"power": power.to_dict()} if power else {})
            | ({"fitness": fitness.to_dict(redactor)} if fitness else {})
        )
    else:
        for row in rows:
            typer.echo(row)
        for problem in found.problems:
            typer.echo(visible(f"unusable: {problem.record}: {problem.reason}", 1000))
        for reason, count in Counter(problem.reason for problem in found.problems).most_common(_MOST_REASONS):
            typer.echo(visible(f"{count:>9}  {reason}", 1000))
        typer.echo(f"{len(found.problems)} records cannot be used")
        if corpus is not None and (line := unlabelled_line(corpus)):
            typer.echo(line)
        if power is not None:
            show_power(power, UNITS[unit].many)
        if fitness is not None:
            show_fitness(fitness, redactor)
    if empty:
        raise NotAuditableError(
            f"{' and '.join(map(str, asked))} {'holds' if len(asked) == 1 else 'hold'} no record that can be used",
            "Correct the records listed as unusable, or give another corpus",
        )
    if fitness is not None and fitness.verdict == "unfit":
        raise typer.Exit(EXIT_FINDING)


@app.command()
def convert(
    path: _Source,
    out: _Target,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
    config: options.Config = None,
) -> None:
    """Convert a corpus into the safe format (no pickles): corpus.jsonl and images/.

    Example: pfl-audit data convert data/pfl-docvqa --out data/safe
    """
    from pfl_audit.documents.corpus import require_questions
    from pfl_audit.documents.readers import open_corpus
    from pfl_audit.documents.writers import write_jsonl

    require_new(out)
    corpus = open_corpus(path)
    require_questions(corpus, path)
    with whole_or_nothing(out):
        write_jsonl(corpus, out)
    report_corpora({out: corpus}, as_json=as_json, quiet=quiet)


app.command("import")(import_)
app.command("questions")(questions_)
app.command("make-documents")(make_documents_)


@app.command()
def partition(
    context: typer.Context,
    paths: Annotated[list[Path], typer.Argument(help="Sources: corpora in known formats.")],
    out: _Target,
    clients: Annotated[int, typer.Option(min=1, max=100_000, help="Number of clients (K).")] = 10,
    by: Annotated[
        Literal["source", "provider", "dirichlet"],
        typer.Option(
            help="Clients hold documents of one source; whole providers of one source; or whole providers, sources in "
            "shares of a Dirichlet distribution."
        ),
    ] = "source",
    alpha: Annotated[float, typer.Option(min=1e-3, max=1e6, help="Concentration of the Dirichlet distribution.")] = 0.5,
    seed: options.Seed = 0,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
    config: options.Config = None,
) -> None:
    """Partition the BLUE training documents of one or more corpora into the clients of a federation.

    Example: pfl-audit data partition data/tables data/invoices --clients 10 --out data/federated
    """
    from pfl_audit.documents.client_partition import clients_held, partition_corpora
    from pfl_audit.documents.readers import open_corpus
    from pfl_audit.documents.writers import write_jsonl

    if by != "dirichlet":
        refuse_unused(context, {"alpha": f"with --by {by}"})
    require_new(out)
    names = [path.resolve().name for path in paths]
    if len(set(names)) < len(names):
        raise UsageError("two sources have the same name", "Rename a folder: a source has the name of its folder")
    sources = dict(zip(names, map(open_corpus, paths), strict=True))
    corpus = partition_corpora(sources, clients, by, alpha, seed)
    with whole_or_nothing(out):
        write_jsonl(corpus, out)
    report_corpora({out: corpus}, as_json=as_json, quiet=quiet, clients=clients_held(corpus))


@app.command()
def make(
    out: _Target,
    members: Annotated[int, typer.Option(help="Member providers, held by the BLUE clients.")] = 120,
    non_members: Annotated[int, typer.Option(help="Non-member providers.")] = 120,
    red_providers: Annotated[int, typer.Option(help="Providers of each class in RED.")] = 100,
    clients: Annotated[int, typer.Option(help="Number of BLUE clients.")] = 10,
    documents: Annotated[float, typer.Option(help="Mean training documents per member.")] = 8.0,
    red_documents: Annotated[float, typer.Option(help="Mean RED documents per provider.")] = 2.5,
    questions: Annotated[float, typer.Option(help="Mean questions per document.")] = 5.5,
    ocr_noise: Annotated[float, typer.Option(help="Share of OCR words that are misread.")] = 0.01,
    wordings: Annotated[
        str, typer.Option(help="Labels and dates of the pages: general, broadcast, freight, utility.")
    ] = "general",
    asked: Annotated[
        str, typer.Option(help="What is asked for: provider (its fields mostly), or payables (dates, sums, customer).")
    ] = "provider",
    kind: Annotated[
        str,
        typer.Option(help="invoices, tables (questions for cells), or statements (that a table supports or refutes)."),
    ] = "invoices",
    seed: options.Seed = 0,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
    config: options.Config = None,
) -> None:
    """Generate a synthetic corpus in the layout of PFL-DocVQA. The same seed gives the same bytes.

    Example: pfl-audit data make --out data/synthetic --seed 7
    """
    from pfl_audit.documents.synthetic.generator import Recipe, make_corpus

    counts = (members, non_members, red_providers, clients, documents, red_documents, questions)
    recipe = Recipe(*counts, ocr_noise, seed, wordings, asked, kind)
    progress = make_progress(quiet=quiet)
    corpus = make_corpus(recipe, out, progress)
    report_corpora({out: corpus}, as_json=as_json, quiet=quiet)


@app.command("make-forms")
def make_forms_(
    out: _Target,
    private: Annotated[int, typer.Option(help="Training forms of the model under audit.")] = 40,
    public: Annotated[int, typer.Option(help="Public forms, available to the adversary.")] = 40,
    validation: Annotated[int, typer.Option(help="Forms for the selection of checkpoints.")] = 20,
    planted: Annotated[int, typer.Option(help="Planted random values per form, 2 to 4.")] = 3,
    seed: options.Seed = 0,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
    config: options.Config = None,
) -> None:
    """Generate synthetic forms in three parts, with planted random values. The same seed gives the same bytes.

    Example: pfl-audit data make-forms --out data/forms --seed 7
    """
    from pfl_audit.documents.synthetic.forms import FormRecipe, make_forms

    corpus = make_forms(FormRecipe(private, public, validation, planted, seed), out, make_progress(quiet=quiet))
    fields = sum(len(form.fields) for form in corpus.forms)
    if as_json:
        print_json({"out": str(out), "forms": len(corpus.forms), "fields": fields})
    elif not quiet:
        note(f"{len(corpus.forms)} forms with {fields} fields written to {out}")


def _asked_paths(path: Path | None, members: Path | None, non_members: Path | None, unit: UnitName) -> list[Path]:
    """One corpus, or that of the members and that of the non-members.

    Raises:
        UsageError: Inputs are missing, or contradict each other.
    """
    if path is not None and members is None and non_members is None:
        if unit != "provider":
            raise UsageError(
                f"--unit {unit} needs the two classes apart, because labels of a corpus are those of providers",
                "Give --members and --non-members in place of the path",
            )
        given = [path]
    elif path is None and members is not None and non_members is not None:
        given = [members, non_members]
    else:
        raise UsageError("data check takes one corpus, or members and non-members", "Give the path, or both options")
    for one in given:
        require_input(one, "Give the folder that holds the corpus or the forms")
    return given


def _opened(paths: Sequence[Path], unit: UnitName) -> Corpus:
    """A labelled corpus, or members and non-members as one; or a training corpus, grouped by the unit."""
    from pfl_audit.documents.readers import open_corpus
    from pfl_audit.documents.sides import join_sides, regroup
    from pfl_audit.documents.units import UNITS

    corpora = [open_corpus(path) for path in paths]
    if len(corpora) == 2:
        return join_sides(corpora[0], corpora[1], UNITS[unit])
    return corpora[0] if unit == "provider" else regroup(corpora[0], UNITS[unit])


def _corpus_rows(found: CorpusCheck) -> list[str]:
    """Rows of the paper's Table 5."""
    from pfl_audit.core.redaction import visible

    columns = ("split", "client", "providers", "documents", "pages", "questions")
    rows = ({column: column for column in columns}, *found.counts)
    cells = [{column: visible(str(row[column])) for column in columns} for row in rows]
    return ["  ".join(f"{row[column]:>{24 if column == 'split' else 9}}" for column in columns) for row in cells]


def _form_rows(found: FormCheck) -> list[str]:
    """Rows of fields by label and forms by part."""
    from pfl_audit.core.redaction import visible

    rows = [f"format {found.format}: {found.forms} forms of {found.documents} documents, {found.links} links"]
    rows += [f"fields  {visible(label):>24}  {count:>9}" for label, count in found.fields.items()]
    rows += [f"forms   {part:>24}  {count:>9}" for part, count in found.parts.items()]
    if found.parts:
        source = "parts drawn with seed 0" if found.drawn else "parts given by the source"
        rows.append(f"{source}; forms with a near-duplicate: {found.near_duplicates}, left out: {found.left_out}")
    return rows
