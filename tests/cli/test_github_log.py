"""Text from elsewhere is no command to GitHub's runner, which reads what a job prints."""

import io
import json
import re
import sys
from collections.abc import Callable

import pytest
import typer
from rich.console import Console
from rich.table import Table

from pfl_audit.cli.console import note, print_json
from pfl_audit.cli.process import mute_commands

HOSTILE = ["::set-output name=a::b", " \t ::add-mask::x", "title\n::error::x", "a ##[add-path]/tmp", "x\r::debug::y"]


def commands(text: str) -> list[str]:
    """Lines that the runner obeys (ActionCommand.TryParseV2, and TryParse of before)."""
    return [line for line in re.split(r"[\r\n]", text) if line.lstrip().startswith("::") or "##[" in line]


def table(text: str) -> None:
    rows = Table.grid()
    rows.add_row("x" * 30, text)  # a cell is wrapped, so that its middle begins a line
    Console(file=sys.stdout, width=40).print(text, rows, markup=False)


def printed(write: Callable[[], object], monkeypatch: pytest.MonkeyPatch, *, github: str) -> str:
    """Output of a command on both streams, without pytest between them."""
    streams = [io.TextIOWrapper(io.BytesIO(), "utf-8", newline="") for _ in range(2)]
    monkeypatch.setenv("GITHUB_ACTIONS", github)
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", streams[0])
        patch.setattr(sys, "stderr", streams[1])
        mute_commands()
        write()
    for stream in streams:
        stream.flush()
    return "".join(stream.buffer.getvalue().decode() for stream in streams)  # type: ignore[attr-defined]


@pytest.mark.parametrize("write", [print, typer.echo, note, table])
@pytest.mark.parametrize("text", HOSTILE)
def test_no_line_is_a_command(write: Callable[[str], None], text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = printed(lambda: write(text), monkeypatch, github="true")
    assert shown.strip()
    assert not commands(shown)


def test_json_keeps_its_values(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = printed(lambda: print_json({"titles": HOSTILE}), monkeypatch, github="true")
    assert json.loads(shown) == {"titles": HOSTILE}
    assert not commands(shown)


def by_letters(text: str) -> None:
    for letter in text:
        sys.stdout.write(letter)


def in_lines(text: str) -> None:
    sys.stdout.writelines(text[at : at + 1] for at in range(len(text)))


def in_parts(text: str) -> None:
    print(text[:1], end="")
    print(text[1:3], end="", flush=True)
    print(text[3:], file=sys.stdout)


@pytest.mark.parametrize("write", [by_letters, in_lines, in_parts])
@pytest.mark.parametrize("text", [*HOSTILE, " : :x\n: ::y\n :\n::z", "###[x", "#", "a: ::b", "\n" * 50_000 + "::x"])
def test_no_line_that_is_written_in_parts_is_a_command(
    write: Callable[[str], None], text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = printed(lambda: write(text), monkeypatch, github="true")
    assert not commands(shown)
    assert [*filter(str.strip, shown)] == [*filter(str.strip, text)]


def test_what_goes_on_with_a_line_is_no_command(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = printed(lambda: (print("a ", end=""), print("::b"), print("c", "::d")), monkeypatch, github="true")
    assert shown == "a ::b\nc ::d\n"


@pytest.mark.parametrize("text", [HOSTILE[0], HOSTILE[3]])
def test_elsewhere_nothing_is_changed(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = printed(lambda: print(text), monkeypatch, github="")
    assert shown == text + "\n"
    assert commands(shown)
