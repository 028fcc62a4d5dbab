"""``pfl-audit``: the commands, and what their failures look like."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable
from functools import cache
from typing import Annotated, Any

import typer

from pfl_audit.cli import (
    account,
    canaries,
    compare,
    data,
    demo,
    explain,
    init,
    inspect,
    report,
    store,
    train,
    trainings,
    verify,
)
from pfl_audit.cli import run as run_file
from pfl_audit.cli.audit import audit_command
from pfl_audit.cli.audit_command import COMMANDS, register
from pfl_audit.cli.console import errors_as_json, fail
from pfl_audit.cli.help import App
from pfl_audit.cli.interrupts import ignore_signals, obey_signals
from pfl_audit.cli.launched import require_one_process, silence_followers
from pfl_audit.cli.libraries import restrain
from pfl_audit.errors import EXIT_ERROR, EXIT_INTERRUPTED, EXIT_USAGE, AuditError, is_interrupt
from pfl_audit.files import remedy_for
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
app.command("init")(init.init)
app.command("report")(report.report_command())
app.command("compare")(compare.compare)
app.command("train")(train.train)
app.command("trainings")(trainings.trainings)
app.command("account")(account.account_command())
app.command("canaries")(canaries.canaries)
app.command("verify")(verify.verify)
app.command("inspect")(inspect.inspect)
app.command("list")(inspect.list_checks)
app.command("explain")(explain.explain)
app.command("schema")(report.schema)
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
    errors_as_json("--json" in arguments)
    try:
        return _run(arguments)
    except AuditError as error:
        return fail(error.problem, error.remedy, error.exit_code)
    except (KeyboardInterrupt, typer.Abort):
        return _fail_interrupted()
    except _usage_error() as error:
        remedy = f"'{error.ctx.command_path} --help' lists what it takes" if getattr(error, "ctx", None) else ""
        return fail(error.format_message(), remedy, EXIT_USAGE)
    except typer.Exit as error:
        return int(error.exit_code)
    except BrokenPipeError:
        return EXIT_ERROR
    except SystemExit as error:
        if isinstance(error.__context__, BrokenPipeError):  # typer's 1 would read as a finding
            return EXIT_ERROR
        raise
    except Exception as error:
        return _fail_interrupted() if is_interrupt(error) else _fail_unexpectedly(error)


@cache
def click_command() -> Callable[..., object]:
    """All commands as click objects, made once a process: making them takes longer than a short command."""
    return typer.main.get_command(app)


def _run(arguments: list[str]) -> int:
    if arguments in ([], ["data"], ["store"]):
        arguments = [*arguments, "--help"]
    result = click_command()(arguments, prog_name="pfl-audit", standalone_mode=False)
    if sys.stdout is not None:
        sys.stdout.flush()
    if result == EXIT_INTERRUPTED:  # typer has caught the KeyboardInterrupt
        raise KeyboardInterrupt
    return result if isinstance(result, int) else 0


def _usage_error() -> Any:
    """What typer raises at a wrong flag: a class of its own since it left click, and click's before."""
    try:
        return importlib.import_module("typer.exceptions").TyperException
    except ImportError:
        return importlib.import_module("click").ClickException


def _fail_interrupted() -> int:
    return fail("interrupted; what is done is kept", "Repeat the command to go on from there", EXIT_INTERRUPTED)


def _fail_unexpectedly(error: Exception) -> int:
    """What no command foresees; never 1, which is a finding, and never the error's text, which may hold a value."""
    if os.environ.get("PFL_AUDIT_TRACEBACK") == "1":
        import traceback

        traceback.print_exception(error)
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":  # the latter is torch's
        problem, remedy = "out of memory", "Close other programs, or use a machine with more"
    elif isinstance(error, OSError) and error.strerror:
        problem = f"{error.filename}: {error.strerror}" if error.filename else error.strerror
        remedy = remedy_for(error) if error.filename else "Check the disk, and where the output goes"
    else:
        problem = f"internal error: {type(error).__name__}"
        remedy = "Set PFL_AUDIT_TRACEBACK=1 to see the traceback, and report it"
    return fail(problem, remedy, EXIT_ERROR)


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
