"""Inversion by several processes: the results of one, and a killed process costs what it did since its last state."""

import json
import os
import re
import signal
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pfl_audit.attacks.inversion import search
from pfl_audit.attacks.inversion.calls import on_each
from pfl_audit.attacks.inversion.context import Case, GradientContext
from pfl_audit.attacks.inversion.gradients import open_gradients
from pfl_audit.attacks.inversion.inputs import GradientInputs
from pfl_audit.attacks.inversion.methods import METHODS
from pfl_audit.attacks.inversion.reading import Pixels, Word
from pfl_audit.attacks.inversion.run import _Record, _sought
from pfl_audit.attacks.inversion.settings import InversionSettings
from pfl_audit.core.evidence import EvidenceBox
from pfl_audit.core.plan import AuditPlan
from pfl_audit.core.redaction import Redactor
from pfl_audit.core.runner import run_audit
from pfl_audit.core.store import ResponseStore
from pfl_audit.core.subject import AuditJob
from pfl_audit.core.verdict import Budget
from pfl_audit.errors import NotAuditableError, WorkersError
from pfl_audit.models.gradient_protocol import GradientModel
from pfl_audit.progress import Silent, Task
from pfl_audit.version import __version__
from tests.attacks.inversion.conftest import save_reader
from tests.attacks.inversion.template.drawn import save_form
from tests.command_server import CommandServer

pytestmark = pytest.mark.usefixtures("tests_on_path", "warm_workers")
TIMES = ("started", "seconds", "resumed", "command")


@pytest.fixture
def tests_on_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other processes find the calls below."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[3]))


def results(out: Path) -> dict[str, Any]:
    text = re.sub(r"[0-9.]+ s a page at most", "", (out / "results.json").read_text())
    found: dict[str, Any] = json.loads(text)
    for name in TIMES:
        found["provenance"].pop(name)
    for data in found["datasets"]:
        data.pop("sha256")  # keyed by the run
    return found


class Engine:
    """Reads the same in every picture."""

    name = "parrot 1"

    def read(self, images: Sequence[Pixels]) -> list[list[Word]]:
        return [[Word("Hamilton", 1.0)] for _ in images]


@dataclass(frozen=True)
class EngineOpening:
    """Opens it in another process; as of Opening."""

    engine: str
    weights: Path | None
    said: str
    version: str = __version__

    def open(self) -> Engine:
        return Engine()


