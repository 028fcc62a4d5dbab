import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from safetensors.torch import save_file

from pfl_audit.attacks.inversion import scoring
from pfl_audit.attacks.inversion.attack import ATTACK
from pfl_audit.attacks.inversion.context import Case
from pfl_audit.attacks.inversion.gradients import open_gradients
from pfl_audit.attacks.inversion.inputs import GradientInputs
from pfl_audit.attacks.inversion.reading import Pixels, Word
from pfl_audit.core.drawing import drawn_page
from pfl_audit.core.evidence import EvidenceBox
from pfl_audit.core.plan import AuditPlan
from pfl_audit.core.results import Check, Results
from pfl_audit.core.runner import run_audit
from pfl_audit.core.store import ResponseStore
from pfl_audit.core.subject import AuditJob
from pfl_audit.inputs import read_json
from pfl_audit.progress import Silent
from pfl_audit.reports.html import to_html
from tests.attacks.inversion.conftest import save_reader
from tests.attacks.inversion.template.drawn import save_form
from tests.core.plans import FakeRegistry, changed

READ = ("Hamilton", "Quincy")


class Engine:
    """Reads the same in every picture."""

    name = "parrot 1"

    def read(self, images: Sequence[Pixels]) -> list[list[Word]]:
        return [[Word(word, 1.0) for word in READ] for _ in images]


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """What clients wrote into their fields, as far as it was scored."""
    seen: set[str] = set()
    real = scoring.read_fields

    def watched(engine, template, original, reconstruction, values=None):  # type: ignore[no-untyped-def]
        seen.update((values or {}).values())
        return real(engine, template, original, reconstruction, values)

    monkeypatch.setattr(scoring, "read_fields", watched)
    monkeypatch.setattr("pfl_audit.attacks.inversion.run.open_engine", lambda name, weights: Engine())
    monkeypatch.setattr("pfl_audit.core.runner.ATTACKS", FakeRegistry(inversion=ATTACK))
    return seen


@pytest.fixture
def plan(tmp_path: Path, leaking_folder: Path) -> AuditPlan:
    template, fields = save_form(tmp_path)
    checks = ("inversion.text", "inversion.analytic", "inversion.lbfgs")
    settings = {"inversion": {"iterations": 4}}
    return AuditPlan(
        title="t",
        out=tmp_path / "run",
        model=str(leaking_folder),
        inputs={"gradients": {"template": template, "fields": fields}},
        checks=checks,
        settings=settings,
    )


def checks_of(results: Results) -> dict[str, Check]:
    return {check.id.split(".")[1]: check for check in results.checks}


def metric(check: Check, name: str, place: str | None = None) -> float | None:
    (found,) = [one for one in check.metrics if one.name == name and one.slice.get("place") in (place, None)][:1]
    return found.value


def test_a_donut_from_end_to_end(plan: AuditPlan, written: set[str]) -> None:
    results = run_audit(plan, Silent())
    checks = checks_of(results)
    assert {name: check.status for name, check in checks.items()} == {
        "text": "ran",
        "analytic": "skipped",
        "lbfgs": "ran",
    }
    assert "needs encoder of words" in (checks["analytic"].reason or "")
    assert metric(checks["text"], "tokens exact") == 1.0
    found = checks["lbfgs"]
    assert found.finding is not None
    assert found.settings["ocr"] == "parrot 1"
    assert found.tables[0].rows[0][6] == 4  # gradients taken
    folder = plan.out
    said = (folder / "results.json").read_text() + to_html(results, folder)
    assert len(written) >= 2
    for value in (*written, *READ):
        assert value not in said, "a value"
    masked(folder, results)
    assert sorted(path.suffix for path in (folder / "private").glob("inversion-lbfgs*")) == [".jpg"]
    run_audit(plan, Silent())
    state = json.loads((folder / "run.json").read_text())
    assert (state["inversions_made"], state["inversions_reused"]) == (0, 1)


def masked(folder: Path, results: Results) -> None:
    """The report's picture is a drawing: a form of the user's own may carry a letterhead."""
    (evidence,) = checks_of(results)["lbfgs"].evidence
    EvidenceBox(folder / "apart").show("x", drawn_page(), drawn_page())
    assert (folder / str(evidence.picture)).read_bytes() == (folder / "apart/evidence/x.jpg").read_bytes()
    assert {str(value) for name, value in evidence.facts.items() if name.startswith("field")} <= {
        f"written •••••••• (value), read {part} of its words" for part in ("none", "some", "most", "all")
    }


