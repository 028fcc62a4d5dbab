"""``audit``, ``memorize`` and ``mia``: ask a model, attack, and hand over the report."""

from __future__ import annotations

import secrets
import sys
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pfl_audit.cli import options
from pfl_audit.cli.console import make_progress, note, print_json
from pfl_audit.errors import NotAuditableError
from pfl_audit.files import require_new

if TYPE_CHECKING:
    from pfl_audit.core.results import Results
    from pfl_audit.core.runner import AuditPlan

_KEYS = "provider_name, provider_email, provider_phone, provider_address, provider_website, tax_number, registration_id"
Checks = Annotated[
    list[str] | None,
    typer.Option("--check", help="Check or family to run (repeat); all by default.", show_default="all"),
]


def audit(
    red: options.Red,
    model: options.Model = None,
    answers: options.Recorded = None,
    pretrained: options.Pretrained = None,
    blue: options.Blue = None,
    control: options.Control = None,
    reference: options.References = None,
    classes_random: options.ClassesRandom = False,
    check: Checks = None,
    out: options.Out = None,
    store: options.Store = None,
    seed: options.Seed = 0,
    device: options.Device = "cpu",
    download: options.Download = False,
    fail_on: options.Gate = "leak",
    reveal: options.Reveal = False,
    ocr: options.Ocr = False,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
    config: options.Config = None,
) -> None:
    """Run every check that the target allows, and write one report.

    Example: pfl-audit audit --model ckpt --pretrained base --red data/red --blue data/blue
    """
    from pfl_audit.core.runner import AuditPlan

    plan = AuditPlan(
        title="Audit of a document model",
        out=run_folder(out, "audit"),
        red=red,
        model=model,
        answers=answers,
        pretrained=pretrained,
        blue=blue,
        control=control,
        references=tuple(reference or ()),
        classes_random=classes_random,
        checks=tuple(check or ()),
        store=store or shared_store(out),
        seed=seed,
        device=device,
        download=download,
        fail_on=fail_on,
        reveal=reveal,
        ocr=ocr,
        command=command(),
    )
    run_and_show(plan, as_json=as_json, quiet=quiet)


def memorize(
    red: options.Red,
    model: options.Model = None,
    answers: options.Recorded = None,
    pretrained: options.Pretrained = None,
    blue: options.Blue = None,
    control: options.Control = None,
    key: Annotated[
        list[str] | None,
        typer.Option("--key", help=f"What to ask for (repeat), or all: {_KEYS}.", show_default="provider_name"),
    ] = None,
    unprompted: Annotated[bool, typer.Option(help="Run the unprompted-disclosure test.")] = True,
    threshold: options.Threshold = 0.8,
    export: Annotated[
        Path | None,
        typer.Option(
            "--export", help="Write the scrubbed pages and questions for a vendor, and stop.", show_default=False
        ),
    ] = None,
    out: options.Out = None,
    store: options.Store = None,
    seed: options.Seed = 0,
    device: options.Device = "cpu",
    download: options.Download = False,
    fail_on: options.Gate = "leak",
    reveal: options.Reveal = False,
    ocr: options.Ocr = False,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
    config: options.Config = None,
) -> None:
    """Ask for values that have been blurred off the page and taken out of the OCR.

    Example: pfl-audit memorize --model ckpt --red data/red --key provider_name
    """
    from pfl_audit.core.runner import AuditPlan
    from pfl_audit.documents.keys import PROVIDER_KEYS

    keys = _keys(key or ["provider_name"], PROVIDER_KEYS)
    if export is not None:
        require_new(export)
        found = _export(export, red, blue, keys, seed, threshold, reveal=reveal)
        if as_json:
            print_json(found)
        elif not quiet:
            _tell_export(found)
        return
    checks = [f"memorization.{name}" for name in keys]
    plan = AuditPlan(
        title="Memorization test",
        out=run_folder(out, "memorize"),
        red=red,
        model=model,
        answers=answers,
        pretrained=pretrained,
        blue=blue,
        control=control,
        checks=(*checks, *(["memorization.unprompted"] if unprompted else [])),
        settings={"memorization": {"threshold": threshold}},
        store=store or shared_store(out),
        seed=seed,
        device=device,
        download=download,
        fail_on=fail_on,
        reveal=reveal,
        ocr=ocr,
        command=command(),
    )
    run_and_show(plan, as_json=as_json, quiet=quiet)


