"""``defend``: perturb a template before it is published, and see what that leaves of the attack."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pfl_audit.cli import options

if TYPE_CHECKING:
    from pfl_audit.core.defence import Published
    from pfl_audit.core.results import Check, Results

BUDGETS = (8, 12, 16, 32)
FILE_NAME = "defence.json"
NOTE = (
    "Closed forms need no template: words, boxes and page of a LayoutLM (--method analytic), and question and answer, "
    "are recovered whatever is published. Nor does this help against an attacker who has the clean form, or cleans the "
    "published one: on white paper, making almost white pixels white undoes most of it."
)
_BEFORE = "before"
_ATTACK = "Attack: docs/inversion.md"


def defend(
    template: Annotated[
        Path | None,
        typer.Option("--template", help="Picture of the empty form.", show_default="an embedded form"),
    ] = None,
    fields: Annotated[
        Path | None,
        typer.Option("--fields", help="Its private fields (fields.json).", show_default="beside it, or found"),
    ] = None,
    model: Annotated[
        Path | None,
        typer.Option("--model", help="Checkpoint that clients train.", show_default="the embedded Donut"),
    ] = None,
    budget: Annotated[
        list[int] | None,
        typer.Option(
            "--budget",
            min=1,
            max=255,
            help="Levels of 255 that a pixel may change by (repeat).",
            show_default=", ".join(map(str, BUDGETS)),
        ),
    ] = None,
    strategy: Annotated[
        list[str] | None,
        typer.Option("--strategy", help="How to perturb: pgd or random (repeat).", show_default="pgd"),
    ] = None,
    steps: Annotated[int, typer.Option("--steps", min=1, help="Of PGD, a quarter of the budget each.")] = 20,
    documents: Annotated[
        int,
        typer.Option("--documents", min=1, help="Pages to fill and attack on each template.", rich_help_panel=_ATTACK),
    ] = 1,
    method: Annotated[
        list[str] | None,
        typer.Option("--method", help="As of invert (repeat).", show_default="lbfgs", rich_help_panel=_ATTACK),
    ] = None,
    iterations: Annotated[
        int | None,
        typer.Option("--iterations", min=1, help="Of a search, at most.", show_default="800", rich_help_panel=_ATTACK),
    ] = None,
    out: options.Out = None,
    store: options.Store = None,
    seed: options.Seed = 0,
    device: options.Device = "cpu",
    reveal: options.Reveal = False,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
    config: options.Config = None,
) -> None:
    """Perturb a template before it is published, so that a gradient's observer gets less with its help.

    Writes the perturbed templates and what changed, and attacks clients who fill in the clean form: once an observer
    who has it as well, then one who has what was published.

    Example: pfl-audit defend --template form.png --model ckpt --budget 8 --documents 12
    """
    from pfl_audit.cli.audit import command, run_and_show, run_folder, shared_store
    from pfl_audit.cli.console import make_progress, print_json
    from pfl_audit.cli.invert import checks_of
    from pfl_audit.core.comparison import compare
    from pfl_audit.core.defence import DefencePlan, protect
    from pfl_audit.core.renderers import render_comparison
    from pfl_audit.core.runner import AuditPlan, GradientPlan
    from pfl_audit.errors import EXIT_NOT_AUDITED
    from pfl_audit.files import write_json
    from pfl_audit.out_folder import OutFolder

    model = model or options.embedded("donut")
    embedded = template is None
    template = template or options.embedded("templates", "form-01", "template.png")
    folder = run_folder(out, "defend")
    kept = store or shared_store(out) or folder / "responses.sqlite"
    checks = checks_of(method or ["lbfgs"], model)

    def plan(one: Published | None) -> AuditPlan:
        return AuditPlan(
            title=one.title if one else "Clean template",
            out=folder / (one.name if one else _BEFORE),
            model=str(model),
            gradients=GradientPlan(
                template, fields, documents=documents, public=one.template if one else None, public_form=embedded
            ),
            checks=checks,
            settings={"inversion": {"iterations": iterations} if iterations else {}},
            store=kept,
            seed=seed,
            device=device,
            fail_on="never",
            reveal=reveal,
            command=command(),
        )

    with OutFolder(folder, "defence", private=True):
        published = protect(
            DefencePlan(
                template=template,
                fields=fields,
                model=str(model),
                strategies=tuple(strategy or ("pgd",)),
                budgets=tuple(budget or BUDGETS),
                steps=steps,
                out=folder,
                seed=seed,
                device=device,
            ),
            make_progress(quiet=quiet),
        )
        variants = (None, *published)
        found = [
            (run_and_show(audit, as_json=False, quiet=quiet, gate=False, show=False), audit.out)
            for audit in map(plan, variants)
        ]
        pages = render_comparison(compare(found), folder / "comparison.html")
        audited = [(one, results) for one, (results, _) in zip(variants, found, strict=True)]
        summary = {"variants": [_summary(one, results) for one, results in audited], "note": NOTE}
        write_json(folder / FILE_NAME, summary)
    if as_json:
        print_json(summary)
    else:
        _show(audited, [*pages, folder / FILE_NAME])
    if any(check.status != "ran" for _, results in audited for check in results.checks):
        raise typer.Exit(EXIT_NOT_AUDITED)


def _summary(one: Published | None, results: Results) -> dict[str, Any]:
    """What one template is and what came back with its help."""
    made = (
        {
            "strategy": one.strategy,
            "budget": one.budget,
            "template": one.template.name,
            "difference": one.difference.name,
        }
        if one
        else {}
    )
    rows = []
    for check in results.checks:
        metrics = (_headline(check), _psnr(check))
        told = [metric.model_dump(mode="json", exclude_none=True) for metric in metrics if metric]
        rows.append({"id": check.id, "status": check.status, "reason": check.reason, "metrics": told})
    return {"name": one.name if one else _BEFORE, **made, "checks": rows}


def _show(audited: list[tuple[Published | None, Results]], files: list[Path]) -> None:
    """A line a template and check, and where everything lies."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from pfl_audit.core.numbers import chance, interval, number
    from pfl_audit.core.redaction import visible

    console = Console(highlight=False)
    console.width = max(console.width, 110)
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for column in ("template", "check", "number", "interval", "chance", "PSNR in the fields"):
        table.add_column(column, no_wrap=True)
    reasons: dict[str, None] = {}
    for one, results in audited:
        for check in results.checks:
            head, psnr = _headline(check), _psnr(check)
            cells = (f"{number(head)} {head.name}", interval(head), chance(head)) if head else ("–", "", "")
            inside = f"{number(psnr)} {interval(psnr)}".strip() if psnr else "–"
            table.add_row(one.name if one else _BEFORE, check.id, *cells, inside)
            if check.status != "ran":
                reasons[f"{check.status}: {check.id}: {visible(check.reason or '', 1000)}"] = None
    console.print()
    console.print(table)
    console.print()
    for line in (*reasons, NOTE):
        console.print(escape(line), soft_wrap=True)
    made = [path for one, _ in audited if one for path in (one.template, one.difference)]
    for path in (*made, *files):
        console.print(escape(str(path)), soft_wrap=True)


def _headline(check: Check) -> Any:
    from pfl_audit.core.numbers import headline

    return headline(check)


def _psnr(check: Check) -> Any:
    """Inside the private fields."""
    place = {"place": "private fields"}
    return next((metric for metric in check.metrics if metric.name == "PSNR" and metric.slice == place), None)
