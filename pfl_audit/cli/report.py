"""``report`` and ``compare``: pages of finished audits, rendered again or side by side."""

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


def compare(
    runs: Annotated[list[Path], typer.Argument(help="Folders of finished audits.")],
    out: Annotated[Path, typer.Option("--out", help="The page to write.")] = Path("comparison.html"),
    as_json: options.AsJson = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Write the page, and print nothing.")] = False,
    config: options.Config = None,
) -> None:
    """Put audits of several models side by side: what each is useful for, and what it gives away.

    Example: pfl-audit compare audit-base audit-private audit-plain --out comparison.html
    """
    from pydantic_core import to_jsonable_python

    from pfl_audit.cli.summary import show_comparison
    from pfl_audit.core.comparison import compare as side_by_side
    from pfl_audit.core.renderers import render_comparison
    from pfl_audit.core.results import read_results, results_path

    comparison = side_by_side([(read_results(run), results_path(run).parent) for run in runs])
    pages = render_comparison(comparison, out)
    if as_json:
        print_json({"pages": [str(page) for page in pages], **to_jsonable_python(comparison)})
    elif not quiet:
        show_comparison(comparison, pages)
