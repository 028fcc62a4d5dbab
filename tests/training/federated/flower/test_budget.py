"""Clients of a federation keep their own budget ledgers."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

pytest.importorskip("flwr")

from flwr.app import Message

from pfl_audit.errors import AuditError
from pfl_audit.models.vt5.training import open_training
from pfl_audit.privacy.ledger import Ledger, default_path
from pfl_audit.privacy.renyi_filter import RunCost
from pfl_audit.privacy.sampling import Sampling
from pfl_audit.training.federated.codecs import FLOAT32
from pfl_audit.training.federated.flower.messenger import Messenger
from pfl_audit.training.federated.flower.round_config import ROUND, RoundConfig
from pfl_audit.training.federated.flower.server_app import RUN_FILE
from pfl_audit.training.federated.flower.wire import round_content
from pfl_audit.training.records import RECORD
from pfl_audit.training.trainable import choose_trainable
from tests.training.federated.flower.parties import PRIVATE, Parties

SECRET = replace(PRIVATE, noise_seed=None)
COST = RunCost(Sampling(1.0, 0.1, 1), 4.0, SECRET.delta, 0.1)


def ledgers(parties: Parties) -> list[Ledger]:
    return [Ledger(default_path(Path(node["data"]))) for node in parties.nodes]


def test_every_client_counts_a_run_once_and_a_cap_refuses_the_next(
    parties: Parties, capfd: pytest.CaptureFixture[str]
) -> None:
    agreement = parties.agreement(SECRET)
    sent = 0

    def cut(message: Message) -> None:
        nonlocal sent
        sent += message.metadata.message_type == "train.round"
        if sent > 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        parties.lead("out", agreement, parties.grid(agreement, cut))
    begun = [ledger.spent() for ledger in ledgers(parties)]
    record = parties.lead("out", agreement)
    assert [ledger.spent() for ledger in ledgers(parties)] == begun
    assert [list(spent.runs) for spent in begun] == [[digest] for digest in record["data"]["commitments"]]
    assert [spent.providers for spent in begun] == [4, 4, 4]
    assert begun[0].epsilon == record["privacy"]["epsilon"]
    parties.nodes[1] |= {"budget-cap": begun[1].epsilon + 1, "ledger": str(ledgers(parties)[1].path)}
    with pytest.raises(AuditError, match="client 1: its budget ledger refuses the run"):
        parties.lead("refused", agreement)
    assert "the budget is used up" in capfd.readouterr().err  # in the client's own log
    order = RoundConfig((parties.folder / "refused" / RUN_FILE).read_text(), 1, 3, 0.8)
    weights = torch.zeros(choose_trainable(open_training(parties.start)).size)
    asked = Message(round_content(order, weights, FLOAT32), 1001, ROUND)  # of the client that was refused
    with pytest.raises(AuditError, match="client 1: its budget ledger refuses the run"):
        list(Messenger(parties.grid(agreement), 1).ask([asked]))
    assert ledgers(parties)[1].spent() == begun[1]
    del parties.nodes[1]["budget-cap"]
    parties.lead("next", agreement)
    assert len(ledgers(parties)[0].spent().runs) == 3  # it had joined the run that another refused
    assert len(ledgers(parties)[1].spent().runs) == 2


def test_a_client_without_a_cap_joins_no_private_run(parties: Parties) -> None:
    """A hostile server would begin one run after another; each is reserved as soon as it is joined."""
    agreement = parties.agreement(SECRET)
    grid = parties.grid(agreement)
    del grid.contexts[1001].node_config["budget-cap"]
    for name in ("one", "two"):
        with pytest.raises(AuditError, match="client 1: it has no budget-cap"):
            parties.lead(name, agreement, grid)
    assert not ledgers(parties)[1].path.exists()
    assert len(ledgers(parties)[0].spent().runs) == 2
    Ledger(ledgers(parties)[1].path).reserve("own", ["A provider"], COST, 20.0)
    parties.lead("kept", agreement, grid)  # the ledger keeps a cap
    assert ledgers(parties)[1].cap == 20.0


@pytest.mark.slow
def test_joins_alone_cannot_exceed_the_cap(parties: Parties) -> None:
    agreement = parties.agreement(SECRET)
    parties.lead("out", agreement)
    parties.nodes[0]["budget-cap"] = cap = 2.5 * ledgers(parties)[0].spent().epsilon
    grid = parties.grid(agreement)
    del grid.contexts[1001].node_config["budget-cap"], grid.contexts[1001].node_config["data"]  # it never joins
    for name in range(6):
        with pytest.raises(AuditError, match="client") as caught:
            parties.lead(f"out-{name}", agreement, grid)
    assert "client 0: its budget ledger refuses the run" in caught.value.problem
    assert ledgers(parties)[0].spent().epsilon <= cap


def test_a_client_with_a_cap_joins_no_run_without_privacy(parties: Parties) -> None:
    parties.nodes[1]["budget-cap"] = 10
    with pytest.raises(AuditError, match="client 1: it has a budget-cap, and the run has no privacy"):
        parties.lead("out", parties.agreement())


@pytest.mark.slow
def test_a_released_record_holds_nothing_that_was_counted(parties: Parties) -> None:
    whole = parties.lead("out", parties.agreement(SECRET))
    released = json.loads((parties.folder / "out" / RECORD).read_text())
    assert released["privacy"]["providers"] == SECRET.public_providers
    assert not {"history", "updates"} & set(released)
    assert set(released["data"]) == {"commitments", "before"}
    assert {"history", "updates"} <= set(whole)


@pytest.mark.parametrize("cap", ["8", 0.0, -1])
def test_a_cap_that_is_no_number_is_refused(parties: Parties, cap: object) -> None:
    parties.nodes[1]["budget-cap"] = cap
    with pytest.raises(AuditError, match="client 1: its budget-cap is no number above 0"):
        parties.lead("out", parties.agreement(SECRET))
