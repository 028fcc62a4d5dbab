"""A masked run: what it shares, what it keeps private, and what another audit makes of it."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from pfl_audit.core.comparison import compare
from pfl_audit.core.exports import EXPORTS
from pfl_audit.core.plan import AuditPlan
from pfl_audit.core.renderers import render_all
from pfl_audit.core.results import Check, read_results
from pfl_audit.core.runner import run_audit
from pfl_audit.core.shared_results import keep_results
from pfl_audit.documents.readers import open_corpus
from pfl_audit.documents.scrubbing.questions import scrubbed_questions
from pfl_audit.errors import AuditError, UsageError
from pfl_audit.files import sha256_json
from pfl_audit.progress import Silent
from tests.reports.test_html import check as a_check
from tests.reports.test_html import results

CHECKS = ("memorization.provider_name", "memorization.generalisation")
PSEUDONYM = re.compile(r"(?:page|provider) [0-9a-f]{8}\b")


@pytest.fixture(scope="module")
def plan(corpus_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> AuditPlan:
    folder = tmp_path_factory.mktemp("masked")
    red = open_corpus(corpus_folder, "red")
    asked = (*red.queries, *scrubbed_questions(red, "provider_name", seed=0).queries)
    lines = [json.dumps({"id": query.id, "answer": query.answers[0], "confidence": 0.9}) for query in asked]
    (folder / "answers.jsonl").write_text("\n".join(lines))
    given = {"red": corpus_folder, "answers": folder / "answers.jsonl"}
    return AuditPlan(title="Masked", out=folder / "run", inputs={"questions": given}, checks=CHECKS, fail_on="never")


@pytest.fixture(scope="module")
def done(plan: AuditPlan) -> Path:
    run_audit(plan, Silent())
    return plan.out


def test_exact_numbers_and_digests_stay_private(done: Path, corpus_folder: Path) -> None:
    shared, exact = read_results(done), read_results(done / "private")
    assert exact.datasets[0].sha256 == open_corpus(corpus_folder, "red").digest != shared.datasets[0].sha256
    assert exact.provenance.smallest_group is None
    assert shared.provenance.smallest_group == 5
    assert shared.verdict.summary == exact.verdict.summary
    for check, known in zip(shared.checks, exact.checks, strict=True):
        assert (check.finding and check.finding.level) == (known.finding and known.finding.level)
        for one, other in zip(check.metrics, known.metrics, strict=True):
            assert one.value is None or one.step is not None
            assert not isinstance(one.n, int)
            assert not isinstance(other.n, type(one.n)) or one.n is None


@pytest.fixture(scope="module")
def uneven(plan: AuditPlan, corpus_folder: Path) -> Path:
    """A run of a model that is right on a share of pages that is no round number."""
    red = open_corpus(corpus_folder, "red")
    asked = (*red.queries, *scrubbed_questions(red, "provider_name", seed=0).queries)
    lines = [
        {"id": query.id, "answer": query.answers[0] if int(sha256_json(query.id)[:4], 16) % 7 < 4 else "?",
         "confidence": int(sha256_json([query.id])[:4], 16) / 2**16}
        for query in asked
    ]  # fmt: skip
    answers = plan.out.parent / "uneven.jsonl"
    answers.write_text("\n".join(map(json.dumps, lines)))
    gates = (
        "memorization.generalisation: acc_gap <= 12.34 points",
        "memorization.generalisation: acc_gap >= -87.65 points",
    )
    out, inputs = plan.out.parent / "uneven", {"questions": {"red": corpus_folder, "answers": answers}}
    command = " ".join(["pfl-audit audit", *(f"--gate '{gate}'" for gate in gates)])
    run_audit(replace(plan, out=out, inputs=inputs, gates=gates, command=command), Silent())
    return out


def exact_numbers(check: Check) -> set[str]:
    """Numbers of a check as any report prints them, without those that are round or shorter than three digits."""
    said = set()
    for one in check.metrics:
        for value in (one.value, *(one.ci or ()), one.std):
            if value is not None:
                said |= {f"{factor * abs(value):.{digits}f}" for factor in (1, 100) for digits in (1, 2, 3, 4)}
                said.add(repr(abs(value)))
        said.add(str(one.n))
    return {one for one in said if len(one.replace(".", "").strip("0")) > 2}


def test_no_shared_file_holds_an_exact_number(uneven: Path) -> None:
    shared, exact = read_results(uneven), read_results(uneven / "private")
    files = {path.name: path.read_text() for path in render_all(shared, uneven)}
    files |= {name: export.text(shared) for name, export in EXPORTS.installed().items()}
    files["results.json"] = (uneven / "results.json").read_text()
    assert {"report.html", "csv", "model-card", "sarif", "junit", "results.json"} <= files.keys()
    numbers = set[str]().union(*map(exact_numbers, exact.checks)) | {"12.34", "87.65", "0.1234", "0.8765"}
    assert len(numbers) > 100
    markup = re.compile(r"<style.*?</style>|<script.*?</script>|<svg.*?</svg>|\b[0-9a-f]{8,}\b", re.DOTALL)
    for name, text in files.items():
        said = markup.sub("", text).replace(shared.provenance.started, "").replace(",", "")
        assert not numbers.intersection(re.findall(r"(?<![\w.])\d+(?:\.\d+)?(?![\w.])", said)), name


def test_paths_are_shortened_before_numbers_are_rounded(plan: AuditPlan, tmp_path: Path) -> None:
    page = tmp_path / "run 2031" / "12" / "pages 77.jsonl"
    exact = results(a_check(status="skipped", reason=f"{page} cannot be read, as 12 others", finding=None))
    given = replace(plan, out=tmp_path / "run", inputs={"questions": {"red": page}})
    shared = keep_results(exact, given, b"key", tmp_path / "store.sqlite")
    assert shared.checks[0].reason == "pages 77.jsonl cannot be read, as 10 to 19 others"


def test_two_runs_share_no_pseudonym_and_a_repeated_one_has_the_same(done: Path, plan: AuditPlan) -> None:
    first, exact = ((done / place / "results.json").read_text() for place in ("", "private"))
    other = run_audit(replace(plan, out=done.parent / "other"), Silent())
    again = run_audit(plan, Silent())
    assert PSEUDONYM.search(exact)
    assert not set(PSEUDONYM.findall(exact)) & set(
        PSEUDONYM.findall((done.parent / "other/private/results.json").read_text())
    )
    assert other.datasets[0].sha256 != again.datasets[0].sha256
    assert [check.model_dump(mode="json") for check in again.checks] == json.loads(first)["checks"]


def test_a_run_without_its_key_is_one_line(done: Path, plan: AuditPlan) -> None:
    (done / "private/key").rename(done / "key")
    with pytest.raises(AuditError, match="without their private key"):
        run_audit(plan, Silent())
    (done / "key").rename(done / "private/key")


@pytest.mark.parametrize(("size", "says"), [(1, "below 2"), (0, "below 2"), (10_000, "above the smaller class")])
def test_a_smallest_group_that_cannot_be_is_refused(plan: AuditPlan, tmp_path: Path, size: int, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        run_audit(replace(plan, out=tmp_path / "run", smallest_group=size), Silent())


@pytest.mark.slow
def test_revealed_numbers_are_exact(done: Path, plan: AuditPlan, tmp_path: Path) -> None:
    revealed = run_audit(replace(plan, out=tmp_path / "run", reveal=True), Silent())
    exact = read_results(done / "private")
    assert [check.metrics for check in revealed.checks] == [check.metrics for check in exact.checks]
    assert not (tmp_path / "run/private/results.json").exists()


@pytest.mark.slow
def test_without_private_folders_it_cannot_be_told_whether_it_is_the_same_corpus(
    done: Path, plan: AuditPlan, tmp_path: Path
) -> None:
    shutil.copytree(done, tmp_path / "whole")
    (tmp_path / "passed").mkdir()
    shutil.copy(done / "results.json", tmp_path / "passed")
    notes = {
        name: compare([(read_results(tmp_path / place), tmp_path / place) for place in ("whole", name)]).notes
        for name in ("whole", "passed")
    }
    assert "cannot tell whether it is the same corpus" in notes["passed"][0]
    assert "Changes are against the first audit" in notes["whole"][0]
    said = {}
    for name in ("whole", "passed"):
        found = run_audit(replace(plan, out=tmp_path / f"later-{name}", baseline=tmp_path / name), Silent())
        assert found.verdict.gate.baseline is not None
        said[name] = found.verdict.gate.baseline.same_documents
    assert said == {"whole": True, "passed": None}
