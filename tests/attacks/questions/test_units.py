"""``--members``, ``--non-members`` and ``--unit``: the same checks with another unit of privacy."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pfl_audit.cli.main import run
from pfl_audit.core.results import read_results
from pfl_audit.documents.corpus import Corpus
from pfl_audit.documents.document import Document, Query
from pfl_audit.documents.readers import open_corpus
from pfl_audit.documents.writers import write_jsonl

NAMES = [f"Company {number}" for number in range(12)]


def drawn(side: str) -> Corpus:
    """Two documents of every company with two questions each; both sides have the same companies."""
    rng = np.random.default_rng(len(side))
    queries = []
    for number, name in enumerate(NAMES):
        for which in range(2):
            words = (*rng.choice(["total", "pay", "due", "net"], size=6), f"{side}{number}{which}", name)
            boxes = np.tile(np.float32([0.1, 0.1, 0.2, 0.2]), (len(words), 1))
            page = Document(f"{side}{number}x{which}_1", name, words, boxes, person=f"{side} person {number}")
            queries.append(Query(f"{page.id}-name", page, "Who issued it?", (name,), "provider_name"))
            queries.append(Query(f"{page.id}-sum", page, "What is the total?", ("12",), "total_amount"))
    return Corpus(tuple(queries))


@pytest.fixture
def sides(tmp_path: Path) -> Path:
    """Corpora ``in`` and ``out``, and recorded answers of a model that knows the sums of ``in`` alone."""
    answers = []
    for side in ("in", "out"):
        corpus = drawn(side)
        write_jsonl(corpus, tmp_path / side)
        for query in corpus.queries:
            right = side == "in" or query.key == "provider_name"
            answers.append({"id": query.id, "answer": query.answers[0] if right else "?", "confidence": 0.9})
    (tmp_path / "answers.jsonl").write_text("\n".join(map(json.dumps, answers)))
    return tmp_path


def audit(folder: Path, *options: str) -> int:
    given = ["--answers", str(folder / "answers.jsonl"), "--out", str(folder / "run"), "-q"]
    return run(["audit", *given, *options])


def both(folder: Path) -> tuple[str, ...]:
    return ("--members", str(folder / "in"), "--non-members", str(folder / "out"))


def test_recorded_answers_are_not_asked_by_several_processes(sides: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert audit(sides, *both(sides), "--workers", "2") == 4
    assert "Leave --workers and --cluster out" in capsys.readouterr().err


@pytest.mark.parametrize(("unit", "many", "size"), [("document", "documents", 24), ("person", "persons", 12)])
def test_intervals_findings_and_words_follow_the_unit(unit: str, many: str, size: int, sides: Path) -> None:
    checks = ("membership.azk", "memorization.generalisation")
    chosen = [part for check in checks for part in ("--check", check)]
    assert audit(sides, *both(sides), "--unit", unit, *chosen, "--set", "membership.s=[0]") in (0, 1, 3)
    results, exact = read_results(sides / "run"), read_results(sides / "run/private")
    (data,) = exact.datasets
    assert (data.unit, data.members, data.non_members, data.providers) == (many, size, size, len(NAMES))
    by_id = {check.id: check for check in results.checks}
    whole = by_id["membership.provider"]
    assert whole.title == f"{unit.capitalize()} membership"
    assert whole.finding is not None
    assert f"non-member {many}" in whole.finding.text
    assert {metric.unit for check in ("membership.provider", "membership.azk") for metric in by_id[check].metrics} == {
        many
    }
    methods = {metric.method for check in exact.checks for metric in check.metrics if metric.method}
    assert methods == {f"percentile bootstrap over {many}"}
    said = results.model_dump_json() + (sides / "run" / "report.html").read_text()
    found = re.findall(r"\bcompan(?:y|ies)\b", said)
    assert not found, said[said.index(found[0]) - 80 :][:160]


def test_the_unit_decides_what_is_resampled(sides: Path) -> None:
    """Both documents of a person have the same answers: as units of their own they make the interval too narrow."""
    answers = [json.loads(line) for line in (sides / "answers.jsonl").read_text().splitlines()]
    for one in answers:
        number = int(re.findall(r"(\d+)x", one["id"])[0])
        one["answer"] = one["answer"] if number % 3 else "?"
    width = {}
    for unit in ("document", "person"):
        folder = sides / unit
        folder.mkdir()
        (folder / "answers.jsonl").write_text("\n".join(map(json.dumps, answers)))
        audit(folder, *both(sides), "--unit", unit, "--check", "memorization.generalisation")
        (check,) = read_results(folder / "run/private").checks
        gap = next(metric for metric in check.metrics if metric.name == "ACC gap")
        assert gap.ci is not None
        assert (gap.value, gap.n) == (pytest.approx(1 / 3), 96)
        width[unit] = gap.ci[1] - gap.ci[0]
    assert width["document"] < 0.85 * width["person"]


@pytest.mark.slow
def test_sides_of_different_providers_are_an_ordinary_audit(sides: Path, corpus_folder: Path) -> None:
    """``--red`` and the same documents as two corpora give the same numbers."""
    red = open_corpus(corpus_folder, "red")
    answers = [{"id": query.id, "answer": query.answers[0] if "1" in query.id else "no"} for query in red.queries]
    (sides / "answers.jsonl").write_text("\n".join(map(json.dumps, answers)))
    for name, labelled in (("red-in", red.members()), ("red-out", red.non_members())):
        write_jsonl(red.where(lambda query, who=labelled: query.document.provider in who), sides / name)
    given: dict[str, Any] = {
        "red": ("--red", str(corpus_folder)),
        "sides": ("--members", str(sides / "red-in"), "--non-members", str(sides / "red-out")),
    }
    found = {}
    for name, options in given.items():
        folder = sides / f"of-{name}"
        folder.mkdir()
        (folder / "answers.jsonl").write_text((sides / "answers.jsonl").read_text())
        audit(folder, *options, "--check", "membership.azk", "--check", "memorization.generalisation")
        results = read_results(folder / "run/private")
        found[name] = results.checks
        assert results.datasets[0].unit == "providers"
    for one, other in zip(found["red"], found["sides"], strict=True):
        assert (one.id, one.finding) == (other.id, other.finding)
        for metric, same in zip(one.metrics, other.metrics, strict=True):  # sums in another order of the pages
            assert (metric.name, metric.n, metric.unit) == (same.name, same.n, same.unit)
            assert metric.value == pytest.approx(same.value, abs=1e-9)
            assert metric.ci == pytest.approx(same.ci, abs=1e-9)


@pytest.mark.parametrize(
    ("options", "code", "says"),
    [
        (("--red", "in", "--members", "in", "--non-members", "out"), 4, "--red cannot be given with --members"),
        (("--members", "in"), 4, "members and non-members are both needed. Give --non-members"),
        (("--non-members", "in"), 4, "Give --members as well"),
        (("--red", "in", "--unit", "document"), 4, "--unit document needs the two classes apart"),
        (("--members", "in", "--non-members", "gone"), 4, "does not exist"),
        (("--members", "in", "--non-members", "in", "--unit", "document"), 2, "24 page ids are used by"),
        (("--members", "in", "--non-members", "out"), 2, "12 providers are among the members"),
        ((), 4, "--red, or --members and --non-members"),
    ],
)
def test_inputs_that_cannot_be_audited_cost_one_line(
    options: tuple[str, ...], code: int, says: str, sides: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    places = [str(sides / one) if one in ("in", "out", "gone") else one for one in options]
    assert audit(sides, *places, "--check", "membership") == code
    printed = " ".join(capsys.readouterr().err.split())
    assert says in printed
    assert not (sides / "run" / "results.json").exists()


def test_a_person_is_kept_by_the_safe_format(tmp_path: Path) -> None:
    write_jsonl(drawn("in"), tmp_path)
    read = open_corpus(tmp_path)
    assert {page.person for page in read.documents} == {f"in person {number}" for number in range(12)}
    bare = Corpus(tuple(replace(query, document=replace(query.document, person="")) for query in read.queries))
    write_jsonl(bare, tmp_path / "bare")
    assert "person" not in json.loads((tmp_path / "bare" / "corpus.jsonl").read_text().splitlines()[0])
