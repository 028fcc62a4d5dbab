"""Run a command and return its exit code; its failures are one line on stderr."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

import typer

from pfl_audit.cli.console import errors_as_json, fail
from pfl_audit.errors import EXIT_ERROR, EXIT_INTERRUPTED, EXIT_USAGE, AuditError, is_interrupt
from pfl_audit.files import remedy_for
from pfl_audit.models.device import is_out_of_memory

Command = Callable[..., Any]
"""A command of click."""


def invoke(command: Command, arguments: Sequence[str]) -> int:
    """Run the command with all of ``pfl-audit``'s commands, and return the exit code."""
    errors_as_json("--json" in arguments)
    try:
        return _called(command, list(arguments))
    except AuditError as error:
        return fail(error.problem, error.remedy, error.exit_code)
    except (KeyboardInterrupt, typer.Abort):
        return _fail_interrupted()
    except _usage_error() as error:
        return fail(error.format_message(), _usage_remedy(error, command, arguments), EXIT_USAGE)
    except typer.Exit as error:
        return int(error.exit_code)
    except BrokenPipeError:
        return EXIT_ERROR
    except SystemExit as error:
        if isinstance(error.__context__, BrokenPipeError):  # typer's 1 would read as a finding
            return EXIT_ERROR
        raise
    except Exception as error:
        return _fail_interrupted() if is_interrupt(error) else _fail_unexpectedly(error, arguments)


def call(command: Command, arguments: Sequence[str]) -> int:
    """Run the command, and let its failures through."""
    result = command(list(arguments), prog_name="pfl-audit", standalone_mode=False)
    return result if isinstance(result, int) else 0


def _called(command: Command, arguments: list[str]) -> int:
    code = call(command, [*arguments, "--help"] if arguments in ([], ["data"], ["store"]) else arguments)
    if sys.stdout is not None:
        sys.stdout.flush()
    if code == EXIT_INTERRUPTED:  # typer has caught the KeyboardInterrupt
        raise KeyboardInterrupt
    return code


def _usage_error() -> Any:
    """What typer raises at a wrong flag: a class of its own since it left click, and click's before."""
    try:
        return importlib.import_module("typer.exceptions").TyperException
    except ImportError:
        return importlib.import_module("click").ClickException


def _usage_remedy(error: Any, command: Any, arguments: Sequence[str]) -> str:
    """The help of an option with choices, which says what each means; else the command that lists the options."""
    context, option = getattr(error, "ctx", None), getattr(error, "param", None)
    if option is None and (flag := getattr(error, "option_name", None)):  # an option without its value has no context
        for word in arguments:
            command = getattr(command, "commands", {}).get(word, command)
        option = next((one for one in command.params if flag in one.opts), None)
    if option is not None and getattr(option.type, "choices", None) and option.help:
        return f"{option.opts[0]}: {option.help.removesuffix('.')}"
    return f"'{context.command_path} --help' lists what it takes" if context else ""


def _fail_interrupted() -> int:
    return fail("interrupted; what is done is kept", "Repeat the command to go on from there", EXIT_INTERRUPTED)


def _fail_unexpectedly(error: Exception, arguments: Sequence[str]) -> int:
    """What no command foresees; never 1, which is a finding, and never the error's text, which may hold a value."""
    if os.environ.get("PFL_AUDIT_TRACEBACK") == "1":
        import traceback

        traceback.print_exception(error)
    if is_out_of_memory(error):
        smaller = "Lower --batch-size" if "train" in arguments[:1] else "Close other programs"
        problem, remedy = "out of memory", f"{smaller}, or use a machine with more"
    elif isinstance(error, OSError) and error.strerror:
        problem = f"{error.filename}: {error.strerror}" if error.filename else error.strerror
        remedy = remedy_for(error) if error.filename else "Check the disk, and where the output goes"
    else:
        problem = f"internal error: {type(error).__name__}"
        remedy = "Set PFL_AUDIT_TRACEBACK=1 to see the traceback, and report it"
    return fail(problem, remedy, EXIT_ERROR)
