"""The page of licences is that of what is installed, and of what is asked for."""

from tests.docs.licences import ABSENT, ROOT, direct, licence, packages, written


def rows() -> dict[str, list[str]]:
    """Package to its cells."""
    split = [[cell.strip() for cell in row.strip("|").split(" | ")] for row in written()[2:]]
    return {cells[0]: cells[1:] for cells in split}


def test_every_package_is_listed_with_who_asks_for_it() -> None:
    assert {name: cells[0] for name, cells in rows().items()} == packages(), "Run: python -m tests.docs.licences"
    assert direct().keys() <= rows().keys()


def test_licences_are_those_of_what_is_installed() -> None:
    here = {name: licence(name) for name in rows()}
    differs = {name: said for name, said in here.items() if said not in (ABSENT, rows()[name][1])}
    assert not differs, "Run: python -m tests.docs.licences"
    assert all(here[name] != ABSENT for name in direct())


def test_copyleft_is_named_for_a_decision() -> None:
    text = (ROOT / "docs/licences.md").read_text().partition("## Packages")[0]
    copyleft = [
        name for name, cells in rows().items() if any(part in cells[1] for part in ("GPL", "General Public", "MPL"))
    ]
    assert {"levenshtein", "python-levenshtein", "python-stdnum"} <= set(copyleft)
    assert [name for name in copyleft if f"`{name}`" not in text.lower()] == []
