import re

import pytest

from tests.cli.help_pages import STORED, all_pages, commands, help_of


def test_every_page_is_the_stored_one() -> None:
    assert all_pages() == STORED.read_text(), "Run: python -m tests.cli.help_pages, and look at the difference"


@pytest.mark.parametrize("words", commands(), ids=lambda words: " ".join(words) or "pfl-audit")
def test_arguments_have_help_and_no_bracket_is_escaped(words: list[str]) -> None:
    page = help_of(words)
    assert "\\" not in page
    usage = " ".join(page.split("\n\n")[0].split())
    positional = [name.strip(".[]") for name in usage.split("[OPTIONS]")[1].split() if name != "COMMAND"]
    for name in positional if "COMMAND" not in usage else ():
        assert re.search(rf"^  \[?{name}\]?(\.\.\.)?  +[A-Z]", page, re.MULTILINE), name