class Shown:
    """Progress that counts."""

    def __init__(self) -> None:
        self.tasks: dict[str, list[int]] = {}

    def task(self, name: str, total: int, done: int = 0) -> Any:
        from contextlib import nullcontext

        counts = self.tasks.setdefault(name, [done, total])

        class One:
            def advance(self, amount: int = 1, note: str = "") -> None:
                counts[0] += amount

        return nullcontext(One())

    def say(self, text: str) -> None:
        pass


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["donut", "v3"])
def test_the_results_are_those_of_one_process(
    kind: str, leaking_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pfl_audit.attacks.inversion.run.open_engine", lambda name, weights: Engine())
    monkeypatch.setattr("pfl_audit.attacks.inversion.run.ReadingOpening", EngineOpening)
    if kind == "donut":
        model, (template, fields), checks = leaking_folder, save_form(tmp_path), ("text", "words", "lbfgs")
    else:
        model, (template, fields) = save_reader(tmp_path, "v3")
        checks = ("analytic", "words")
    plan = AuditPlan(
        title="t",
        out=tmp_path / "one",
        model=str(model),
        inputs={"gradients": {"template": template, "fields": fields, "documents": 3, "stage": 1}},
        checks=tuple(f"inversion.{name}" for name in checks),
        settings={"inversion": {"iterations": 12}},
    )
    shown = Shown()
    assert {check.status for check in run_audit(plan, Silent()).checks} == {"ran"}
    run_audit(replace(plan, out=tmp_path / "two", workers=2), shown)
    assert results(tmp_path / "one") == results(tmp_path / "two")
    assert all(done == total for done, total in shown.tasks.values())
    assert ("Least squares by L-BFGS, documents: 3" in shown.tasks) == (kind == "donut")
    assert "reading of what came back" in shown.tasks


@pytest.fixture
def context(leaking_folder: Path, tmp_path: Path) -> Iterator[GradientContext]:
    """Two observations, and two processes."""
    template, fields = save_form(tmp_path)
    with ResponseStore(tmp_path / "store.sqlite") as store:
        states = tmp_path / "states"
        job = AuditJob(str(leaking_folder), "cpu", False, 0, store=store, states=states, progress=Silent(), workers=2)
        opened = open_gradients(GradientInputs(template=template, fields=fields, documents=2), job)
        box, redactor = EvidenceBox(tmp_path / "run"), Redactor("salt")
        common: dict[str, Any] = {"checks": frozenset(), "seed": 0, "budget": Budget(0.025, 0.05)}
        yield GradientContext(
            model=opened.model, cases=opened.cases, records=opened.records, states=states, calls=opened.calls,
            redactor=redactor, evidence=box, progress=Silent(), **common,
        )  # fmt: skip


class Dying:
    """A task whose process dies once, when something has been saved."""

    def __init__(self, task: Task, marker: Path, state: Path) -> None:
        self._task, self._marker, self._state = task, marker, state

    def advance(self, amount: int = 1, note: str = "") -> None:
        self._task.advance(amount, note)
        if self._state.is_file() and not self._marker.exists():
            self._marker.write_text(str(os.getpid()))
            os.kill(os.getpid(), signal.SIGKILL)


def searched(settings: InversionSettings, state: Path | None = None) -> Callable[..., _Record]:
    rng = np.random.default_rng(0)
    return partial(_sought, method=METHODS["lbfgs"], settings=settings, rng=rng, seed=0, state=state)


def dying_search(
    model: GradientModel, case: Case, task: Task, *, settings: InversionSettings, marker: Path, state: Path
) -> _Record:
    search._SAVE_SECONDS = 0.0
    return searched(settings, state)(model, case, Dying(task, marker, state))


def test_a_search_goes_on_from_its_state_when_its_process_is_killed(context: GradientContext, tmp_path: Path) -> None:
    settings, marker = InversionSettings(iterations=60, early_end=False), tmp_path / "died"
    state = tmp_path / "states/one.state"
    alone = searched(settings)(context.model, context.cases[1], Silent())
    shown = Shown()
    works = {1: partial(dying_search, settings=settings, marker=marker, state=state)}
    with shown.task("search", 60) as task:
        ((at, found),) = on_each(context, works, _Record, task, [60])
    assert marker.read_text() != str(os.getpid())
    assert (at, found) == (1, alone)
    assert shown.tasks == {"search": [60, 60]}
    assert not state.exists()


def refuse(model: GradientModel, case: Case, task: Task) -> str:
    raise NotAuditableError("nothing to search for", "Use another method")


def die(model: GradientModel, case: Case, task: Task) -> str:
    os.kill(os.getpid(), signal.SIGKILL)
    return ""


def name_of(model: GradientModel, case: Case, task: Task) -> str:
    return case.seen.name


def test_what_ends_a_check_comes_back_as_it_is(context: GradientContext) -> None:
    assert dict(on_each(context, {0: name_of, 1: name_of}, str)) == {0: "document 1", 1: "document 2"}
    with pytest.raises(NotAuditableError, match="nothing to search for"):
        dict(on_each(context, {0: refuse}, str))
    with pytest.raises(WorkersError, match="something else than asked"):
        dict(on_each(context, {0: name_of}, int))
    with pytest.raises(WorkersError, match="3 processes were killed"):
        dict(on_each(context, {0: die}, str))


def records(store: Path) -> int:
    try:
        with sqlite3.connect(f"file:{store}?mode=ro", uri=True) as database:
            return int(database.execute("SELECT count(*) FROM records").fetchone()[0])
    except sqlite3.Error:
        return 0


@pytest.mark.slow
def test_killed_it_goes_on_and_ends_with_the_same_results(
    commands: CommandServer, leaking_folder: Path, tmp_path: Path
) -> None:
    template, fields = save_form(tmp_path)

    def command(out: str, workers: int) -> list[object]:
        return [
            "invert", "--model", leaking_folder, "--template", template, "--fields", fields, "--documents", 4,
            "--method", "lbfgs", "--iterations", 20, "-q", "--out", tmp_path / out, "--workers", workers,
        ]  # fmt: skip

    commands.run(*command("whole", 1))
    process = commands.start(*command("cut", 2), forks=True)
    deadline = time.monotonic() + 120
    while not records(tmp_path / "cut/responses.sqlite") and time.monotonic() < deadline:
        time.sleep(0.002)
    os.kill(process, signal.SIGKILL)
    assert commands.wait() == -signal.SIGKILL
    done = records(tmp_path / "cut/responses.sqlite")
    assert 1 <= done <= 4
    assert not (tmp_path / "cut/results.json").exists()
    commands.run(*command("cut", 1))  # what two processes have done, one goes on from
    state = json.loads((tmp_path / "cut/run.json").read_text())
    assert (state["inversions_made"], state["inversions_reused"]) == (4 - done, done)
    assert results(tmp_path / "cut") == results(tmp_path / "whole")
