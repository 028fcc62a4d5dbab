"""``run`` and ``validate``: audits as one file in version control."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pfl_audit.errors import EXIT_FINDING, EXIT_INTERRUPTED, EXIT_NOT_AUDITED, EXIT_OK, UsageError
from pfl_audit.inputs import is_regular

if TYPE_CHECKING:
    from pfl_audit.cli.targets import Ended

File = Annotated[Path, typer.Argument(help="Configuration, with the keys that 'audit --config' takes.")]
AtOnce = Annotated[int, typer.Option("--at-once", min=1, max=256, help="Targets that are audited at the same time.")]
PASS_ON = {"allow_extra_args": True, "ignore_unknown_options": True}
"""Options that 'run' does not know are those of 'audit'."""
_INSTEAD = ("--validate", "--dry-run", "--shard")
"""Options with which no audit is run, so that there is nothing to compare."""


def run(context: typer.Context, file: File, at_once: AtOnce = 1) -> None:
    """Run the audit of a file: targets, documents, checks, gates and waivers.

    Every option of 'audit' may follow and wins over the file, such as --validate, --dry-run, --json or --out.
    A file with [[targets]] is an audit of each, into a folder of its own, and a page that compares them.

    Example: pfl-audit run audit.toml --dry-run
    """
    _audit(file, context.args, at_once)


def validate(context: typer.Context, file: File) -> None:
    """Check the file of an audit without opening a model; options of 'audit' may follow.

    Example: pfl-audit validate audit.toml
    """
    _audit(file, [*context.args, "--validate"], 1)


def _audit(file: Path, more: list[str], at_once: int) -> None:
    """Run the command ``audit`` with a configuration file, once or for each of its targets."""
    from pfl_audit.cli.config_file import read_config
    from pfl_audit.cli.main import click_command
    from pfl_audit.cli.targets import targets_of

    table = read_config(file)
    targets = targets_of(file, table)
    if targets and not _given(more, "--target"):
        code: object = _audit_each(file, list(targets), more, table, at_once)
    elif at_once > 1:
        raise UsageError("--at-once means nothing for one audit", "Leave it out")
    else:
        arguments = ["audit", "--config", str(file), *more]
        code = click_command()(arguments, prog_name="pfl-audit", standalone_mode=False)
    if code:
        raise typer.Exit(code if isinstance(code, int) else 0)


def _audit_each(file: Path, names: list[str], more: list[str], table: Mapping[str, object], at_once: int) -> int:
    from pfl_audit.cli.console import print_json
    from pfl_audit.cli.targets import Children, audit_here, parsed, worst

    out, more = _folder(file, more, table)
    as_json, instead = "--json" in more, any(_given(more, name) for name in _INSTEAD)
    shared = _given(more, "--shard")  # its stores are all that is written
    audits = {
        name: ["audit", "--config", str(file), "--target", name, *more, *([] if shared else ["--out", str(out / name)])]
        for name in names
    }
    ended: dict[str, Ended] = {}
    if at_once > 1 or as_json:
        ended = Children(at_once).audit(audits, show=not as_json)
    else:
        for name, arguments in audits.items():
            ended[name] = audit_here(name, arguments)
            if ended[name].code == EXIT_INTERRUPTED:
                return EXIT_INTERRUPTED
    page = None if instead else _compared(out, ended, show=not (as_json or "-q" in more or "--quiet" in more))
    if as_json:
        found = {name: {"exit_code": one.code, "printed": parsed(one.told)} for name, one in ended.items()}
        print_json({"targets": found, "comparison": str(page) if page else None})
    return worst([one.code for one in ended.values()])


def _given(options: list[str], name: str) -> bool:
    """Whether an option is among others, as one argument or as two."""
    return any(option.partition("=")[0] == name for option in options)


def _folder(file: Path, more: list[str], table: Mapping[str, object]) -> tuple[Path, list[str]]:
    """Folder of all targets, and the options without it."""
    rest, given = list[str](), table.get("out")
    options = iter(more)
    for option in options:
        if option == "--out":
            given = next(options, None)
        elif option.startswith("--out="):
            given = option.removeprefix("--out=")
        else:
            rest.append(option)
    if not isinstance(given, str):
        raise UsageError(f"{file} has several targets, and no folder for them", "Set 'out' in it, or give --out")
    return Path(given), rest


def _compared(out: Path, ended: Mapping[str, Ended], *, show: bool) -> Path | None:
    """Write the page that compares the audits that gave results; None where there are fewer than two."""
    from pfl_audit.cli.summary import show_comparison
    from pfl_audit.core.comparison import compare
    from pfl_audit.core.renderers import render_comparison
    from pfl_audit.core.results import FILE_NAME, read_results

    codes = (EXIT_OK, EXIT_FINDING, EXIT_NOT_AUDITED)
    done = [out / name for name, one in ended.items() if one.code in codes and is_regular(out / name / FILE_NAME)]
    if len(done) < 2:
        return None
    comparison = compare([(read_results(run), run) for run in done])
    pages = render_comparison(comparison, out / "comparison.html")
    if show:
        show_comparison(comparison, pages)
    return pages[0] if pages else None
