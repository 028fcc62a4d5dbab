"""``trainings``: finished trainings in one table, with the numbers of papers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pfl_audit.cli import options
from pfl_audit.cli.config_file import META, PUBLISHED
from pfl_audit.cli.console import print_json
from pfl_audit.errors import UsageError


def trainings(
    context: typer.Context,
    folders: Annotated[list[Path], typer.Argument(help="Folders of checkpoints that train has written.")],
    csv: Annotated[Path | None, typer.Option(help="All numbers as CSV, with those of papers.")] = None,
    latex: Annotated[Path | None, typer.Option(help="The same as LaTeX tables.")] = None,
    as_json: options.AsJson = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Write the files, and print nothing.")] = False,
    config: options.Config = None,
) -> None:
    """Put finished trainings in one table: validation scores, gigabytes sent and epsilon, with numbers of papers.

    [[published]] in --config has the papers' numbers; the check of a folder is training.NAME.

    Example: pfl-audit trainings models/lora models/baseline --csv table2.csv
    """
    from pfl_audit.cli.summary import show_trainings
    from pfl_audit.core.exports import write_exports
    from pfl_audit.core.published import read_published
    from pfl_audit.core.training_table import training_results

    wanted = {name: path for name, path in (("csv", csv), ("latex", latex)) if path is not None}
    if csv is not None and latex is not None and csv.absolute() == latex.absolute():
        raise UsageError("--csv and --latex have one name", "Name each differently")
    results = training_results(folders, read_published(context.meta.get(META, {}).get(PUBLISHED, ())))
    written = write_exports(results, wanted)
    if as_json:
        trained = {check.id: [metric.model_dump(mode="json") for metric in check.metrics] for check in results.checks}
        print_json({"trainings": trained, "files": [str(path) for path in written]})
    elif not quiet:
        show_trainings(results, written)
