"""What an audit with ``--shard`` refuses, and what it prints."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

from pfl_audit.cli.console import make_progress, print_json
from pfl_audit.cli.outputs import output_parameters
from pfl_audit.cli.unused import refuse_unused

if TYPE_CHECKING:
    from pfl_audit.core.plan import AuditPlan


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
