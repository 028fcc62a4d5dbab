import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pfl_audit.cli.main import run
from pfl_audit.core.power import NEEDED
from pfl_audit.core.redaction import Redactor
from pfl_audit.documents.corpus import Corpus
from pfl_audit.documents.document import Membership
from pfl_audit.documents.writers import write_jsonl
from pfl_audit.fitness.grouping import grouping_of
from pfl_audit.metrics.arrangements import Arrangements
from tests.fitness.corpora import drawn


def grouped(corpus: Corpus, change: Callable[[int], dict[str, Any]]) -> Corpus:
    """The corpus with changes of the pages by the number of their company; every second one is a member."""
    numbers = {unit: int("".join(filter(str.isdigit, unit))) for unit in corpus.units}
    pages = {page.id: replace(page, **change(numbers[page.provider])) for page in corpus.documents}
    return replace(corpus, queries=tuple(replace(one, document=pages[one.document.id]) for one in corpus.queries))


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return drawn(2 * NEEDED, np.random.default_rng(0))


def test_without_groups_nothing_is_said(corpus: Corpus) -> None:
    assert grouping_of(corpus) is None


def test_groups_of_one_class_and_of_both_are_counted(corpus: Corpus) -> None:
    names = {0: "A", 2: "A", 1: "B", 3: "B", 4: "C", 5: "C", 6: "C"}
    found = grouping_of(grouped(corpus, lambda number: {"group": names.get(number, "")}))
    assert found is not None
    rest = NEEDED - 2  # of non-members: all but 1, 3 and 5, and B
    assert found.arrangements == Arrangements(NEEDED - 3, rest, ((3, 2),))
    assert found.line == (
        f"groups: {2 * NEEDED - 4}, of {2 * NEEDED} providers; {2 * NEEDED - 7} without a group, each its own"
    )
    assert found.too_few is None
    assert found.counted.endswith("arrangements of the labels that keep groups: more than 1,000,000")


def test_companies_of_unknown_membership_join_groups_and_are_not_counted(corpus: Corpus) -> None:
    """Company 4 joins A and B, which have companies of both classes."""
    names = {0: "A", 1: "B", 4: "B"}
    made = grouped(corpus, lambda number: {"group": names.get(number, "")})
    queries = list(made.queries)
    at = next(at for at, query in enumerate(queries) if query.document.group == "B" and query.id.startswith("d4"))
    queries[at] = replace(queries[at], document=replace(queries[at].document, group="A"))
    labels = {**made.membership, queries[at].document.unit: Membership.UNKNOWN}
    found = grouping_of(replace(made, queries=tuple(queries), membership=labels))
    assert found is not None
    assert found.joined == (("A", "B"),)
    assert found.arrangements.mixed == ((2, 1),)
    assert "A" not in str(found.to_dict(Redactor("salt"))["joined"])
    assert found.to_dict(Redactor("salt", reveal=True))["joined"] == [["A", "B"]]


def check(folder: Path, corpus: Corpus, *more: str) -> int:
    write_jsonl(corpus, folder)
    return run(["data", "check", str(folder), "--no-images", "-q", *more])


def test_two_groups_can_never_be_significant(
    corpus: Corpus, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert check(tmp_path, grouped(corpus, lambda number: {"group": f"Secret {number % 2}"})) == 0
    lines = capsys.readouterr().out.splitlines()
    assert f"groups: 2, of {2 * NEEDED} providers" in lines
    assert (
        "  groups of members alone: 1, of non-members alone: 1, of both: 0; arrangements of the labels that keep "
        "groups: 2"
    ) in lines
    assert lines[-1] == (
        "verdict: cannot be decided: 2 arrangements of the labels that keep groups, and fewer than 20 can never be "
        "significant: each class needs 3 groups of its own at least"
    )
    assert not [line for line in lines if "Secret" in line]


def test_clients_that_coincide_with_classes_are_the_groups(
    corpus: Corpus, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert check(tmp_path, grouped(corpus, lambda number: {"client": number % 10})) == 0
    out = capsys.readouterr().out
    assert f"classes and clients coincide, so that clients are the groups: 10, of {2 * NEEDED} providers\n" in out
    assert "warning: classes and clients coincide\n" in out
    assert "arrangements of the labels that keep groups: 252\n" in out
    assert "verdict: fit" in out


def test_clients_with_companies_of_both_classes_are_no_groups(
    corpus: Corpus, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert check(tmp_path, grouped(corpus, lambda number: {"client": number % 5})) == 0
    assert "groups" not in capsys.readouterr().out


def test_a_table_of_groups_and_joined_ones(corpus: Corpus, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = corpus.units
    rows = [(names[0], "Secret A"), (names[1], "Secret B"), (names[2], "Secret A"), (names[2], "Secret B")]
    table = tmp_path / "groups.csv"
    table.write_text("unit,group\n" + "".join(f"{unit},{group}\n" for unit, group in rows))
    assert check(tmp_path / "red", corpus, "--groups", str(table)) == 0
    out = capsys.readouterr().out
    assert "groups joined, because providers are in several: 1" in out
    assert "  one group: group " in out
    assert "Secret" not in out
    assert check(tmp_path / "red", corpus, "--groups", str(table), "--reveal") == 0
    assert "  one group: Secret A and Secret B\n" in capsys.readouterr().out
    assert check(tmp_path / "red", corpus, "--groups", str(table), "--json") == 0
    found = json.loads(capsys.readouterr().out)["fitness"]["groups"]
    assert (found["arrangements"], found["groups_needed"], found["by_client"]) == (1_000_000, 0, False)
    table.write_text("unit,group\nSecret,A\n")
    assert check(tmp_path / "red", corpus, "--groups", str(table)) == 2
    assert "1 of 1 rows name no provider" in capsys.readouterr().err
