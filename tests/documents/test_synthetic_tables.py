"""Drawn tables: questions and statements against a plain reading of the page."""

import re
from pathlib import Path

import numpy as np
import pytest

from pfl_audit.cli.main import run
from pfl_audit.documents.readers import open_corpus
from pfl_audit.documents.synthetic.generator import Recipe, make_corpus
from pfl_audit.documents.synthetic.providers import draw_providers
from pfl_audit.documents.synthetic.tables import Table, ask_cells, ask_statements, draw_table, render_table
from pfl_audit.errors import UsageError
from pfl_audit.progress import Silent


def tables() -> list[Table]:
    return [draw_table(np.random.default_rng(seed)) for seed in range(40)]


def cell(table: Table, row: str, column: str) -> int:
    return table.cells[table.rows.index(row)][[name.lower() for name in table.columns].index(column)]


def test_answers_are_those_of_the_table() -> None:
    for seed, table in enumerate(tables()):
        for question, answer in ask_cells(table, 20, np.random.default_rng(seed)):
            column = next(name.lower() for name in table.columns if re.search(rf"\b{name.lower()}\b", question))
            if " number under " in question and question.startswith(f"Which {table.subject.lower()}"):
                numbers = [cell(table, row, column) for row in table.rows]
                best = max(numbers) if "largest" in question else min(numbers)
                assert answer == table.rows[numbers.index(best)].lower()
            else:
                row = next(name for name in table.rows if re.search(rf"\b{name}\b", question))
                assert answer == str(cell(table, row, column))


def test_half_of_the_statements_are_supported_and_each_by_the_table() -> None:
    answers = []
    for seed, table in enumerate(tables()):
        for question, answer in ask_statements(table, 20, np.random.default_rng(seed)):
            statement = question.split(": ", 1)[1]
            column = next(name.lower() for name in table.columns if re.search(rf"\b{name.lower()}\b", statement))
            named = sorted((at.start(), name) for name in table.rows for at in re.finditer(rf"\b{name}\b", statement))
            if "larger" in statement:
                true = cell(table, named[0][1], column) > cell(table, named[1][1], column)
            else:
                number = re.search(r"\d+", statement)
                assert number is not None
                true = cell(table, named[0][1], column) == int(number.group())
            assert answer == ("yes" if true else "no")
            answers.append(answer)
    assert 0.45 < answers.count("yes") / len(answers) < 0.55


def test_the_page_shows_every_cell() -> None:
    provider = draw_providers(1, np.random.default_rng(0))[0]
    for table in tables():
        canvas = render_table(provider, table)
        shown = set(canvas.words)
        assert {str(number) for cells in table.cells for number in cells} <= shown
        assert {*table.rows, *table.columns} <= shown
        assert canvas.boxes().max() < 1


@pytest.mark.slow
def test_three_kinds_become_one_federation(tmp_path: Path) -> None:
    for seed, kind in enumerate(("invoices", "tables", "statements")):
        recipe = Recipe(members=4, non_members=2, red_providers=2, clients=1, documents=2, seed=seed, kind=kind)
        corpus = make_corpus(recipe, tmp_path / kind, Silent())
        again = make_corpus(recipe, tmp_path / f"{kind}-again", Silent())
        assert [query.answers for query in corpus.queries] == [query.answers for query in again.queries]
    names = [str(tmp_path / kind) for kind in ("invoices", "tables", "statements")]
    assert run(["data", "partition", *names, "--clients", "3", "--out", str(tmp_path / "all"), "-q"]) == 0
    train = [page for page in open_corpus(tmp_path / "all", "blue").documents if "train" in page.split]
    assert {page.source for page in train} == {"invoices", "tables", "statements"}
    assert len({(page.client, page.source) for page in train}) == 3


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(UsageError, match="no documents of kind 'letters'"):
        Recipe(kind="letters").check()
