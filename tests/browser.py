"""Chromium in a test, by Playwright; the test is skipped with the reason where there is none."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@contextmanager
def chromium() -> Iterator[Browser]:
    """A headless browser without a network."""
    api = pytest.importorskip("playwright.sync_api", reason="needs playwright (pip install pfl-audit[dev])")
    path = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if path is None:
        pytest.skip("needs chromium on the path")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()


def axe_script() -> str:
    """The source of axe-core, which axe-playwright-python brings along."""
    package = pytest.importorskip("axe_playwright_python", reason="needs axe-core (pip install pfl-audit[dev])")
    return next(Path(package.__file__).parent.rglob("axe.min.js")).read_text(encoding="utf-8")
