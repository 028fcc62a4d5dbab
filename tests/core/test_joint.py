"""One audit of one checkpoint over all subjects: every check is a row, and the findings share one budget."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Protocol, runtime_checkable

import pytest

from pfl_audit.core.attack import ATTACKS
from pfl_audit.core.audit_verdict import exit_code
from pfl_audit.core.plan import AuditPlan
from pfl_audit.core.results import Results, read_results
from pfl_audit.core.runner import run_audit
from pfl_audit.core.verdict import LEAK_BUDGET
from pfl_audit.documents.corpus import Corpus
from pfl_audit.errors import NotAuditableError, UsageError
from pfl_audit.progress import Silent
from pfl_audit.reports.html import render
from tests.attacks.inversion.template.drawn import save_form
from tests.models.donut.conftest import save_ours

pytestmark = pytest.mark.slow


@runtime_checkable
class Lacked(Protocol):
    """What no family offers."""

    def open_what_is_lacked(self) -> None: ...


QUICK = {"membership": {"seeds": 1, "s": (0,)}, "inversion": {"iterations": 2}}


@pytest.fixture(scope="module")
def donut(red: Corpus, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("joint") / "donut"
    folder.mkdir()
    save_ours(sorted({text for query in red.queries for text in (query.question, *query.answers)}), folder)
    return folder


@pytest.fixture(scope="module")
def plan(donut: Path, corpus_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> AuditPlan:
    folder = tmp_path_factory.mktemp("audits")
    template, fields = save_form(folder)
    return AuditPlan(
        title="Joint",
        out=folder / "run",
        model=str(donut),
        inputs={"questions": {"red": corpus_folder}, "gradients": {"template": template, "fields": fields}},
        settings=QUICK,
    )


@pytest.fixture(scope="module")
def results(plan: AuditPlan) -> Results:
    return run_audit(plan, Silent())


def test_every_check_is_a_row_of_one_report(plan: AuditPlan, results: Results) -> None:
    assert [check.id for check in results.checks] == [
        spec.id for attack in ATTACKS.installed().values() for spec in attack.specs
    ]
    assert [data.subject for data in results.datasets] == ["gradients", "questions"]
    ran = {check.id for check in results.checks if check.status == "ran"}
    assert {"inversion.text", "inversion.lbfgs", "membership.azk", "memorization.provider_name"} <= ran
    reasons = {check.id: check.reason for check in results.checks if check.status != "ran"}
    assert reasons["reconstruction.one_shot"] == "needs forms with labelled fields (--forms)"
    assert "--check inversion.dlg runs it" in str(reasons["inversion.dlg"])
    assert "needs encoder of words" in str(reasons["inversion.analytic"])
    assert "needs pre-trained model" in str(reasons["membership.apk"])
    assert f"{len(reasons)} of {len(results.checks)} checks did not run" in results.verdict.summary
    page = render(results, plan.out).read_text()
    assert "private fields: 3" in page
    assert "provider" in page


def test_findings_share_one_budget(results: Results) -> None:
    findings = [check for check in results.checks if check.status == "ran" and check.part_of is None]
    stated = {check.settings["alpha"] for check in results.checks if "alpha" in check.settings}
    assert stated == {LEAK_BUDGET / len(findings)}


def test_numbers_are_those_of_the_single_commands(plan: AuditPlan, results: Results) -> None:
    def numbers(audited: Results, family: str) -> dict[str, list[tuple[str, float | None, object]]]:
        return {
            check.id: [(metric.name, metric.value, metric.ci) for metric in check.metrics]
            for check in audited.checks
            if check.family == family and check.status == "ran"
        }

    for family in ("inversion", "membership"):
        alone = run_audit(replace(plan, out=plan.out / family, checks=(family,), store=plan.out / "x"), Silent())
        found = numbers(alone, family)
        assert {name: found[name] for name in numbers(results, family)} == numbers(results, family)


def test_an_audit_of_one_subject_is_complete(plan: AuditPlan) -> None:
    """Rows of subjects without inputs do not make an audit incomplete."""
    alone = replace(plan, inputs={"gradients": plan.inputs["gradients"]}, out=plan.out.with_name("alone"))
    found = run_audit(alone, Silent())
    assert exit_code(found.verdict) in (0, 1)
    assert read_results(alone.out) == found


def test_a_subject_that_the_model_lacks(
    plan: AuditPlan, make_checkpoint: Callable[[int], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pfl_audit.models.open.GradientFamily", Lacked)
    vt5 = replace(
        plan, model=str(make_checkpoint(0)), out=plan.out.with_name("vt5"), checks=("membership.azk", "inversion.text")
    )
    by_id = {check.id: check for check in run_audit(vt5, Silent()).checks}
    assert by_id["membership.azk"].status == "ran"
    assert by_id["inversion.text"].status == "skipped"
    assert "offers no training gradient" in str(by_id["inversion.text"].reason)
    only = replace(
        vt5, inputs={"gradients": plan.inputs["gradients"]}, out=plan.out.with_name("only"), checks=("inversion",)
    )
    with pytest.raises(NotAuditableError, match="offers no training gradient"):
        run_audit(only, Silent())
    with pytest.raises(UsageError, match="nothing to audit the model with"):
        run_audit(replace(plan, inputs={}, out=plan.out.with_name("none")), Silent())
