"""``compare``: audits side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pfl_audit.cli import options
from pfl_audit.cli.console import print_json


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
