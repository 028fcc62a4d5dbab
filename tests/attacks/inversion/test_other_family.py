"""A Donut under another name: every method works by what the model offers, whatever its family is called."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from pfl_audit.attacks.inversion.attack import ATTACK
from pfl_audit.attacks.inversion.context import Case
from pfl_audit.attacks.inversion.methods import METHODS
from pfl_audit.attacks.inversion.reconstruction import reconstruct
from pfl_audit.attacks.inversion.settings import InversionSettings
from pfl_audit.attacks.inversion.texts import given_for
from pfl_audit.core.plan import AuditPlan
from pfl_audit.core.runner import run_audit
from pfl_audit.errors import NotAuditableError
from pfl_audit.models.donut.family import DonutFamily
from pfl_audit.models.donut.gradients import DonutGradients
from pfl_audit.progress import Silent
from tests.attacks.inversion.leaking import NAMES, case_of
from tests.attacks.inversion.template.drawn import save_form
from tests.core.plans import FakeRegistry


class Heron(DonutGradients):
    """A Donut of a stranger's package."""

    family = "heron"


class HeronFamily(DonutFamily):
    """Opens checkpoints as a Heron."""

    name = "heron"

    def open_gradients(self, folder: Path, *, device: str) -> Heron:
        return Heron(folder, device)


class Unsplit(Heron):
    """Names no layers before fusion."""

    fusion = None


@pytest.fixture(scope="module")
def heron(leaking_folder: Path) -> Heron:
    return Heron(leaking_folder)


def test_question_and_answer_come_back_and_the_search_is_a_donuts(heron: Heron, leaking: DonutGradients) -> None:
    case = case_of(heron, NAMES[0])
    settings = InversionSettings(iterations=6, layers="pre-fusion")
    pages = []
    for model in (heron, leaking):
        given = given_for(model, Case(case.seen), "recovered", np.random.default_rng(0))
        truth = case.truths[0].text
        assert {name: part.tolist() for name, part in given.texts[0].items()} == {
            name: part.tolist() for name, part in truth.items()
        }
        found = reconstruct(model, case.seen, given, METHODS["lbfgs"], settings, 0, Silent(), "a page")
        assert found.tensors < len(case.seen.gradient)
        pages.append(found.pages[0])
    assert np.array_equal(*pages)


def test_layers_before_fusion_are_refused_where_the_model_names_none(leaking_folder: Path) -> None:
    model = Unsplit(leaking_folder)
    case = case_of(model, NAMES[0])
    given = given_for(model, case, "both", np.random.default_rng(0))
    assert torch.stack([part.norm() for part in case.seen.gradient.values()]).sum() > 0
    for layers in ("pre-fusion", "post-fusion"):
        settings = InversionSettings(iterations=1, layers=layers)
        with pytest.raises(NotAuditableError, match=r"names no layers before the fusion .* Use --layers all"):
            reconstruct(model, case.seen, given, METHODS["lbfgs"], settings, 0, Silent(), "a page")


@pytest.fixture
def plan(tmp_path: Path, leaking_folder: Path, monkeypatch: pytest.MonkeyPatch) -> AuditPlan:
    monkeypatch.setattr("pfl_audit.models.open.families", lambda: [HeronFamily()])
    monkeypatch.setattr("pfl_audit.core.runner.ATTACKS", FakeRegistry(inversion=ATTACK))
    template, fields = save_form(tmp_path)
    return AuditPlan(
        title="t",
        out=tmp_path / "run",
        model=str(leaking_folder),
        inputs={"gradients": {"template": template, "fields": fields}},
        checks=("inversion",),
        settings={"inversion": {"iterations": 2}},
    )


@pytest.mark.slow
def test_every_check_runs_as_it_does_on_a_donut(plan: AuditPlan) -> None:
    results = run_audit(plan, Silent())
    assert results.target.family == "heron"
    checks = {check.id: check for check in results.checks}
    assert {name for name, check in checks.items() if check.status != "ran"} == {
        "inversion.analytic",
        "inversion.messages",
    }
    assert "needs encoder of words" in (checks["inversion.analytic"].reason or "")
    exact = next(metric for metric in checks["inversion.text"].metrics if metric.name == "tokens exact")
    assert exact.value == 1.0
    chosen = replace(plan, checks=("inversion.lbfgs",), out=plan.out.with_name("other"))
    assert [check.status for check in run_audit(chosen, Silent()).checks] == ["ran"]
