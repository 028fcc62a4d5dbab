"""Rounds whose clients are named, and the validation of what each stage of a round leaves."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from pfl_audit.cli.main import run
from pfl_audit.errors import UsageError
from pfl_audit.training.federated import phases
from pfl_audit.training.federated.secure_rng import SecretStream, new_key
from pfl_audit.training.federated.server import Server
from pfl_audit.training.federated.settings import FederatedSettings
from tests.training.federated.conftest import PRIVATE, QUICK, Federate
from tests.training.federated.test_refusals import Cut2


@pytest.fixture
def sums(monkeypatch: pytest.MonkeyPatch) -> None:
    """The score of a model is the sum of its weights: answers of a tiny model that has learnt nothing are all alike."""

    def score(validate: Callable[..., object], queries: object, most: int) -> dict[str, float]:
        network = validate.__self__.network  # type: ignore[attr-defined]
        return {"anls": sum(float(one.detach().double().sum()) for one in network.parameters())}

    monkeypatch.setattr(phases, "mean_over_sources", score)


STAGES = replace(QUICK, rounds=2, clients_per_round=2, client_order="2,0", validate_every=1, validate_stages=True)


@pytest.mark.parametrize(
    ("order", "count", "wanted"),
    [("9", 1, [(9,), (9,), (9,)]), ("0,1", 1, [(0,), (1,), (0,)]), ("0,1", 2, [(0, 1), (0, 1), (0, 1)]),
     ("3,1,2", 2, [(1, 3), (2, 3), (1, 2)])],
)  # fmt: skip
def test_named_clients_take_turns(order: str, count: int, wanted: list[tuple[int, ...]], tmp_path: Path) -> None:
    settings = FederatedSettings(clients_per_round=count, client_order=order)
    server = Server(settings, range(10), None, SecretStream(new_key(1, "test")), tmp_path / "state", "0" * 64)
    assert [server.task(number).clients for number in (1, 2, 3)] == wanted


@pytest.mark.parametrize(
    ("order", "complaint"),
    [
        ("0,3", "--client-order has 2 clients up to number 3; there are 3, from 0, and a round takes 2"),
        ("1", "--client-order has 1 clients up to number 1"),
        ("0,0", "--client-order names a client twice"),
        ("0,x", "--client-order must be numbers of clients"),
        (",", "--client-order must be numbers of clients"),
    ],
)
def test_an_order_that_cannot_be_is_refused(order: str, complaint: str, federate: Federate) -> None:
    with pytest.raises(UsageError, match=complaint):
        federate("out", "fl", settings=replace(QUICK, clients_per_round=2, client_order=order))


def test_a_private_run_draws(federate: Federate, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UsageError, match="no privacy guarantee"):
        federate("out", "fl-dp", PRIVATE, settings=replace(QUICK, client_order="0,1"))
    words = ["train", "--data", str(federate.corpus), "--out", str(federate.folder / "x"), "--mode", "fl-dp"]
    for option in (["--client-order", "0"], ["--validate-stages"]):
        for sampling in ("providers", "fixed-size"):
            assert run([*words, "--sampling", sampling, *option]) == 4
            assert f"{option[0]} means nothing with --mode fl-dp" in capsys.readouterr().err


@pytest.mark.usefixtures("sums")
def test_stages_are_those_of_the_clients_and_change_nothing(federate: Federate) -> None:
    """In float32 what arrives is what was trained, and a download is what the round before left (Table A5)."""
    record = federate("looked", "fl", settings=STAGES)
    federate("plain", "fl", settings=replace(STAGES, validate_stages=False))
    one, other = federate.weights("looked"), federate.weights("plain")
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert [(each["round"], each["client"], each["stage"]) for each in record["stages"]] == [
        (number, client, stage)
        for number in (1, 2)
        for client in (0, 2)
        for stage in ("download", "finetuning", "upload")
    ]
    scores = {(each["round"], each["client"], each["stage"]): each["anls"] for each in record["stages"]}
    for client in (0, 2):
        assert scores[2, client, "download"] == record["history"][0]["anls"]
        assert all(scores[number, client, "finetuning"] == scores[number, client, "upload"] for number in (1, 2))
    assert len({scores[number, client, "upload"] for number in (1, 2) for client in (0, 2)}) == 4


@pytest.mark.slow
@pytest.mark.usefixtures("sums")
def test_a_run_that_was_cut_has_every_stage_once(federate: Federate) -> None:
    settings = replace(STAGES, codec="nf4")
    whole = federate("whole", "fl", settings=settings)
    with pytest.raises(KeyboardInterrupt):
        federate("cut", "fl", settings=settings, progress=Cut2())
    assert federate("cut", "fl", settings=settings)["stages"] == whole["stages"]


@pytest.mark.usefixtures("sums")
def test_what_arrives_in_nf4_is_what_the_server_has_of_one_client(federate: Federate) -> None:
    record = federate("one", "fl", settings=replace(STAGES, rounds=1, clients_per_round=1, codec="nf4"))
    found = {each["stage"]: each["anls"] for each in record["stages"]}
    assert found["upload"] == record["history"][0]["anls"]
    assert len(set(found.values())) == 3
