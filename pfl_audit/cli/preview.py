"""In place of an audit: what it is going to do (``--validate``, ``--dry-run``), and one share of it (``--shard``)."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

from pfl_audit.cli.console import make_progress, print_json
from pfl_audit.cli.options import refuse_unused
from pfl_audit.cli.outputs import output_parameters
from pfl_audit.core.redaction import visible

if TYPE_CHECKING:
    from pfl_audit.core.plan import AuditPlan
    from pfl_audit.core.subject import Estimate


def show_validated(plan: AuditPlan, *, as_json: bool) -> None:
    """Validate a plan, and print which checks have their inputs.

    Raises:
        UsageError: Something is wrong or does not exist.
    """
    from pfl_audit.core.runner import validate_plan

    checks = validate_plan(plan)
    possible = [name for name, reason in checks.items() if reason is None]
    if as_json:
        print_json({"valid": True, "checks": checks, "gates": list(plan.gates)})
        return
    typer.echo(
        f"valid: {len(possible)} of {len(checks)} checks have their inputs, as far as is known without the model"
    )
    typer.echo(f"gates: {len(plan.gates)}, waivers: {len(plan.waivers)}, required: {', '.join(plan.require) or 'none'}")
    for name, reason in checks.items():
        if reason is not None:
            typer.echo(visible(f"not run: {name}: {reason}", 500))


def show_estimate(plan: AuditPlan, *, as_json: bool, quiet: bool) -> None:
    """Validate a plan, and print how much it asks and what that takes.

    Raises:
        AuditError: The plan is not valid, or the model or the documents cannot be opened.
    """
    from pfl_audit.core.runner import estimate_plan, validate_plan

    checks = validate_plan(plan)
    found = estimate_plan(plan, make_progress(quiet=quiet))
    possible = sum(reason is None for reason in checks.values())
    if as_json:
        print_json({"checks": possible, "subjects": {name: asdict(one) for name, one in found.items()}})
        return
    typer.echo(f"checks: {possible} of {len(checks)} have their inputs")
    for name, one in found.items():
        for line in _lines(one):
            typer.echo(f"{name}: {line}")
    if not found:
        typer.echo("These subjects give no estimate")


def _lines(one: Estimate) -> list[str]:
    beside = f", and as many to each of {one.models - 1} models beside it" if one.models > 1 else ""
    lines = [f"at most {one.questions:,} {one.unit} for the model under audit{beside}"]
    if one.seconds is not None:
        lines.append(f"about {_span(one.seconds)} for them, from {one.sample} that were timed here")
    if one.memory is not None:
        lines.append(f"about {one.memory / (1 << 30):.1f} GiB of memory")
    return [*lines, one.note]


def _span(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def refuse_outputs(context: typer.Context) -> None:
    """Refuse ``--out`` and files for other tools.

    Raises:
        UsageError: One of them is given.
    """
    written = ["out", *(parameter.name for parameter in output_parameters())]
    refuse_unused(context, dict.fromkeys(written, "with --shard, which writes a store alone"), typed=True)


def show_share(plan: AuditPlan, *, as_json: bool, quiet: bool) -> None:
    """Ask the share of a plan, and say what is left.

    Raises:
        AuditError: As of ``run_share``.
    """
    from pfl_audit.core.shares import run_share

    done = run_share(plan, make_progress(quiet=quiet))
    if as_json:
        print_json({"shard": str(plan.share), "store": str(plan.store), **asdict(done)})
        return
    typer.echo(f"shard {plan.share}: {done.asked:,} questions asked, {done.reused:,} reused from {plan.store}")
    if done.waiting:
        typer.echo(
            f"{', '.join(done.waiting)} may ask more when the answers of all shards are merged: see docs/cluster.md"
        )
