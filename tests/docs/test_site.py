"""The documentation builds strictly, and its pages load nothing from another host."""

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.docs.pages import ROOT

pytestmark = pytest.mark.slow

REMOTE = re.compile(r"(?:https?:)?//")
ASSET_ATTRIBUTES = {"src", "srcset", "poster", "data", "action"}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("docs") / "site"
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


class Assets(HTMLParser):
    """Collects the addresses that a browser requests when it shows a page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if value and (name in ASSET_ATTRIBUTES or (tag == "link" and name == "href") or name == "style"):
                self.found.append(value)


def remote_assets(html: str) -> list[str]:
    """Addresses on other hosts that the page requests, in attributes, inline styles and inline scripts."""
    parser = Assets()
    parser.feed(html)
    styles = re.findall(r"<style[^>]*>(.*?)</style>", html, re.S)
    urls = [url for text in [*styles, *parser.found] for url in re.findall(r"url\(\s*['\"]?([^)'\"]+)", text)]
    return [address for address in [*parser.found, *urls] if REMOTE.match(address)]


def test_pages_request_nothing_from_another_host(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > 30
    assert not {str(page.relative_to(site)): found for page in pages if (found := remote_assets(page.read_text()))}


def test_style_sheets_request_nothing_from_another_host(site: Path) -> None:
    for sheet in site.rglob("*.css"):
        assert not re.findall(r"(?:url\(|@import)\s*['\"]?(?:https?:)?//", sheet.read_text()), sheet


def test_the_scripts_of_the_theme_load_from_another_host_only_what_no_page_uses(site: Path) -> None:
    """On demand Material loads Mermaid for diagrams, and a polyfill for browsers without ResizeObserver."""
    named = {
        url for script in site.rglob("*.js") for url in re.findall(r"https://unpkg\.com/[\w-]+", script.read_text())
    }
    assert named <= {"https://unpkg.com/mermaid", "https://unpkg.com/resize-observer-polyfill"}
    assert not [page for page in site.rglob("*.html") if 'class="mermaid"' in page.read_text()]


def test_the_reference_lists_the_protocols(site: Path) -> None:
    for page, name in (
        ("attacks", "pfl_audit.core.attack.Attack"),
        ("models", "pfl_audit.models.protocol.DocumentModel"),
    ):
        assert f'id="{name}"' in (site / f"api/{page}.html").read_text()


def test_remote_assets_are_found() -> None:
    html = '<img src="//a.example/x.png"><link href="https://b.example/y.css"><a href="https://c.example"></a>'
    html += "<style>p { background: url('https://d.example/z.png') }</style>"
    assert remote_assets(html) == ["//a.example/x.png", "https://b.example/y.css", "https://d.example/z.png"]
