"""The tables of settings in the documents are those of the code."""

import pytest

from tests.docs.settings_tables import DOCS, PAGES, marks, with_tables


@pytest.mark.parametrize("page", PAGES)
def test_tables_are_made_from_the_settings(page: str) -> None:
    text = (DOCS / f"{page}.md").read_text()
    assert all(mark in text for name in PAGES[page] for mark in marks(name))
    assert with_tables(page) == text, "Run: python -m tests.docs.settings_tables"