def mia(
    red: options.Red,
    model: options.Model = None,
    answers: options.Recorded = None,
    pretrained: options.Pretrained = None,
    control: options.Control = None,
    reference: options.References = None,
    classes_random: options.ClassesRandom = False,
    s: Annotated[
        list[int] | None,
        typer.Option(
            "--s", min=0, help="Attack providers with more than s questions (repeat).", show_default="0, 5, 10"
        ),
    ] = None,
    seeds: Annotated[
        int, typer.Option("--seeds", min=1, max=100, help="Draws of known providers and classifiers.")
    ] = 5,
    share: Annotated[float, typer.Option("--share", help="Providers whose membership APK knows (r).")] = 0.15,
    ablate: Annotated[bool, typer.Option("--ablate", help="Add the ablation of the paper's Table 11.")] = False,
    forest_search: Annotated[bool, typer.Option("--forest-search", help="Tune the random forests.")] = False,
    check: Checks = None,
    threshold: options.Threshold = 0.8,
    out: options.Out = None,
    store: options.Store = None,
    seed: options.Seed = 0,
    device: options.Device = "cpu",
    download: options.Download = False,
    fail_on: options.Gate = "leak",
    reveal: options.Reveal = False,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
    config: options.Config = None,
) -> None:
    """Tell which companies' documents were in the training set: AZK, APK, ensembles, likelihood ratios.

    Example: pfl-audit mia --model ckpt --red data/red --pretrained base
    """
    from pfl_audit.core.runner import AuditPlan

    settings: dict[str, Any] = {
        "s": tuple(s or (0, 5, 10)),
        "seeds": seeds,
        "share": share,
        "ablate": ablate,
        "forest_search": forest_search,
        "threshold": threshold,
    }
    plan = AuditPlan(
        title="Provider membership inference",
        out=run_folder(out, "mia"),
        red=red,
        model=model,
        answers=answers,
        pretrained=pretrained,
        control=control,
        references=tuple(reference or ()),
        classes_random=classes_random,
        checks=tuple(check or ("membership",)),
        settings={"membership": settings},
        store=store or shared_store(out),
        seed=seed,
        device=device,
        download=download,
        fail_on=fail_on,
        reveal=reveal,
        command=command(),
    )
    run_and_show(plan, as_json=as_json, quiet=quiet)


def run_and_show(plan: AuditPlan, *, as_json: bool, quiet: bool, gate: bool = True, show: bool = True) -> Results:
    """Run the audit, render its report, show the verdict, and leave with the right exit code.

    Args:
        plan: What to audit.
        as_json: Print results.json instead of the verdict.
        quiet: Show no progress.
        gate: Whether findings decide the exit code.
        show: Print the verdict, unless results.json is wanted.
    """
    from pfl_audit.cli.summary import show_verdict
    from pfl_audit.core.renderers import render_all
    from pfl_audit.core.runner import run_audit
    from pfl_audit.core.verdict import exit_code

    results = run_audit(plan, make_progress(quiet=quiet))
    reports = render_all(results, plan.out)
    if as_json:
        print_json(results.model_dump(mode="json"))
    elif show:
        show_verdict(results, plan.out, reports)
    if gate and (code := exit_code(results.verdict, results.checks)):
        raise typer.Exit(code)
    return results


def _keys(wanted: list[str], known: tuple[str, ...]) -> tuple[str, ...]:
    from pfl_audit.errors import UsageError

    for name in wanted:
        if name not in (*known, "all"):
            raise UsageError(f"there is no key '{name}'", f"Choose among: {', '.join(known)}, all")
    return known if "all" in wanted else tuple(dict.fromkeys(wanted))


def _export(
    folder: Path, red: Path, blue: Path | None, keys: tuple[str, ...], seed: int, threshold: float, *, reveal: bool
) -> dict[str, Any]:
    """Write a vendor's questions; return what was written, and every page that is not asked about with its reason."""
    from pfl_audit.core.redaction import Redactor
    from pfl_audit.documents.readers import open_corpus
    from pfl_audit.documents.scrubbed import scrubbed_questions
    from pfl_audit.documents.writers import write_questions

    corpus = open_corpus(red, "red")
    trained = open_corpus(blue, "blue") if blue else None
    sets = [scrubbed_questions(corpus, key, seed=seed, blue=trained, threshold=threshold) for key in keys]
    queries = [query for found in sets for query in found.queries]
    unreadable = {problem.record: problem.reason for problem in write_questions(queries, folder)}
    asked = [query for query in queries if query.id not in unreadable]
    if unreadable and not asked:
        reason = next(iter(unreadable.values()))
        raise NotAuditableError(f"no question can be written: {reason}", f"Run 'pfl-audit data check {red}'")
    skipped = [(problem.record, found.key, problem.reason) for found in sets for problem in found.skipped]
    skipped += [(query.document.id, query.key, unreadable[query.id]) for query in queries if query.id in unreadable]
    hide = Redactor(secrets.token_hex(), reveal=reveal)
    return {
        "questions": len(asked),
        "pages": len({query.document.id for query in asked}),
        "folder": str(folder),
        "skipped": [{"page": hide.page(page), "key": key, "reason": reason} for page, key, reason in skipped],
    }


def _tell_export(found: dict[str, Any]) -> None:
    for row in found["skipped"]:
        note(f"left out: {row['page']}, {row['key']}: {row['reason']}")
    asked = f"{found['questions']} questions about {found['pages']} scrubbed pages"
    note(f"{asked} written to {found['folder']}; record the answers by id for --answers")


def run_folder(out: Path | None, command: str) -> Path:
    """The folder of a run, named by command and time unless it was given."""
    return out or Path("pfl-audit-runs") / f"{command}-{datetime.now():%Y%m%d-%H%M%S}"


def shared_store(out: Path | None) -> Path | None:
    """Runs without a folder of their own share one store, so that the same command goes on."""
    return Path("pfl-audit-runs") / "responses.sqlite" if out is None else None


def command() -> str:
    """What was typed, for the report."""
    from pfl_audit.provenance import command_line

    return command_line(sys.argv[1:])
