"""``account --ledger``: what the private runs over some data have spent together."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import typer

from pfl_audit.cli.console import print_json


def show_ledger(path: Path, *, as_json: bool) -> None:
    """Print the runs of a ledger and their sum; no provider is named.

    Raises:
        UsageError: There is no ledger.
        AuditError: It is damaged.
    """
    from pfl_audit.core.redaction import visible
    from pfl_audit.privacy.ledger import Ledger

    spent = Ledger(path).spent()
    if as_json:
        runs = {
            name: run.model_dump(exclude={"divergences", "providers"}) | {"providers": len(run.providers)}
            for name, run in spent.runs.items()
        }
        print_json(asdict(spent) | {"runs": runs})
        return
    for name, run in spent.runs.items():
        typer.echo(
            f"{'run':10}{visible(name[:12])} of {visible(run.began)}: {len(run.providers)} providers, "
            f"{run.rounds} rounds, noise {run.noise_multiplier:g}, epsilon {run.epsilon:.4g} alone"
        )
    typer.echo(f"{'providers':10}{spent.providers}")
    typer.echo(
        f"{'epsilon':10}{spent.epsilon:.4g} at delta {spent.delta:g}, of the provider that has spent most, by a Rényi "
        f"filter of order {spent.order:g}"
    )
    typer.echo(f"{'together':10}{spent.together:.4g}, as if one provider were in all runs")
    if spent.cap is not None:
        typer.echo(f"{'cap':10}{spent.cap:g}")
