"""Output of the command line: progress and notes on stderr, results on stdout."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import typer

from pfl_audit.core.redaction import visible
from pfl_audit.progress import Progress, Silent, Task

_PLAIN_SECONDS = 10.0
_LONGEST_NOTE = 2000
_errors_as_json = False


def make_progress(*, quiet: bool) -> Progress:
    """Progress bars on a terminal, periodic lines elsewhere, no output if ``quiet``."""
    if quiet:
        os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
        return Silent()
    return _Bars() if sys.stderr.isatty() else _Lines()


def print_json(value: Any) -> None:
    """Print the JSON document of a command on stdout; a later failure is printed on stderr only."""
    global _errors_as_json  # noqa: PLW0603 - a process runs one command at a time
    _errors_as_json = False
    text = json.dumps(value, indent=2, ensure_ascii=False).replace("##[", "##\\u005b")  # see mute_commands
    typer.echo(text.encode(errors="backslashreplace").decode())  # a path may contain bytes that are not valid text


def print_rows(rows: Iterable[tuple[str, str]], width: int = 10) -> None:
    """Print labels and texts in two columns, of which the first has this width."""
    for label, text in rows:
        typer.echo(f"{label:{width}}{text}")


def note(text: str) -> None:
    """Print a line on stderr, without terminal control characters."""
    if sys.stderr is not None:
        with contextlib.suppress(OSError):  # a closed terminal must not end a run
            sys.stderr.write(visible(text, _LONGEST_NOTE) + "\n")


def errors_as_json(wanted: bool) -> None:
    """Set whether failures are also printed as JSON."""
    global _errors_as_json  # noqa: PLW0603 - a process runs one command at a time
    _errors_as_json = wanted


def fail(problem: str, remedy: str, code: int) -> int:
    """Print an error on stderr, and as JSON on stdout if enabled; return the exit code."""
    problem, remedy = problem.strip().removesuffix("."), remedy.strip()
    said = problem if problem.endswith("?") else f"{problem}."
    note(f"pfl-audit: {said} {remedy}." if remedy else f"pfl-audit: {said}")
    if _errors_as_json:
        error = {"code": code, "problem": visible(problem, _LONGEST_NOTE), "remedy": visible(remedy, _LONGEST_NOTE)}
        with contextlib.suppress(OSError):
            print_json({"error": error})
    return code


class _Bars:
    """Progress bars of rich, with the remaining time."""

    @contextmanager
    def task(self, name: str, total: int, done: int = 0) -> Iterator[Task]:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
        from rich.progress import Progress as Rich

        columns = (
            TextColumn("{task.description}", style="bold", table_column=None),
            BarColumn(bar_width=None),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}", style="dim"),
        )
        with Rich(*columns, console=Console(stderr=True), expand=True) as bars:
            number = bars.add_task(name, total=total, completed=done, note="")

            class Bar:
                def advance(self, amount: int = 1, note: str = "") -> None:
                    bars.update(number, advance=amount, note=note)

            yield Bar()

    def say(self, text: str) -> None:
        note(text)


class _Lines:
    """A progress line every ten seconds, for logs."""

    @contextmanager
    def task(self, name: str, total: int, done: int = 0) -> Iterator[Task]:
        line = _Line(name, total, done)
        yield line
        line.end()

    def say(self, text: str) -> None:
        note(text)


class _Line:
    def __init__(self, name: str, total: int, done: int) -> None:
        self._name, self._total, self._done, self._before = name, total, done, done
        self._began = self._reported = time.monotonic()

    def advance(self, amount: int = 1, note: str = "") -> None:
        self._done += amount
        now = time.monotonic()
        if now - self._reported >= _PLAIN_SECONDS:
            self._reported = now
            self._print(now, note)

    def end(self) -> None:
        if self._done > self._before:
            note(f"{self._name}: {self._done} of {self._total} in {_span(time.monotonic() - self._began)}")

    def _print(self, now: float, extra: str) -> None:
        rate = (self._done - self._before) / (now - self._began)
        left = _span((self._total - self._done) / rate) if rate else "unknown"
        note(f"{self._name}: {self._done} of {self._total}, {left} left{', ' + extra if extra else ''}")


def _span(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
