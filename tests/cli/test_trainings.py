"""Trainings in one table: numbers of their records, beside papers', as CSV and LaTeX."""

import csv
import io
import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from pfl_audit.cli.main import run

TABLES = sorted((Path(__file__).parents[2] / "docs/recipes/papers/tables").glob("*.toml"))
FEDERATED = {
    "mode": "fl",
    "privacy": "none",
    "history": [
        {"round": 1, "loss": 2.0, "anls": 0.25},
        {"round": 2, "loss": 1.5, "anls": 0.3},
        {"round": 4, "loss": 1.5, "anls": 0.4},
        {"round": 8, "loss": 1.5, "anls": 0.5, "accuracy": 0.375},
    ],
    "stages": [
        {"round": number, "client": client, "stage": stage, "anls": number / 8 + client / 2, "accuracy": 0.0}
        for number in (1, 2)
        for client in (0, 1)
        for stage in ("download", "finetuning", "upload")
    ],
    "communication": {"GB": 0.17, "papers_way": {"GiB": 0.193}},
}
FORMS = {
    "task": "mlm",
    "history": [{"epoch": 1, "accuracy": 0.5, "validation_loss": 1.0}],
    "chosen": {"precision": {"epoch": 1, "accuracy": 0.5, "validation_loss": 1.0}},
}


def trained(folder: Path, record: dict[str, Any]) -> Path:
    folder.mkdir(parents=True)
    (folder / "training.json").write_text(json.dumps(record))
    return folder


def rows(folder: Path, *words: object) -> list[dict[str, str]]:
    target = folder / "table.csv"
    assert run(["trainings", *map(str, words), "--csv", str(target), "-q"]) == 0
    return list(csv.DictReader(io.StringIO(target.read_text())))


def test_the_last_validation_and_each_round_are_numbers(tmp_path: Path) -> None:
    found = {
        (row["metric"], row["slice"]): row["value"] for row in rows(tmp_path, trained(tmp_path / "one", FEDERATED))
    }
    assert found["validation ANLS", ""] == "0.5"
    assert found["validation ANLS", "round = 1"] == "0.25"
    assert found["validation ANLS", "round = 2 · upload"] == "0.5"  # the mean of 0.25 and 0.75
    assert found["GB sent", ""] == "0.17"
    assert found["GiB sent, as the papers count", ""] == "0.193"


@pytest.mark.parametrize("table", TABLES, ids=lambda path: path.stem)
def test_every_number_of_a_papers_table_finds_ours(table: Path, tmp_path: Path) -> None:
    published = tomllib.loads(table.read_text())["published"]
    names = {one["check"].removeprefix("training.") for one in published}
    record = FORMS if table.stem.startswith("cdmi") else FEDERATED
    found = rows(tmp_path, *(trained(tmp_path / name, record) for name in names), "--config", table)
    beside = [(row["check"], row["metric"], float(row["published value"])) for row in found if row["paper"]]
    assert sorted(beside) == sorted((one["check"], one["metric"], float(one["value"])) for one in published)
    places = {(row["check"], row["row"]): row["slice"] for row in found if row["paper"]}
    for one in published:
        place = places[one["check"], one["row"]]
        assert bool(place) == ("slice" in one)
        assert all(str(value) in place for value in one.get("slice", {}).values())
    text = table.read_text()
    assert f"--config docs/recipes/papers/tables/{table.name}" in text


def test_the_private_record_is_read_where_it_is_of_the_run(tmp_path: Path) -> None:
    public = {"mode": "fl-dp", "data": {"commitment": "a"}, "privacy": {"epsilon": 8.0}}
    one, two = trained(tmp_path / "one", public), trained(tmp_path / "two", public)
    for folder, commitment in ((one, "a"), (two, "b")):
        private = {**FEDERATED, "data": {"commitment": commitment}}
        (tmp_path / f"{folder.name}.private.json").write_text(json.dumps(private))
    found = rows(tmp_path, one, two)
    assert {row["check"] for row in found if row["metric"] == "validation ANLS"} == {"training.one"}
    assert {row["check"] for row in found if row["metric"] == "epsilon"} == {"training.one", "training.two"}
    assert (tmp_path / "table.csv").stat().st_mode & 0o077 == 0


def test_latex_and_the_terminal_have_the_papers_number(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "table.toml"
    head = '[[published]]\npaper = "P"\ntable = "T"\nrow = "R"\nmetric = "validation ANLS"\nvalue = 44.5\n'
    config.write_text(head + 'check = "training.one"\n')
    given = [str(trained(tmp_path / "one", FEDERATED)), "--config", str(config), "--latex", str(tmp_path / "t.tex")]
    assert run(["trainings", *given]) == 0
    assert "44.5 (P, T)" in (tmp_path / "t.tex").read_text()
    assert "+5.5" in capsys.readouterr().out


@pytest.mark.parametrize(
    "content",
    [None, "", "[]", "{" * 99, '{"history": 3}', '{"history": [{"anls": "NaN"}]}',
     '{"history": [], "stages": [3, {"round": 1}, {"round": 1, "stage": ["x"], "anls": 1}]}'],
)  # fmt: skip
def test_a_record_from_anywhere(content: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "one"
    folder.mkdir()
    if content is not None:
        (folder / "training.json").write_text(content)
    code = run(["trainings", str(folder)])
    assert code == (0 if content and "history" in content else 2)
    assert code == 0 or capsys.readouterr().err.count("\n") == 1


def test_folders_that_cannot_be_a_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, two = trained(tmp_path / "one", FEDERATED), trained(tmp_path / "more/one", FEDERATED)
    assert run(["trainings", str(one), str(two)]) == 4
    assert "two trainings have the name training.one" in capsys.readouterr().err
    assert run(["trainings", str(tmp_path / "none")]) == 4
    same = ["--csv", str(tmp_path / "x"), "--latex", str(tmp_path / "x")]
    assert run(["trainings", str(one), *same]) == 4
