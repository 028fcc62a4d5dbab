"""``defend``: perturb a template before it is published, and see what that leaves of the attack."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from pydantic import Field

from pfl_audit.api import run_folder, shared_store
from pfl_audit.attacks.inversion.command import checks_of
from pfl_audit.attacks.inversion.inputs import GradientInputs
from pfl_audit.attacks.inversion.settings import InversionSettings
from pfl_audit.attacks.inversion.subject import require_float32
from pfl_audit.cli.audit_command import AuditCommand, Request, command_line, run_and_show
from pfl_audit.cli.console import make_progress, print_json
from pfl_audit.cli.options import embedded
from pfl_audit.cli.settings_options import Options
from pfl_audit.core.settings import Flag, Settings, read_settings
from pfl_audit.errors import EXIT_NOT_AUDITED, UsageError
from pfl_audit.files import write_json
from pfl_audit.out_folder import OutFolder

if TYPE_CHECKING:
    from pfl_audit.attacks.inversion.published import Published
    from pfl_audit.core.plan import AuditPlan
    from pfl_audit.core.results import Check, Metric, Results

FILE_NAME = "defence.json"
NOTE = (
    "A perturbed template does nothing against attacks that need no template: closed forms (words, boxes and page of a "
    "LayoutLM by --method analytic, question and answer by text, the words of all pages of an update of any model by "
    "words), and searches that begin with noise (dlg, idlg, inverting-gradients, april). Nor does it help against an "
    "attacker who has the clean form, or cleans the published one: on white paper, making almost white pixels white "
    "undoes most of it."
)
_BEFORE = "before"
_ATTACK = "Attack: docs/inversion.md"


class DefendChoice(Settings):
    """How to perturb the template, and how to attack it."""

    budget: tuple[Annotated[int, Field(ge=1, le=255)], ...] = Field(
        default=(8, 12, 16, 32), description="Levels of 255 that a pixel may change by (repeat)."
    )
    strategy: tuple[str, ...] = Field(default=("pgd",), description="How to perturb: pgd or random (repeat).")
    steps: int = Field(default=20, ge=1, description="Steps of PGD, of a quarter of the budget each.")
    method: Annotated[tuple[str, ...], Flag(panel=_ATTACK)] = Field(
        default=("lbfgs",), description="Method of the attack, as of invert (repeat)."
    )


def _defend(request: Request) -> bool:
    """Write the perturbed templates, attack all of them, and compare."""
    from pfl_audit.core.comparison import compare
    from pfl_audit.core.renderers import render_comparison

    require_float32(request.precision)
    choice = read_settings(DefendChoice, request.choice, "defend")
    request.model = request.model or str(embedded("donut"))
    inputs = request.inputs.setdefault("gradients", {})
    if "template" not in inputs:
        inputs |= {"template": embedded("templates", "form-01", "template.png"), "public_form": True}
    if "public" in inputs:
        raise UsageError("gradients.public is what defend writes", "Leave it out, or give --public to invert")
    folder = run_folder(request.out, "defend")
    checks = checks_of(choice.method, Path(request.model))
    request.store = request.store or shared_store(request.out) or folder / "responses.sqlite"
    with OutFolder(folder, "defence", private=True):
        published = _protect(request, choice, folder)
        variants = (None, *published)
        found = [
            (run_and_show(plan, as_json=False, quiet=request.quiet, gate=False, show=False), plan.out)
            for plan in (_plan(request, one, folder, checks) for one in variants)
        ]
        comparison = compare(found)
        noted = replace(comparison, notes=(*comparison.notes, NOTE))
        pages = render_comparison(noted, folder / "comparison.html")
        audited = [(one, results) for one, (results, _) in zip(variants, found, strict=True)]
        summary = {"variants": [_summary(one, results) for one, results in audited], "note": NOTE}
        write_json(folder / FILE_NAME, summary)
    if request.as_json:
        print_json(summary)
    else:
        _show(audited, [*pages, folder / FILE_NAME])
    if any(check.status != "ran" for _, results in audited for check in results.checks):
        raise typer.Exit(EXIT_NOT_AUDITED)
    return False


def _protect(request: Request, choice: DefendChoice, folder: Path) -> list[Published]:
    from pfl_audit.attacks.inversion.published import protect

    given = read_settings(GradientInputs, request.inputs["gradients"], "gradients")
    return protect(
        GradientInputs(template=given.template or Path(), fields=given.fields),
        str(request.model),
        choice.strategy,
        choice.budget,
        choice.steps,
        folder,
        request.seed,
        request.device,
        make_progress(quiet=request.quiet),
    )


def _plan(request: Request, one: Published | None, folder: Path, checks: tuple[str, ...]) -> AuditPlan:
    """The audit of one template; clients fill in the clean form, and observers have what was published."""
    from pfl_audit.core.plan import AuditPlan

    gradients = {**request.inputs["gradients"], **({"public": one.template} if one else {})}
    return AuditPlan(
        title=one.title if one else "Clean template",
        out=folder / (one.name if one else _BEFORE),
        model=request.model,
        inputs={**request.inputs, "gradients": gradients},
        checks=checks,
        settings=request.settings,
        store=request.store,
        seed=request.seed,
        device=request.device,
        workers=request.workers,
        cluster=request.cluster,
        fail_on="never",
        reveal=request.reveal,
        release=request.release,
        command=command_line(),
        config=request.config,
    )


def _summary(one: Published | None, results: Results) -> dict[str, object]:
    """What one template is and what came back with its help."""
    from pfl_audit.core.numbers import headline

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
        metrics = (headline(check), _psnr(check))
        printed = [metric.model_dump(mode="json", exclude_none=True) for metric in metrics if metric]
        rows.append({"id": check.id, "status": check.status, "reason": check.reason, "metrics": printed})
    return {"name": one.name if one else _BEFORE, **made, "checks": rows}


def _show(audited: list[tuple[Published | None, Results]], files: list[Path]) -> None:
    """A line a template and check, and where everything lies."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from pfl_audit.core.numbers import chance, headline, interval, number
    from pfl_audit.core.redaction import visible

    console = Console(highlight=False)
    console.width = max(console.width, 110)
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for column in ("template", "check", "number", "interval", "chance", "PSNR in the fields"):
        table.add_column(column, no_wrap=True)
    reasons: dict[str, None] = {}
    for one, results in audited:
        for check in results.checks:
            head, psnr = headline(check), _psnr(check)
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


def _psnr(check: Check) -> Metric | None:
    """Inside the private fields."""
    place = {"place": "private fields"}
    return next((metric for metric in check.metrics if metric.name == "PSNR" and metric.slice == place), None)


COMMAND = AuditCommand(
    name="defend",
    title="Defence of a template",
    help="""Perturb a template before it is published, so that a gradient's observer gets less with its help.

    Writes the perturbed templates and what changed, and attacks clients who fill in the clean form: once an observer
    who has it as well, then one who has what was published.

    Example: pfl-audit defend --template form.png --model ckpt --budget 8 --documents 12
    """,
    inputs=(
        Options(
            "gradients", GradientInputs, ("template", "fields", "documents"), defaults={"template": "an embedded form"}
        ),
    ),
    choice=Options("choice", DefendChoice),
    settings=(Options("inversion", InversionSettings, ("iterations",), panel=_ATTACK),),
    prepare=_defend,
    model_default="the embedded Donut",
    gate=False,
)
