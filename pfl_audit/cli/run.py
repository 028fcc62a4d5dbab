"""``run`` and ``validate``: a whole audit as one file in version control."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

File = Annotated[Path, typer.Argument(help="Configuration, with the keys that 'audit --config' takes.")]
PASS_ON = {"allow_extra_args": True, "ignore_unknown_options": True}
"""Options that 'run' does not know are those of 'audit'."""


def run(context: typer.Context, file: File) -> None:
    """Run the audit of a file: targets, documents, checks, gates and waivers.

    Every option of 'audit' may follow and wins over the file, such as --validate, --dry-run, --json or --out.

    Example: pfl-audit run audit.toml --dry-run
    """
    _audit(file, context.args)


def validate(context: typer.Context, file: File) -> None:
    """Check the file of an audit without opening a model; options of 'audit' may follow.

    Example: pfl-audit validate audit.toml
    """
    _audit(file, [*context.args, "--validate"])


def _audit(file: Path, more: list[str]) -> None:
    """Run the command ``audit`` with a configuration file."""
    from pfl_audit.cli.main import click_command

    arguments = ["audit", "--config", str(file), *more]
    code = click_command()(arguments, prog_name="pfl-audit", standalone_mode=False)
    if code:
        raise typer.Exit(code if isinstance(code, int) else 0)
