"""``pfl-audit``: the commands, and how their process begins and ends."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import cache
from typing import Annotated

import typer

from pfl_audit.cli import (
    account,
    canaries,
    data,
    demo,
    explain,
    init,
    inspect,
    report,
    schema,
    store,
    train,
    trainings,
    verify,
)
from pfl_audit.cli import run as run_file
from pfl_audit.cli.audit import audit_command
from pfl_audit.cli.audit_command import COMMANDS, register
from pfl_audit.cli.help import App
from pfl_audit.cli.invocation import invoke
from pfl_audit.cli.process import ignore_signals, mute_commands, obey_signals, restrain
from pfl_audit.errors import EXIT_ERROR, EXIT_INTERRUPTED
from pfl_audit.launcher import require_one_process, silence_followers
from pfl_audit.version import __version__

app = App(
    name="pfl-audit",
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Audit what a document-understanding model gives away about its training documents.",
)
app.command("demo")(demo.demo)
register(app, audit_command())
for command in COMMANDS.installed().values():
    register(app, command)
app.command("run", context_settings=run_file.PASS_ON)(run_file.run)
app.command("validate", context_settings=run_file.PASS_ON)(run_file.validate)
_COMMANDS: dict[str, Callable[..., None]] = {
    "init": init.init,
    "report": report.report_command(),
    "compare": report.compare,
    "train": train.train,
    "trainings": trainings.trainings,
    "account": account.account_command(),
    "canaries": canaries.canaries,
    "verify": verify.verify,
    "inspect": inspect.inspect,
    "list": inspect.list_checks,
    "explain": explain.explain,
    "schema": schema.schema,
}
for name, function in _COMMANDS.items():
    app.command(name)(function)
app.add_typer(data.app, name="data")
app.add_typer(store.app, name="store")


def _version(value: bool) -> None:
    if value:
        typer.echo(f"pfl-audit {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    if context.invoked_subcommand not in ("train", None):
        require_one_process(str(context.invoked_subcommand))


def main() -> None:
    """Run the command line; every failure is one line on stderr and an exit code."""
    restrain()
    mute_commands()
    obey_signals()
    silence_followers()
    code = run(sys.argv[1:])
    ignore_signals()
    _leave_nothing_to_flush()
    if code in (EXIT_ERROR, EXIT_INTERRUPTED):
        _leave_at_once(code)
    sys.exit(code)


def run(arguments: list[str]) -> int:
    """Run the command line and return its exit code."""
    return invoke(click_command(), arguments)


@cache
def click_command() -> Callable[..., object]:
    """All commands as click objects, made once a process: making them takes longer than a short command."""
    return typer.main.get_command(app)


def _leave_at_once(code: int) -> None:
    """End with all processes of a pool: one that was cut may have a thread that writes to them for ever."""
    if pools := sys.modules.get("multiprocessing"):
        for process in pools.active_children():
            process.kill()
            process.join()
    os._exit(code)


def _leave_nothing_to_flush() -> None:
    """What a full disk or a closed pipe did not take would fail again as the interpreter ends, with code 120."""
    for stream, number in ((sys.stdout, 1), (sys.stderr, 2)):
        try:
            if stream is not None:
                stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), number)
