"""The help of every command as one text: ``python -m tests.cli.help_pages`` writes it to help.txt."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import typer

from pfl_audit.cli.main import app, run

STORED = Path(__file__).with_name("help.txt")


def commands() -> list[list[str]]:
    """The words of every command and group, the program's own empty list first."""
    return list(_below([], typer.main.get_command(app)))


def help_of(words: list[str]) -> str:
    """What ``--help`` prints on a terminal of 80 columns."""
    out = io.StringIO()
    with mock.patch.dict(os.environ, COLUMNS="80"), contextlib.redirect_stdout(out):
        code = run([*words, "--help"])
    assert code == 0, words
    return out.getvalue()


def all_pages() -> str:
    """Every command line and what it prints."""
    return "\n".join(f"$ {' '.join(['pfl-audit', *words, '--help'])}\n{help_of(words)}" for words in commands())


def _below(words: list[str], command: Any) -> Iterator[list[str]]:
    yield words
    for name, below in getattr(command, "commands", {}).items():
        yield from _below([*words, name], below)


if __name__ == "__main__":
    STORED.write_text(all_pages())
