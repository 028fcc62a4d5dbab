"""The budget ledger of training runs."""

import json
from dataclasses import replace
from typing import Any

import pytest

from pfl_audit.cli.main import run
from pfl_audit.errors import AuditError, UsageError
from pfl_audit.privacy.accounting import privacy_spent
from pfl_audit.privacy.ledger import Ledger
from pfl_audit.privacy.sampling import Sampling
from pfl_audit.training.records import RECORD, private_path
from tests.training.federated.conftest import PRIVATE, QUICK, Federate
from tests.training.federated.test_records import neighbours
from tests.training.federated.test_refusals import Cut2

ONE = replace(QUICK, rounds=1)
SECRET = replace(PRIVATE, noise_seed=None)
ALONE = privacy_spent(Sampling(1.0, 0.6, 1), 0.8, 1e-5).epsilon


@pytest.fixture
def ledger(federate: Federate) -> Ledger:
    return Ledger(federate.folder / "ledger.json")


def released(federate: Federate, name: str) -> dict[str, Any]:
    return json.loads((federate.folder / name / RECORD).read_text())


def test_runs_over_the_same_documents_compose(
    federate: Federate, ledger: Ledger, capsys: pytest.CaptureFixture[str]
) -> None:
    records = [federate(name, "fl-dp", SECRET, ONE) for name in ("one", "two")]
    first, second = (released(federate, name)["privacy"]["composed"] for name in ("one", "two"))
    assert (first["epsilon"], first["runs"]) == (ALONE, 1)
    assert (second["runs"], second["delta"]) == (2, 1e-5)
    assert ALONE < second["epsilon"] == records[1]["budget"]["epsilon"] == ledger.spent().epsilon
    assert records[1]["privacy"]["epsilon"] == ALONE  # of the run alone, as the review recomputes it
    assert "budget" not in released(federate, "two")
    assert list(ledger.spent().runs) == [record["data"]["commitment"] for record in records]
    assert run(["account", "--ledger", str(ledger.path)]) == 0
    shown = capsys.readouterr().out
    assert shown.count("run ") == 2
    assert f"{second['epsilon']:.4g} at delta 1e-05" in shown
    assert run(["account", "--ledger", str(ledger.path), "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["epsilon"] == second["epsilon"]
    assert printed["providers"] == records[1]["data"]["providers"]
    assert json.loads(ledger.path.read_text())["key"] not in json.dumps(printed)


@pytest.mark.slow
def test_a_public_record_does_not_depend_on_who_was_in_earlier_runs(federate: Federate) -> None:
    whole, rest = neighbours(federate)
    found = []
    for earlier in (whole, rest):
        ledger = federate.folder / f"{earlier.name}.json"
        federate(f"first-{earlier.name}", "fl-dp", SECRET, ONE, data=earlier, ledger=ledger)
        federate(f"second-{earlier.name}", "fl-dp", SECRET, ONE, data=whole, ledger=ledger)
        found.append(released(federate, f"second-{earlier.name}")["privacy"])
    assert found[0] == found[1]


@pytest.mark.slow
def test_an_aborted_run_stays_counted_and_a_resumed_one_counts_once(federate: Federate, ledger: Ledger) -> None:
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            federate("cut", "fl-dp", SECRET, progress=Cut2())
        assert [held.rounds for held in ledger.spent().runs.values()] == [3]
    assert federate("cut", "fl-dp", SECRET)["privacy"]["composed"]["runs"] == 1
    assert federate("next", "fl-dp", SECRET, ONE)["privacy"]["composed"]["runs"] == 2


@pytest.mark.slow
def test_a_run_that_is_begun_again_from_nothing_is_another_run(federate: Federate, ledger: Ledger) -> None:
    """Its noise is new, so that both could have been seen."""
    with pytest.raises(KeyboardInterrupt):
        federate("cut", "fl-dp", SECRET, progress=Cut2())
    (federate.folder / "cut").rename(federate.folder / "seen")
    assert federate("cut", "fl-dp", SECRET)["privacy"]["composed"]["runs"] == 2


def test_a_cap_refuses_a_run_and_leaves_nothing(federate: Federate, ledger: Ledger) -> None:
    federate("one", "fl-dp", SECRET, ONE, budget_cap=ALONE + 1)
    before = ledger.path.read_bytes()
    with pytest.raises(UsageError, match="the budget is used up") as caught:
        federate("two", "fl-dp", SECRET, ONE)
    assert "--budget-cap" in caught.value.remedy
    assert ledger.path.read_bytes() == before
    assert not (federate.folder / "two").exists()
    assert not private_path(federate.folder / "two").exists()
    for cap in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(UsageError, match="budget cap"):
            federate("two", "fl-dp", SECRET, ONE, budget_cap=cap)
    federate("public", "fl", settings=ONE)  # training without privacy promises nothing, and keeps no ledger
    assert ledger.path.read_bytes() == before


@pytest.mark.parametrize("change", [{"optimizer": "zip"}, {"strategy": "zip"}, {"codec": "zip"}])
def test_an_unknown_name_spends_nothing_and_leaves_nothing(
    federate: Federate, ledger: Ledger, change: dict[str, str]
) -> None:
    with pytest.raises(UsageError, match=r"there is no .* 'zip'"):
        federate("out", "fl-dp", SECRET, replace(ONE, **change))  # type: ignore[arg-type]
    assert not ledger.path.exists()
    assert not (federate.folder / "out").exists()
    assert not private_path(federate.folder / "out").exists()


def test_a_damaged_ledger_stops_a_run_before_it_begins(federate: Federate, ledger: Ledger) -> None:
    ledger.path.write_text("{")
    with pytest.raises(AuditError, match=r"ledger\.json is no ledger, or damaged"):
        federate("out", "fl-dp", SECRET, ONE)
    assert not (federate.folder / "out").exists()
    assert run(["account", "--ledger", str(ledger.path)]) == 2


def test_the_ledger_is_beside_the_documents_by_default(federate: Federate) -> None:
    data = neighbours(federate)[0]
    record = federate("out", "fl-dp", SECRET, ONE, data=data, ledger=None)
    path = federate.folder / f"{data.name}.ledger.json"
    assert list(Ledger(path).spent().runs) == [record["data"]["commitment"]]
    assert record["budget"]["ledger"] == str(path.resolve())


def test_a_private_start_over_the_same_documents_is_found_in_the_ledger(federate: Federate) -> None:
    federate("one", "fl-dp", SECRET, ONE)
    start = federate.folder / "one"
    with pytest.raises(UsageError, match="was trained on these very documents"):
        federate("two", "fl-dp", SECRET, ONE, start=start)
    other = federate("two", "fl-dp", SECRET, ONE, start=start, ledger=federate.folder / "others.json")
    assert other["data"]["before"] == [released(federate, "one")["data"]["commitment"]]


def test_options_of_the_ledger_belong_to_private_training(
    federate: Federate, capfd: pytest.CaptureFixture[str]
) -> None:
    plain = ["train", "--data", str(federate.corpus), "--out", str(federate.folder / "out")]
    assert run([*plain, "--budget-cap", "8"]) == 4
    assert "--budget-cap means nothing with --mode central" in capfd.readouterr().err
    assert run(["account", "--ledger", "x.json", "--delta", "1e-5"]) == 4
    assert "--delta means nothing with --ledger" in capfd.readouterr().err
    assert run(["account", "--ledger", str(federate.folder / "x.json")]) == 4
    assert "x.json does not exist" in capfd.readouterr().err
