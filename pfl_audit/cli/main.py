"""``pfl-audit``: the commands, and what their failures look like."""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import sys
import threading
from typing import Annotated, Any

import typer

from pfl_audit import __version__
from pfl_audit.cli import account, audit, compare, data, defend, demo, inspect, invert, reconstruct, report, train
from pfl_audit.cli.console import note
from pfl_audit.errors import EXIT_ERROR, EXIT_INTERRUPTED, EXIT_USAGE, AuditError

app = typer.Typer(
    name="pfl-audit",
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Audit what a document-understanding model gives away about its training documents.",
)
app.command("demo")(demo.demo)
app.command("audit")(audit.audit)
app.command("memorize")(audit.memorize)
app.command("mia")(audit.mia)
app.command("reconstruct")(reconstruct.reconstruct)
app.command("invert")(invert.invert)
app.command("defend")(defend.defend)
app.command("report")(report.report)
app.command("compare")(compare.compare)
app.command("train")(train.train)
app.command("account")(account.account)
app.command("inspect")(inspect.inspect)
app.command("list")(inspect.list_checks)
app.command("schema")(report.schema)
app.add_typer(data.app, name="data")


def _version(value: bool) -> None:
    if value:
        typer.echo(f"pfl-audit {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command line; every failure is one line on stderr and an exit code."""
    # Nothing touches the network unless --download asks for it.
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    sys.unraisablehook = _interrupt_again
    code = run(sys.argv[1:])
    _leave_nothing_to_flush()
    sys.exit(code)


def _interrupt_again(lost: sys.UnraisableHookArgs) -> None:
    """Give an interrupt once more that fell into a destructor, where Python drops it."""
    if issubclass(lost.exc_type, KeyboardInterrupt):
        threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT)).start()
    else:
        sys.__unraisablehook__(lost)


def run(arguments: list[str]) -> int:
    """Run the command line and return its exit code."""
    wrong_usage = _usage_error()
    if arguments in ([], ["data"]):
        arguments = [*arguments, "--help"]
    try:
        result = app(arguments, prog_name="pfl-audit", standalone_mode=False)
        if sys.stdout is not None:
            sys.stdout.flush()
        if result == EXIT_INTERRUPTED:  # typer has caught the KeyboardInterrupt
            raise KeyboardInterrupt
        return result if isinstance(result, int) else 0
    except AuditError as error:
        return _fail(str(error), error.exit_code)
    except (KeyboardInterrupt, typer.Abort):
        return _fail("interrupted; what is done is kept, and the same command goes on from there", EXIT_INTERRUPTED)
    except wrong_usage as error:
        return _fail(error.format_message(), EXIT_USAGE)
    except typer.Exit as error:
        return int(error.exit_code)
    except BrokenPipeError:
        return EXIT_ERROR
    except SystemExit as error:
        if isinstance(error.__context__, BrokenPipeError):  # typer's 1 would read as a finding
            return EXIT_ERROR
        raise
    except Exception as error:
        return _fail_unexpectedly(error)


def _usage_error() -> Any:
    """What typer raises at a wrong flag: a class of its own since it left click, and click's before."""
    try:
        return importlib.import_module("typer.exceptions").TyperException
    except ImportError:
        return importlib.import_module("click").ClickException


def _fail_unexpectedly(error: Exception) -> int:
    """What no command foresees; never 1, which is a finding."""
    if os.environ.get("PFL_AUDIT_TRACEBACK") == "1":
        import traceback

        traceback.print_exception(error)
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":  # the latter is torch's
        return _fail("out of memory. Close other programs, or use a machine with more", EXIT_ERROR)
    if isinstance(error, OSError):
        what = f"{error.filename}: " if error.filename else ""
        return _fail(f"{what}{error.strerror or error}. Check the disk, and where the output goes.", EXIT_ERROR)
    remedy = "Set PFL_AUDIT_TRACEBACK=1 to see the traceback, and report it."
    return _fail(f"internal error: {type(error).__name__}: {error}. {remedy}", EXIT_ERROR)


def _fail(text: str, code: int) -> int:
    with contextlib.suppress(OSError):
        note(f"pfl-audit: {' '.join(text.split())}")
    return code


def _leave_nothing_to_flush() -> None:
    """What a full disk or a closed pipe did not take would fail again as the interpreter ends, with code 120."""
    for stream, number in ((sys.stdout, 1), (sys.stderr, 2)):
        try:
            if stream is not None:
                stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), number)
