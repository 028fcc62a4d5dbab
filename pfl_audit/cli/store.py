"""``store``: what is done with stores of answers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pfl_audit.cli import options
from pfl_audit.cli.console import print_json
from pfl_audit.cli.help import App

app = App(rich_markup_mode=None, help="Put stores of answers together.")


@app.callback()
def _root() -> None:
    pass


@app.command()
def merge(
    out: Annotated[Path, typer.Argument(help="Store to add to; a new one is made.")],
    stores: Annotated[list[Path], typer.Argument(help="Stores of the shards of one audit.")],
    as_json: options.AsJson = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Merge, and print nothing.")] = False,
) -> None:
    """Merge the stores that audits with --shard have filled.

    Each is added whole or not at all, and the same command goes on where it was killed. A store of another model or
    of other documents is refused.

    Example: pfl-audit store merge all.sqlite shard-1.sqlite shard-2.sqlite
    """
    from dataclasses import asdict

    from pfl_audit.core.store_merge import merge_stores

    done = merge_stores(out, stores)
    if as_json:
        print_json({"store": str(out), **asdict(done)})
    elif not quiet:
        typer.echo(f"{done.answers:,} answers and {done.records:,} records added, {done.known:,} were there")
        if done.different:
            apart = f"losses by up to {done.apart:.1e}"
            typer.echo(f"{done.different:,} answers differ from store to store, {apart}; the first one is kept")
