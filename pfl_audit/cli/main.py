"""``pfl-audit``: the commands, and what their failures look like."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from pfl_audit import __version__
from pfl_audit.cli import audit, data, demo, inspect, report, train
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
app.command("report")(report.report)
app.command("train")(train.train)
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
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run the command line and return its exit code."""
    from typer.exceptions import TyperException

    if arguments in ([], ["data"]):
        arguments = [*arguments, "--help"]
    try:
        result = app(arguments, prog_name="pfl-audit", standalone_mode=False)
        return result if isinstance(result, int) else 0
    except AuditError as error:
        return _fail(str(error), error.exit_code)
    except (KeyboardInterrupt, typer.Abort):
        return _fail("interrupted; what is done is kept, and the same command goes on from there", EXIT_INTERRUPTED)
    except TyperException as error:
        return _fail(error.format_message(), EXIT_USAGE)
    except typer.Exit as error:
        return int(error.exit_code)
    except BrokenPipeError:
        sys.stdout = None
        return EXIT_ERROR
    except MemoryError:
        return _fail("out of memory. Close other programs, or use a machine with more", EXIT_ERROR)


def _fail(text: str, code: int) -> int:
    sys.stderr.write(f"pfl-audit: {' '.join(text.split())}\n")
    return code