def test_a_form_that_is_public_is_shown_empty(plan: AuditPlan, written: set[str]) -> None:
    plan = changed(plan, public_form=True, checks=("inversion.lbfgs",))
    (evidence,) = checks_of(run_audit(plan, Silent()))["lbfgs"].evidence
    shown = np.asarray(Image.open(plan.out / str(evidence.picture)).convert("L"), dtype=float)
    side = len(shown)
    assert shown.shape == (side, side)
    field = shown[int(0.37 * side) : int(0.41 * side), int(0.4 * side) : int(0.85 * side)]
    assert np.ptp(field) < 8  # one grey all over
    assert np.ptp(shown) > 100  # beside print


def test_values_and_pages_are_shown_to_who_asks_for_them(plan: AuditPlan, written: set[str]) -> None:
    results = run_audit(replace(plan, checks=("inversion.lbfgs",), reveal=True), Silent())
    said = (plan.out / "results.json").read_text()
    assert all(json.dumps(value)[1:-1] in said for value in written)
    (evidence,) = checks_of(results)["lbfgs"].evidence
    kept = next((plan.out / "private").glob("inversion-lbfgs*")).read_bytes()
    assert (plan.out / str(evidence.picture)).read_bytes() == kept


def test_a_batch_is_a_row_that_says_what_to_do(plan: AuditPlan, written: set[str]) -> None:
    batch = changed(plan, batch=2, checks=("inversion.lbfgs",))
    (check,) = run_audit(batch, Silent()).checks
    assert check.status == "skipped"
    assert "--known both" in (check.reason or "")
    told = replace(batch, out=plan.out.with_name("told"), settings={"inversion": {"iterations": 2, "known": "both"}})
    (check,) = run_audit(told, Silent()).checks
    assert (check.status, check.settings["batch"]) == ("ran", 2)


@pytest.fixture
def v3(plan: AuditPlan, tmp_path: Path) -> AuditPlan:
    """Of a small LayoutLMv3, which reads the words of the form."""
    folder, form = save_reader(tmp_path, "v3")
    checks = ("inversion.text", "inversion.analytic")
    return changed(plan, model=str(folder), template=form[0], fields=form[1], checks=checks)


def test_the_closed_form_on_the_same_path(plan: AuditPlan, v3: AuditPlan, written: set[str]) -> None:
    results = run_audit(v3, Silent())
    checks = checks_of(results)
    assert (checks["text"].status, checks["analytic"].status) == ("skipped", "ran")
    assert metric(checks["analytic"], "tokens exact") == 1.0
    said = (plan.out / "results.json").read_text()
    assert not any(value in said for value in written)


def captured(plan: AuditPlan, to: Path) -> tuple[Case, AuditPlan]:
    """The client's page, which is not shown to the audit, and an audit of the gradient alone."""
    with ResponseStore(to / "other.sqlite") as store:
        job = AuditJob(plan.model, "cpu", False, plan.seed, store=store, states=to / "states", progress=Silent())
        (case,) = open_gradients(GradientInputs.model_validate(plan.inputs["gradients"]), job).cases
    parts = {name: part.clone() for name, part in case.seen.gradient.items()}
    save_file(parts, to / "seen.safetensors")
    return case, changed(plan, gradient=to / "seen.safetensors")


def test_what_comes_back_of_a_gradient_alone_is_kept_for_its_owner(
    plan: AuditPlan, written: set[str], tmp_path: Path
) -> None:
    case, alone = captured(plan, tmp_path)
    results = run_audit(alone, Silent())
    assert {check.status for check in results.checks} == {"skipped"}
    assert "lies in private/" in (checks_of(results)["text"].reason or "")
    kept = plan.out / "private"
    assert sorted(path.name for path in kept.iterdir()) == [
        "key",
        "lbfgs-document-1.jpg",
        "provenance.json",
        "results.json",
        "text-document-1.json",
    ]
    assert read_json(kept / "text-document-1.json")["tokens"] == case.truths[0].text["decoder_input_ids"].tolist()
    assert (kept / "text-document-1.json").stat().st_mode & 0o077 == 0


def test_so_is_what_the_closed_form_makes_of_it(v3: AuditPlan, written: set[str], tmp_path: Path) -> None:
    case, alone = captured(v3, tmp_path)
    run_audit(alone, Silent())
    kept = v3.out / "private"
    assert sorted(path.name for path in kept.iterdir()) == [
        "analytic-document-1.jpg",
        "analytic-document-1.json",
        "key",
        "provenance.json",
        "results.json",
    ]
    found = read_json(kept / "analytic-document-1.json")
    assert found["tokens"] == case.truths[0].text["input_ids"].tolist()
    assert all(value in found["text"] for value in (case.truths[0].values or {}).values())
    assert found["limits"] == []
