"""Tables of settings in the pages of the attacks: ``python -m tests.docs.settings_tables`` writes them."""

from __future__ import annotations

from pathlib import Path

from pfl_audit.cli.explain import markdown_table, setting_rows
from pfl_audit.core.attack import ATTACKS
from pfl_audit.core.subject import SUBJECTS

DOCS = Path(__file__).parents[2] / "docs"
PAGES = {
    "membership": ("questions", "membership"),
    "memorization": ("memorization",),
    "docmia": ("docmia",),
    "reconstruction": ("forms", "reconstruction"),
    "inversion": ("gradients", "inversion"),
}
"""Page to the subjects and attacks whose tables it has."""


def marks(name: str) -> tuple[str, str]:
    """Comments around a table."""
    return f"<!-- settings of {name}: python -m tests.docs.settings_tables -->", f"<!-- end of settings of {name} -->"


def with_tables(page: str) -> str:
    """The text of a page with the tables of today."""
    text = (DOCS / f"{page}.md").read_text()
    attacks, subjects = ATTACKS.installed(), SUBJECTS.installed()
    for name in PAGES[page]:
        model = attacks[name].Settings if name in attacks else subjects[name].Inputs
        begin, end = marks(name)
        head, _, rest = text.partition(begin)
        _, _, tail = rest.partition(end)
        text = f"{head}{begin}\n\n{markdown_table(setting_rows(model))}\n\n{end}{tail}"
    return text


if __name__ == "__main__":
    for name in PAGES:
        (DOCS / f"{name}.md").write_text(with_tables(name))
