"""The Markdown pages, their links, and their code blocks."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
LONG = "<!-- long -->"
"""Comment on the line before a code block whose commands take minutes, or data that is not in the repository."""

_FENCE = re.compile(r"^(?P<indent> *)```(?P<language>\w*)[^\n]*\n(?P<text>.*?)^(?P=indent)```$", re.M | re.S)
_LINK = re.compile(r"!?\[[^\]]*\]\((?P<target>[^)\s]+)\)")
_HEADING = re.compile(r"^#{1,6} (?P<title>.+)$", re.M)
_INLINE = re.compile(r"`(?P<code>[^`\n]+)`")


@dataclass(frozen=True)
class Block:
    """A code block: its page, first line, language (may be empty), text, and whether it is marked as long."""

    page: Path
    line: int
    language: str
    text: str
    long: bool

    @property
    def name(self) -> str:
        """Page and line, for test ids."""
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    @property
    def is_commands(self) -> bool:
        """Whether a reader would type the block into a shell."""
        return self.language in {"sh", "bash", "console"} or self.text.startswith(("$ ", "pfl-audit "))


def blocks(page: Path) -> Iterator[Block]:
    """The fenced code blocks of a page."""
    text = page.read_text()
    for match in _FENCE.finditer(text):
        before = text[: match.start()].rstrip("\n").splitlines() or [""]
        line = text.count("\n", 0, match.start()) + 1
        yield Block(page, line, match["language"], match["text"], before[-1].strip() == LONG)


def prose(page: Path) -> str:
    """The page without its fenced code blocks."""
    return _FENCE.sub("", page.read_text())


def links(page: Path) -> list[str]:
    """Targets of the links and images of a page that name no other host."""
    text = _INLINE.sub("", prose(page))
    return [target for target in _LINK.findall(text) if not target.startswith(("http://", "https://", "mailto:"))]


def anchors(page: Path) -> set[str]:
    """Anchors of a page's headings, as GitHub and the site make them."""
    found: set[str] = set()
    for title in _HEADING.findall(prose(page)):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)|[`*]", r"\1", title)
        found.add(re.sub(r"[^\w\- ]", "", plain.lower()).strip().replace(" ", "-"))
    return found


def commands(text: str) -> Iterator[list[str]]:
    """The ``pfl-audit`` commands of a text, split into arguments without the program's name."""
    for line in text.replace("\\\n", " ").splitlines():
        start = re.match(r"\s*(?:\$ |(?:[A-Z_]+=\S+ )*)pfl-audit(?P<rest>\s.*|)$", line)
        if start:
            lexer = shlex.shlex(start["rest"], posix=True, punctuation_chars="|;&<>")
            lexer.whitespace_split = True
            words = list(lexer)
            end = next((place for place, word in enumerate(words) if set(word) <= set("|;&<>")), len(words))
            yield words[:end]


def inline_commands(page: Path) -> Iterator[list[str]]:
    """The ``pfl-audit`` commands with an option in the prose of a page."""
    for code in _INLINE.findall(prose(page)):
        if code.startswith("pfl-audit ") and " --" in code:
            yield from commands(re.sub(r"[\[\]]| \.\.\.| …", "", code))
