"""The commands of README and docs: all of them parse, and those that are not marked as long run.

A long block has ``<!-- long -->`` on the line before it. The others run in one temporary folder, page by page in the
order of the text, so that a block may use what an earlier one has written; ``fixtures`` is the repository's.
"""

import re
import shlex
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import click
import pytest
from typer.main import get_command

from pfl_audit.cli.main import app, run
from tests.docs.pages import PAGES, ROOT, Block, blocks, commands, inline_commands

BLOCKS = [block for page in PAGES for block in blocks(page)]
SHORT = [block for block in BLOCKS if block.is_commands and not block.long]


@cache
def whole_command() -> Any:
    """``pfl-audit`` with all its commands."""
    return get_command(app)


def require_options(words: list[str]) -> None:
    """Check the names and values of a command's options without running it.

    Raises:
        Exception: click's usage error, for an unknown command or option, or a value that its type refuses.
    """
    if words[:1] in (["run"], ["validate"]):  # after the file come options of audit
        words = ["audit", *words[2:]]
    command = whole_command()
    context: Any = command.context_class(command, info_name="pfl-audit")
    while hasattr(command, "commands") and words:
        name, words = words[0], words[1:]
        assert name in command.commands, f"there is no command '{name}'"
        command = command.commands[name]
        context = command.context_class(command, info_name=name, parent=context)
    given, _, _ = command.make_parser(context).parse_args(args=list(words))
    for parameter in command.get_params(context):
        value = given.get(parameter.name)
        if isinstance(parameter.type, click.Path) or value is None or not isinstance(value, (str, list, int)):
            continue
        parameter.type_cast_value(context, value)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_option_exists(page: Path) -> None:
    text = "\n".join(block.text for block in blocks(page))
    for words in [*commands(text), *inline_commands(page)]:
        require_options([re.sub(r"\$\w+", "1", word) for word in words])


@pytest.mark.parametrize("script", sorted((ROOT / "docs/results").glob("*.sh")), ids=lambda path: path.name)
def test_every_option_of_a_script_exists(script: Path) -> None:
    lines = script.read_text().replace("\\\n", " ").splitlines()
    found = [match[1] for line in lines if (match := re.search(r"^[^#]*\bpfl(?:-audit)? ([a-z]+ .*)$", line))]
    assert found
    for words in commands("\n".join(f"pfl-audit {line}" for line in found)):
        require_options([re.sub(r"\$[\w@]+", "1", word) for word in words])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("commands")
    (made / "fixtures").symlink_to(ROOT / "fixtures")
    return made


@pytest.mark.slow
@pytest.mark.parametrize("block", SHORT, ids=lambda block: block.name)
def test_commands_run(
    block: Block, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    for line, expected in steps(block):
        words = shlex.split(line, comments=True)
        if words[0] == "pfl-audit":
            code = run(words[1:])
            printed = capsys.readouterr()
            assert code == 0, printed.err
            output = printed.out
        else:
            environment = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin"}
            done = subprocess.run(
                line, shell=True, capture_output=True, text=True, env=environment, check=False, timeout=30
            )
            assert done.returncode == 0, done.stderr
            output = done.stdout
        if expected:
            assert output.strip() == expected.strip()


def steps(block: Block) -> list[tuple[str, str]]:
    """The commands of a block, each with the output that the block prints for it (empty where it prints none)."""
    lines = block.text.replace("\\\n", " ").splitlines()
    if not block.text.startswith("$ "):
        return [(line, "") for line in lines if line.strip() and not line.lstrip().startswith("#")]
    found: list[tuple[str, list[str]]] = []
    for line in lines:
        if line.startswith("$ "):
            found.append((line[2:], []))
        else:
            found[-1][1].append(line)
    return [(command, "\n".join(output)) for command, output in found]


def test_there_are_commands_to_run() -> None:
    assert len(SHORT) >= 4


@pytest.mark.parametrize(
    "line", ["mia --no-such-option", "nothing", "train --mode sideways", "data check --seed few ."]
)
def test_a_wrong_command_is_found(line: str) -> None:
    with pytest.raises(Exception, match=r"(?i)no such option|no command|not one of|not a valid"):
        require_options(line.split())
