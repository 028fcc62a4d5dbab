"""Budget ledger: reserved once, composed by the Rényi filter, capped, locked, and whole or refused."""

import json
import math
import stat
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pfl_audit.errors import AuditError, StorageError, UsageError
from pfl_audit.privacy.ledger import Ledger, default_path
from pfl_audit.privacy.renyi import ORDERS
from pfl_audit.privacy.renyi_filter import RunCost, best_order, filter_epsilon
from pfl_audit.privacy.sampling import Sampling

COST = RunCost(Sampling(1.0, 0.2, 10), 0.771484375, 1e-5, 7.994)
GAUSSIAN = RunCost(Sampling(1.0, 1.0, 1), 4.0, 1e-5, 1.1)
"""One round without sampling: its divergence of order a is a / (2 * 16)."""
NAMES = ("Acme Media", "Bolt TV", "Cave Radio")


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "data.ledger.json")


def test_two_runs_compose_by_the_sum_at_one_order(ledger: Ledger) -> None:
    first, alone = ledger.reserve("one", NAMES, GAUSSIAN)
    assert (first.epsilon, first.runs, alone) == (1.1, 1, 1.1)
    both, largest = ledger.reserve("two", NAMES, GAUSSIAN)
    slow = 2 * both.order / (2 * 16) + math.log(1e5) / (both.order - 1)
    assert both.epsilon == largest == pytest.approx(slow, rel=1e-12)
    assert (both.runs, both.order, both.delta) == (2, first.order, 1e-5)
    exact = math.sqrt(2) * 1.0 / 4.0  # two Gaussians are one with noise 4 / sqrt 2: no filter can be below
    assert both.epsilon > exact


def test_runs_for_another_unit_need_another_ledger(ledger: Ledger) -> None:
    documents = replace(GAUSSIAN, unit="document")
    ledger.reserve("one", NAMES, documents)
    assert ledger.spent().unit == "document"
    assert ledger.agrees("one", documents)
    assert not ledger.agrees("one", GAUSSIAN)
    with pytest.raises(UsageError, match="counts what a document has spent, and the run protects a provider"):
        ledger.reserve("two", NAMES, GAUSSIAN)


def test_the_order_is_the_one_that_most_runs_fit(ledger: Ledger) -> None:
    def runs(order: float, cap: float) -> float:
        return (cap - math.log(1e5) / (order - 1)) / (order / 32)

    for cap in (1.0, 4.0, 16.0):
        assert best_order(GAUSSIAN, ORDERS, cap) == max(ORDERS, key=lambda order: runs(order, cap))
    assert best_order(GAUSSIAN, ORDERS, 16.0) < best_order(GAUSSIAN, ORDERS, 1.0)
    fixed = ledger.reserve("one", NAMES, GAUSSIAN, 16.0)[0].order
    assert ledger.reserve("two", NAMES, COST, 100.0)[0].order == fixed == best_order(GAUSSIAN, ORDERS, 16.0)


def test_the_filter_bounds_adaptive_runs(ledger: Ledger) -> None:
    """A second run is chosen by the result of the first; the loss of both exceeds epsilon as rarely as delta says."""
    order, delta, wide, narrow = 3.0, 0.05, 2.0, 1.0
    rng = np.random.default_rng(0)
    losses, sums = np.zeros(200_000), np.zeros(200_000)
    going = np.ones(200_000, dtype=bool)
    for _ in range(3):
        noise = np.where(losses > 0, narrow, wide)  # more where it already went badly
        drawn = rng.normal(size=len(losses))
        losses += going * (drawn / noise + 1 / (2 * noise**2))
        sums += going * order / (2 * noise**2)
        going &= losses > 0  # stopped by the results as well
    bound = filter_epsilon(0.0, order, delta)
    assert np.mean(losses > sums + bound) <= delta
    assert np.mean(losses > sums / 3) > delta  # a bound that is too small is seen


def test_a_run_is_counted_once_and_an_aborted_one_stays(ledger: Ledger) -> None:
    for _ in range(3):
        again, _largest = ledger.reserve("one", NAMES, COST)
        assert again.runs == 1
    assert len(ledger.spent().runs) == 1
    assert ledger.reserve("two", NAMES, COST)[0].runs == 2
    assert ledger.reserve("one", NAMES, COST)[0].runs == 1  # what came later is not in its guarantee


def test_providers_are_counted_apart_and_the_public_figure_depends_on_none(tmp_path: Path) -> None:
    public = []
    for name, second in (("a", ("Dune Press",)), ("b", NAMES)):
        ledger = Ledger(tmp_path / name)
        ledger.reserve("one", NAMES, COST)
        together, largest = ledger.reserve("two", second, COST)
        public.append(together)
        assert largest == (7.994 if second != NAMES else together.epsilon)
        assert ledger.spent().epsilon == largest
    assert public[0] == public[1]


def test_names_are_hashed_under_a_key_of_the_ledger(tmp_path: Path) -> None:
    texts = []
    for name in ("a", "b"):
        ledger = Ledger(tmp_path / name)
        ledger.reserve("one", NAMES, COST)
        assert stat.S_IMODE(ledger.path.stat().st_mode) == 0o600
        texts.append(json.loads(ledger.path.read_text()))
        assert not any(part in ledger.path.read_text() for part in ("Acme", "Bolt", "Cave"))
    assert texts[0]["key"] != texts[1]["key"]
    assert set(texts[0]["runs"]["one"]["providers"]).isdisjoint(texts[1]["runs"]["one"]["providers"])
    assert ledger.trained(["one"], ["  acme   MEDIA "])
    assert not ledger.trained(["one"], ["Dune Press"])
    assert not ledger.trained(["other"], NAMES)


