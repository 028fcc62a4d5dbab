"""``--groups`` and ``--classes-random``: which units belong together, and what was drawn into the classes."""

from dataclasses import replace
from pathlib import Path

import pytest

from pfl_audit.attacks.questions.corpora import audited_corpus
from pfl_audit.attacks.questions.inputs import QuestionInputs
from pfl_audit.cli.main import run
from pfl_audit.core.results import read_results
from pfl_audit.documents.corpus import Corpus
from pfl_audit.documents.group_table import groups_line
from pfl_audit.errors import UsageError
from pfl_audit.fitness.grouping import grouping_of
from tests.attacks.questions.test_units import audit, both, drawn, sides

__all__ = ["sides"]


def in_clients(corpus: Corpus, first: int) -> Corpus:
    """The corpus in three clients, by the numbers of the companies."""
    pages = {page.id: replace(page, client=first + int(page.provider.split()[1]) % 3) for page in corpus.documents}
    return replace(corpus, queries=tuple(replace(one, document=pages[one.document.id]) for one in corpus.queries))


def test_an_audit_states_the_groups_and_that_they_were_drawn(sides: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [f"{side} person {number},Secret {side} {number % 4}" for side in ("in", "out") for number in range(11)]
    table = sides / "groups.csv"
    table.write_text("\n".join(["unit,group", *rows]))
    given = ("--unit", "person", "--groups", str(table), "--check", "memorization.generalisation", "--fail-on", "never")
    assert audit(sides, *both(sides), *given, "--classes-random", "groups") in (0, 3)
    (data,) = read_results(sides / "run").datasets
    line = "groups: 10 to 19, of 20 to 49 persons; fewer than 5 without a group, each its own"
    assert data.facts["Groups"] == line
    assert (data.classes_random, data.groups_random) == (True, True)
    page = (sides / "run" / "report.html").read_text()
    assert line in page
    assert "the user declares that chance chose which, by whole groups" in " ".join(page.split())
    assert "Secret" not in page + (sides / "run" / "results.json").read_text()
    table.write_text("unit,group\nin person 99,A\n")
    assert audit(sides, *both(sides), *given, "--out", str(sides / "other")) == 2
    assert "1 of 1 rows name no person that is asked about, the first is row 2" in capsys.readouterr().err


def test_audit_and_data_check_have_the_same_groups_of_clients() -> None:
    members, others = in_clients(drawn("in"), 0), in_clients(drawn("out"), 3)
    inputs = QuestionInputs(members=members, non_members=others, unit="document", classes_random="groups")
    corpus = audited_corpus(inputs)
    assert set(corpus.groups.values()) == {f"client {number}" for number in range(6)}
    found = grouping_of(corpus)
    assert found is not None
    assert (found.line, found.by_client, found.arrangements.count) == (groups_line(corpus), True, 20)
    mixed = audited_corpus(QuestionInputs(members=members, non_members=in_clients(drawn("out"), 0), unit="document"))
    assert (groups_line(mixed), grouping_of(mixed)) == (None, None)


def test_groups_cannot_have_been_drawn_where_there_are_none() -> None:
    inputs = {"members": drawn("in"), "non_members": drawn("out"), "unit": "document"}
    with pytest.raises(UsageError, match="--classes-random groups declares that whole groups were drawn"):
        audited_corpus(QuestionInputs.model_validate(inputs | {"classes_random": "groups"}))
    assert audited_corpus(QuestionInputs.model_validate(inputs | {"classes_random": "units"})).groups


def test_groups_cannot_have_been_drawn_where_one_class_has_them(
    sides: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = sides / "groups.csv"
    table.write_text("\n".join(["unit,group", *(f"out person {number},{number % 4}" for number in range(11))]))
    given = ("--unit", "person", "--groups", str(table), "--classes-random", "groups")
    assert audit(sides, *both(sides), *given) == 4
    said = capsys.readouterr().err.strip()
    assert "whole groups were drawn, and non-members alone have groups" in said
    assert "\n" not in said


@pytest.mark.parametrize("given", [(), ("yes",), ("--seed", "1")])
def test_what_was_drawn_must_be_said(given: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["mia", "--model", "m", "--red", "r", "--classes-random", *given]) == 4
    (line,) = capsys.readouterr().err.splitlines()
    assert "'units', each company (document, person) by itself, or 'groups', whole clients" in line


def test_a_configuration_of_before_says_what_the_key_takes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "audit.toml").write_text("classes-random = true\n")
    assert run(["audit", "--config", str(tmp_path / "audit.toml")]) == 4
    assert "'classes-random' must be one of units, groups" in capsys.readouterr().err
