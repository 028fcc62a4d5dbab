"""What an audit with ``--shard`` prints."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

from pfl_audit.cli.console import make_progress, print_json

if TYPE_CHECKING:
    from pfl_audit.core.plan import AuditPlan


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
