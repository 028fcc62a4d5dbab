"""Every link, anchor and path that a page names exists."""

import re
from pathlib import Path

import pytest

from tests.docs.pages import PAGES, ROOT, anchors, links, prose

NAMED_PATHS = [ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs/decisions").rglob("*.md")]
ROOMS = ("pfl_audit/", "attacks/", "reports/", "fixtures/", "tests/", "docs/")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_resolve(page: Path) -> None:
    wrong = []
    for target in links(page):
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        if not file.exists() or (anchor and anchor not in anchors(file)):
            wrong.append(target)
    assert not wrong


@pytest.mark.parametrize("page", NAMED_PATHS, ids=lambda page: str(page.relative_to(ROOT)))
def test_paths_in_code_exist(page: Path) -> None:
    named = [code for code in re.findall(r"`([\w./-]+)`", prose(page)) if code.startswith(ROOMS)]
    assert not [path for path in named if not (ROOT / path).exists()]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_lists_and_tables_follow_a_blank_line(page: Path) -> None:
    """GitHub takes them anywhere; the site takes them for a part of the paragraph."""
    assert not re.findall(r"^(?![-*|#<\s]|\d+\. ).+\n(?:[-*] |\d+\. |\|).*", prose(page), re.M)
    assert not re.findall(r"^\n +[^-*\s\d`].*\n(?: +.*\n)*[-*] .*", prose(page), re.M)


def test_every_decision_is_in_the_index() -> None:
    index = ROOT / "docs/decisions/index.md"
    listed = {(index.parent / target).resolve() for target in links(index)}
    assert listed >= set(index.parent.glob("*/*.md"))


def test_a_wrong_link_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A `b_c` title\n\n[a](other.md#x) ![b](b.png) [c](https://example.com)\n\n```\n[d](d.md)\n```\n")
    assert links(page) == ["other.md#x", "b.png"]
    assert anchors(page) == {"a-b_c-title"}
