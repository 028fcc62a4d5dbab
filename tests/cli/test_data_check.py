import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pfl_audit.cli.main import run
from pfl_audit.core.power import NEEDED
from pfl_audit.documents.corpus import Corpus
from pfl_audit.documents.document import Membership
from pfl_audit.documents.writers import write_jsonl
from tests.fitness.corpora import drawn

RED = Path(__file__).parents[2] / "fixtures/red"


def test_the_power_table_fits_a_terminal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert run(["data", "check", str(RED), "--no-images", "-q"]) == 0
    lines = capsys.readouterr().out.splitlines()
    table = lines[lines.index("0 records cannot be used") + 3 :][:10]
    assert len(table) == 10
    assert all(len(line.rstrip()) <= 80 and "…" not in line for line in table)
    (line,) = [line for line in table if "AUC 60 %" in line]
    assert line.split()[-4:] == ["24", "%", "9", "%"]


def test_the_power_table_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["data", "check", str(RED), "--no-images", "-q", "--json"]) == 0
    power = json.loads(capsys.readouterr().out)["power"]
    assert (power["members"], power["pages_of_members"]) == (100, 223)
    assert {row["leak"] for row in power["rows"]} == set(power["smallest"]) == {"accuracy", "gap"}
    assert 0.6 < power["smallest"]["accuracy"]["alone"] < 0.7


def test_too_few_providers(corpus_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["data", "check", str(corpus_folder), "--no-images", "-q"]) == 0
    out = capsys.readouterr().out
    assert f"Too few to audit: 10 member and 10 non-member providers, {NEEDED} of each are needed" in out
    assert "share of audits" not in out


def test_providers_of_unknown_membership_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    corpus = drawn(4, np.random.default_rng(0))
    first = corpus.units[0]
    write_jsonl(replace(corpus, membership={**corpus.membership, first: Membership.UNKNOWN}), tmp_path / "one")
    assert run(["data", "check", str(tmp_path / "one"), "--no-images", "-q"]) == 0
    assert f"the membership of 1 of {len(corpus.units)} providers is unknown" in capsys.readouterr().out
    write_jsonl(corpus, tmp_path / "none")
    assert run(["data", "check", str(tmp_path / "none"), "--no-images", "-q"]) == 0
    assert "unknown" not in capsys.readouterr().out


def test_the_embedded_corpus_is_fit(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["data", "check", str(RED), "--no-images", "-q", "--json"]) == 0
    fitness = json.loads(capsys.readouterr().out)["fitness"]
    assert (fitness["verdict"], fitness["reasons"]) == ("fit", [])
    assert fitness["classes"]["significant"] == []
    assert {"text"} == set(fitness["classes"]["distances"])


def test_an_unfit_corpus_is_named_with_the_reason(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    corpus = drawn(60, np.random.default_rng(0), years=(2019, 2020))
    write_jsonl(corpus, tmp_path / "red")
    assert run(["data", "check", str(tmp_path / "red"), "-q"]) == 1
    out = capsys.readouterr().out
    verdict = out.splitlines()[-1]
    assert verdict.startswith("verdict: unfit: documents alone distinguish members from non-members")
    assert "years" in verdict
    assert "documents alone: AUC" in out
    assert run(["data", "check", str(tmp_path / "red"), "-q", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["fitness"]["verdict"] == "unfit"


def test_the_training_corpus_shares_pages(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    corpus = drawn(30, np.random.default_rng(0))
    for name in ("red", "blue"):
        write_jsonl(corpus, tmp_path / name)
    assert run(["data", "check", str(tmp_path / "red"), "--blue", str(tmp_path / "blue"), "-q"]) == 1
    out = capsys.readouterr().out
    assert "15 of 15 non-members have training pages" in out
    assert "30 of 30 pages of members have a near-duplicate training page" in out
    assert not [name for name in corpus.providers if name in out]
    assert run(["data", "check", str(tmp_path / "red"), "--blue", str(tmp_path / "none"), "-q"]) == 4


def sides(folder: Path, years: tuple[int, int]) -> list[str]:
    """Members and non-members as two corpora of one company, whose labels and splits say the opposite."""
    corpus = drawn(60, np.random.default_rng(0), years=years)
    one_company = [
        replace(query, document=replace(query.document, provider="One Company", split="blue_train"))
        for query in corpus.queries
    ]
    labels = [corpus.label(query.document.provider) for query in corpus.queries]
    options = []
    for name, label in (("members", Membership.MEMBER), ("non-members", Membership.NON_MEMBER)):
        queries = tuple(query for query, own in zip(one_company, labels, strict=True) if own is label)
        write_jsonl(Corpus(queries, membership={"One Company": Membership.NON_MEMBER}), folder / name)
        options += [f"--{name}", str(folder / name)]
    return options


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("years", "verdict", "code"), [((2019, 2019), "fit", 0), ((2019, 2020), "unfit", 1)])
def test_members_and_non_members_given_apart(
    years: tuple[int, int], verdict: str, code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["data", "check", *sides(tmp_path, years), "--unit", "document", "-q"]
    assert run(command) == code
    out = capsys.readouterr().out
    assert out.splitlines()[-1].split(": ")[1] == verdict
    assert "of 60 member and 60 non-member documents (85 % attacked)" in out
    # Members are what was trained on, so that their pages are among the training pages.
    assert run([*command, "--blue", str(tmp_path / "members"), "--json"]) == code
    fitness = json.loads(capsys.readouterr().out)["fitness"]
    assert (fitness["unit"], fitness["verdict"], fitness["members_without_training_pages"]) == ("document", verdict, [])
    assert run([*command, "--blue", str(tmp_path / "non-members")]) == 1
    assert "60 of 60 non-members have training pages" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "data check takes one corpus, or members and non-members"),
        (["RED", "--members", "RED"], "data check takes one corpus, or members and non-members"),
        (["--members", "RED"], "data check takes one corpus, or members and non-members"),
        (["RED", "--unit", "person"], "--unit person needs the two classes apart"),
    ],
)
def test_inputs_that_contradict_each_other(
    options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["data", "check", *(str(RED) if one == "RED" else one for one in options)]) == 4
    assert message in capsys.readouterr().err
