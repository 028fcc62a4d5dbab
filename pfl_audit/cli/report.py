"""``report`` and ``schema``: render again, and what results.json looks like."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from pfl_audit.cli import options
from pfl_audit.cli.console import print_json
from pfl_audit.cli.outputs import output_parameters, outputs_of
from pfl_audit.cli.settings_options import keyword, with_parameters

Run = Annotated[Path, typer.Argument(help="Folder of a finished audit.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Render, and print no verdict.")]


def report_command() -> Callable[..., None]:
    """The command ``report``, with an option for every installed export."""
    run = inspect.Parameter("run", inspect.Parameter.KEYWORD_ONLY, annotation=Run)
    shared = [
        keyword("as_json", options.AsJson, False),
        keyword("quiet", Quiet, False),
        keyword("config", options.Config, None),
    ]
    return with_parameters(report, [run, *shared, *output_parameters()])


def report(context: typer.Context, **given: Any) -> None:
    """Render the report of a finished audit again, without asking the model.

    Example: pfl-audit report audit-demo
    """
    from pfl_audit.cli.summary import show_verdict
    from pfl_audit.core.renderers import render_all
    from pfl_audit.core.results import read_results, results_path

    outputs = outputs_of(given)
    results = read_results(given["run"])
    run = results_path(given["run"]).parent
    reports = render_all(results, run)
    reports += outputs.write(results, run, reports)
    if given["as_json"]:
        print_json({"reports": [str(path) for path in reports]})
    elif not given["quiet"]:
        show_verdict(results, run, reports)


def schema(
    check: Annotated[Path | None, typer.Option("--check", help="Check a results.json, or the folder of a run.")] = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print every field as a table for documents.")] = False,
) -> None:
    """Print the JSON Schema of results.json, or check a file against it and its limits.

    Example: pfl-audit schema > results.schema.json
    """
    from pfl_audit.core.results import VERSION, Results, read_results, results_path
    from pfl_audit.core.schema_page import schema_page

    if check is not None:
        results = read_results(check)
        count = len(results.checks)
        typer.echo(f"{results_path(check)} is valid, and read as version {VERSION}: {count} checks")
    elif markdown:
        typer.echo(schema_page(), nl=False)
    else:
        print_json(Results.model_json_schema())
