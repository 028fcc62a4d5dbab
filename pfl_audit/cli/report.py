"""``report`` and ``schema``: render again, and what results.json looks like."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pfl_audit.cli import options
from pfl_audit.cli.console import print_json


def report(
    run: Annotated[Path, typer.Argument(help="Folder of a finished audit.")],
    as_json: options.AsJson = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Render, and print no verdict.")] = False,
    config: options.Config = None,
) -> None:
    """Render the report of a finished audit again, without asking the model.

    Example: pfl-audit report audit-demo
    """
    from pfl_audit.cli.summary import show_verdict
    from pfl_audit.core.renderers import render_all
    from pfl_audit.core.results import read_results

    results = read_results(run)
    reports = render_all(results, run)
    if as_json:
        print_json({"reports": [str(path) for path in reports]})
    elif not quiet:
        show_verdict(results, run, reports)


def schema() -> None:
    """Print the JSON Schema of results.json.

    Example: pfl-audit schema > results.schema.json
    """
    from pfl_audit.core.results import Results

    print_json(Results.model_json_schema())