def test_a_cap_refuses_the_next_run_and_stays(ledger: Ledger) -> None:
    ledger.reserve("one", NAMES, COST, 12.0)
    before = ledger.path.read_bytes()
    for cap in (None, 12.0):
        with pytest.raises(UsageError, match=r"a provider would have spent epsilon \d+\.\d\d of 12") as caught:
            ledger.reserve("two", NAMES, COST, cap)
        assert "--budget-cap" in caught.value.remedy
        assert ledger.path.read_bytes() == before
    ledger.reserve("other", ["Dune Press"], COST)
    assert ledger.reserve("two", NAMES, COST, 40.0)[1] <= 40.0
    with pytest.raises(UsageError, match="of 1 "):
        Ledger(ledger.path.with_name("small")).reserve("one", NAMES, COST, 1.0)
    assert not ledger.path.with_name("small").exists()


def test_a_cap_counts_for_a_run_that_goes_on(ledger: Ledger) -> None:
    ledger.reserve("one", NAMES, COST, 9.0)
    held = ledger.path.read_bytes()
    with pytest.raises(UsageError, match="the budget is used up"):
        ledger.reserve("one", NAMES, COST, 1.0)
    assert ledger.path.read_bytes() == held
    ledger.reserve("one", NAMES, COST, 12.0)
    assert ledger.spent().cap == 12.0
    ledger.reserve("one", NAMES, COST)
    assert ledger.spent().cap == 12.0


def test_runs_fill_a_cap_and_never_exceed_it(ledger: Ledger) -> None:
    order = best_order(GAUSSIAN, ORDERS, 8.0)
    fit = math.floor((8.0 - math.log(1e5) / (order - 1)) / (order / 32))
    assert fit > 10
    for number in range(fit):
        ledger.reserve(f"run {number}", NAMES, GAUSSIAN, 8.0)
    assert ledger.spent().epsilon <= 8.0
    with pytest.raises(UsageError, match="the budget is used up"):
        ledger.reserve("one more", NAMES, GAUSSIAN)


def test_another_delta_is_refused(ledger: Ledger) -> None:
    ledger.reserve("one", NAMES, COST)
    with pytest.raises(UsageError, match="is kept at delta 1e-05, and the run has 1e-06"):
        ledger.reserve("two", NAMES, RunCost(COST.sampling, 1.0, 1e-6, 5.0))


def test_concurrent_runs_are_all_counted(tmp_path: Path) -> None:
    path = tmp_path / "data.ledger.json"
    threads = [threading.Thread(target=Ledger(path).reserve, args=(f"run {n}", NAMES, GAUSSIAN)) for n in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(Ledger(path).spent().runs) == {f"run {n}" for n in range(12)}
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize(
    "change",
    [
        lambda text: "",
        lambda text: text[: len(text) // 2],
        lambda text: "[]",
        lambda text: "null",
        lambda text: text.replace('"version": 1', '"version": 2'),
        lambda text: text.replace('"order": ', '"order": 1'),
        lambda text: text.replace('"epsilon": 7.994', '"epsilon": -1'),
        lambda text: text.replace('"epsilon": 7.994', '"epsilon": NaN'),
        lambda text: text.replace('"key": "', '"key": "zz'),
        lambda text: text.replace('"runs": {', '"runs": [') + "]",
        lambda text: text.replace('"began"', '"gone"'),
        lambda text: "[" * 100_000,
        lambda text: "\udcff",
    ],
)
def test_a_damaged_ledger_is_one_line_and_no_run_begins(ledger: Ledger, change: object) -> None:
    ledger.reserve("one", NAMES, COST)
    damaged = change(ledger.path.read_text()).encode(errors="surrogateescape")  # type: ignore[operator]
    ledger.path.write_bytes(damaged)
    for attempt in (lambda: ledger.reserve("two", NAMES, COST), ledger.spent, lambda: ledger.holds("one")):
        with pytest.raises(AuditError, match=r"data\.ledger\.json") as caught:
            attempt()
        assert "Restore it from a copy" in caught.value.remedy
        assert "Acme" not in caught.value.problem
    assert ledger.path.read_bytes() == damaged


def test_a_ledger_that_cannot_be_kept_refuses_the_run(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()
    with pytest.raises(StorageError, match="cannot be written") as caught:
        Ledger(tmp_path / "file/data.ledger.json").reserve("one", NAMES, COST)
    assert "--ledger" in caught.value.remedy
    with pytest.raises(AuditError, match="is a folder"):
        Ledger(tmp_path / "folder").reserve("one", NAMES, COST)
    with pytest.raises(UsageError, match="does not exist"):
        Ledger(tmp_path / "none").spent()


def test_data_have_one_ledger_however_they_are_named(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "data")
    assert default_path(tmp_path / "link") == default_path(tmp_path / "data/../data/") == tmp_path / "data.ledger.json"
