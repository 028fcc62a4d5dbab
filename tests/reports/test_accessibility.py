"""WCAG 2.2 AA by axe-core, and readable at 200 %, in a headless browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from PIL import Image

from pfl_audit.core.comparison import compare
from pfl_audit.core.results import Results, read_results
from pfl_audit.reports import comparison
from pfl_audit.reports.html import to_html
from tests.browser import axe_script, chromium
from tests.privacy.test_guarantee import CLAIM
from tests.reports.sample import full
from tests.reports.test_guarantee import claimed

pytestmark = pytest.mark.slow

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
LOOKS = {
    "light": {"color_scheme": "light", "viewport": {"width": 1100, "height": 900}},
    "dark": {"color_scheme": "dark", "viewport": {"width": 1100, "height": 900}},
    "phone": {"color_scheme": "light", "viewport": {"width": 390, "height": 800}},
    "200 %": {"color_scheme": "light", "viewport": {"width": 550, "height": 450}, "device_scale_factor": 2},
}
"""A page at 200 % is one of half the width, in points."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as opened:
        yield opened


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    (folder / "evidence").mkdir()
    Image.new("RGB", (100, 140)).save(folder / "evidence/page.jpg")
    sample = full()
    guaranteed = claimed(CLAIM, *sample.checks)
    made = {
        "report": to_html(guaranteed, folder),
        "demonstration": to_html(_demonstration(sample), folder),
        "comparison": comparison.to_html(compare([(sample, folder)] * 2), folder),
    }
    for name, html in made.items():
        (folder / f"{name}.html").write_text(html, encoding="utf-8")
    return {name: folder / f"{name}.html" for name in made}


def _demonstration(sample: Results) -> Results:
    return sample.model_copy(update={"target": sample.target.model_copy(update={"demonstration": True})})


def opened(browser: Browser, path: Path, look: str) -> Page:
    page = browser.new_context(**LOOKS[look]).new_page()  # type: ignore[arg-type]
    page.goto(path.as_uri())
    page.evaluate("document.querySelectorAll('details').forEach((part) => { part.open = true; })")
    return page


@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("name", ["report", "demonstration", "comparison"])
def test_axe_finds_no_violation(browser: Browser, pages: dict[str, Path], name: str, look: str) -> None:
    page = opened(browser, pages[name], look)
    page.evaluate(axe_script())
    found = page.evaluate("(rules) => axe.run({ runOnly: rules })", RULES)
    violations = [(one["id"], [node["html"][:200] for node in one["nodes"][:3]]) for one in found["violations"]]
    assert len(found["passes"]) > 10
    assert violations == []


@pytest.mark.parametrize("look", LOOKS)
def test_nothing_but_tables_scrolls_sideways(browser: Browser, pages: dict[str, Path], look: str) -> None:
    page = opened(browser, pages["report"], look)
    width, room = page.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
    assert width <= room


def test_the_policy_lets_the_page_work_and_nothing_is_asked_of_a_network(
    browser: Browser, pages: dict[str, Path]
) -> None:
    page = browser.new_page()
    said: list[str] = []
    asked: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(pages["report"].as_uri())
    assert said == []
    assert [url for url in asked if not url.startswith("data:")] == [pages["report"].as_uri()]


def test_a_table_is_sorted_by_the_keyboard(browser: Browser, pages: dict[str, Path]) -> None:
    page = browser.new_page()
    page.goto(pages["report"].as_uri())
    head = page.locator("table.sortable th button", has_text="Found").first
    head.focus()
    column = "[...document.querySelector('table.sortable').tBodies[0].rows].map((row) => row.cells[2].textContent)"
    assert page.evaluate(column) == ["12", "79"]
    page.keyboard.press("Enter")
    assert page.evaluate(column) == ["79", "12"]
    page.keyboard.press("Enter")
    assert page.evaluate(column) == ["12", "79"]
    table = "document.querySelector('table.sortable')"
    cells = f"[...{table}.tBodies[0].rows].map((row) => row.cells[2])"
    page.evaluate(f"{cells}.forEach((cell, at) => cell.textContent = ['[50.0, 60.0]', '[9.1, 20.0]'][at])")
    page.keyboard.press("Enter")  # intervals by their lower end
    page.keyboard.press("Enter")
    assert page.evaluate(column) == ["[9.1, 20.0]", "[50.0, 60.0]"]


def test_the_annex_is_printed_only_where_it_is_asked_for(browser: Browser, pages: dict[str, Path]) -> None:
    page = browser.new_page()
    page.goto(pages["report"].as_uri())
    page.emulate_media(media="print")
    assert not page.locator(".annex").is_visible()
    page.emulate_media(media="screen")
    page.locator("#with-annex").check()
    page.emulate_media(media="print")
    assert page.locator(".annex").is_visible()


@pytest.mark.parametrize("kept", ["questions", "forms", "gradients"])
def test_a_report_prints_on_six_pages_at_most(browser: Browser, kept: str, tmp_path: Path) -> None:
    pdfium = pytest.importorskip("pypdfium2", reason="needs pypdfium2 (pip install pfl-audit[documents])")
    folder = Path(__file__).parents[1] / "data/results-v1" / kept
    (tmp_path / "report.html").write_text(to_html(read_results(folder), folder), encoding="utf-8")
    page = browser.new_page()
    page.goto((tmp_path / "report.html").as_uri())
    page.pdf(path=tmp_path / "report.pdf", prefer_css_page_size=True)
    assert 1 <= len(pdfium.PdfDocument(tmp_path / "report.pdf")) <= 6
