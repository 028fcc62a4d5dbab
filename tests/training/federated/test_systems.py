"""Weights of clients, the proximal term, client optimisers, and messages in NF4, in whole runs."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from pfl_audit.cli.main import run
from pfl_audit.errors import UsageError
from pfl_audit.models.vt5.training import open_training
from pfl_audit.progress import Silent
from pfl_audit.training.federated.messages import Report, RoundTask
from pfl_audit.training.federated.nf4 import BLOCK, NF4, nf4_levels
from pfl_audit.training.federated.secure_rng import SecretStream, new_key
from pfl_audit.training.federated.server import Server
from pfl_audit.training.federated.settings import FederatedSettings, Weighting
from pfl_audit.training.trainable import choose_trainable
from tests.training.federated.conftest import PRIVATE, QUICK, Federate, local_trainer
from tests.training.federated.test_refusals import Cut2


class Engine:
    """Two clients with 30 and 10 queries."""

    def work(self, task: RoundTask) -> int:
        return 2

    def run(self, task: RoundTask, weights: torch.Tensor, advance: object, done: int = 0) -> Iterator[Report]:
        yield Report(torch.tensor([1.0, 0.0]), queries=30, tally=Counter(kept=1))
        yield Report(torch.tensor([0.0, 2.0]), queries=10, tally=Counter(kept=1))


@pytest.mark.parametrize(
    ("weighting", "wanted"), [("uniform", [0.5, 1.0]), ("data", [0.75, 0.5]), ("data-printed", [0.375, 0.25])]
)
def test_weights_of_clients_are_equation_1_of_the_pilot(
    weighting: Weighting, wanted: list[float], tmp_path: Path
) -> None:
    settings = FederatedSettings(rounds=1, clients_per_round=2, weighting=weighting)
    stream = SecretStream(new_key(1, "test"))
    server = Server(settings, [0, 1], None, stream, tmp_path / "state", "0" * 64)
    state = server.train(torch.zeros(2), Engine(), lambda _: {}, Silent())
    assert state.weights.tolist() == pytest.approx(wanted)


@pytest.mark.parametrize(
    ("clients", "fraction", "wanted"),
    [(3, 0.35, 1), (3, 0.7, 2), (3, 1.0, 3), (10, 0.35, 3), (10, 0.7, 7), (10, 1.0, 10), (30, 0.35, 10), (30, 0.7, 21),
     (30, 1.0, 30), (100, 0.29, 29)],
)  # fmt: skip
def test_a_fraction_draws_whole_clients_without_replacement(
    clients: int, fraction: float, wanted: int, tmp_path: Path
) -> None:
    """int(K C) of the pilot, section 4, and the product that floats miss."""
    settings = FederatedSettings(client_fraction=fraction)
    server = Server(settings, range(clients), None, SecretStream(new_key(1, "test")), tmp_path / "state", "0" * 64)
    rounds = [server.task(number).clients for number in range(1, 9)]
    assert {len(drawn) for drawn in rounds} == {len(set(drawn)) for drawn in rounds} == {wanted}
    assert (len(set(rounds)) > 1) == (wanted < clients)


def test_a_fraction_of_the_clients_is_sent_and_counted(federate: Federate) -> None:
    record = federate("out", "fl", settings=replace(QUICK, client_fraction=0.7, clients_per_round=1))
    assert record["communication"]["messages"] == 2 * 3 * 2
    assert record["identity"]["settings"]["client_fraction"] == 0.7


def test_a_fraction_that_draws_no_client_is_refused(federate: Federate) -> None:
    with pytest.raises(UsageError, match="0 clients a round were asked for, and there are 3") as caught:
        federate("out", "fl", settings=replace(QUICK, client_fraction=0.3))
    assert caught.value.remedy == "Raise --client-fraction"


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--mode", "fl", "--clients-per-round", "2"], "--clients-per-round means nothing with --client-fraction"),
        (["--mode", "fl-dp"], "--client-fraction means nothing with --mode fl-dp"),
    ],
)
def test_a_fraction_excludes_a_number_and_privacy(
    words: list[str], complaint: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    out = str(tmp_path / "out")
    assert run(["train", "--data", str(tmp_path), "--out", out, "--client-fraction", "0.7", *words]) == 4
    assert complaint in capsys.readouterr().err


def test_the_proximal_term_is_half_mu_times_the_squared_distance(federate: Federate) -> None:
    """One step of SGD from a point away from the round's start, against the plain gradient."""
    settings = replace(QUICK, optimizer="sgd", weight_decay=0.0, local_steps=3, batch_size=4, proximal=0.0)
    plain, _ = local_trainer(federate, settings)
    pulled, _ = local_trainer(federate, replace(settings, proximal=0.5))
    start = plain.trainable.read()
    free, near = (trainer.train(start, list(range(12)), 1, 0)[0] for trainer in (plain, pulled))
    assert not torch.equal(free, near)
    assert float(near.norm()) < float(free.norm())
    away = start + 0.01
    pulled.trainable.write(away)
    distance = pulled.trainable.squared_distance(start)
    assert float(distance.detach()) == pytest.approx(float((away - start).square().sum()), rel=1e-4)
    gradients = torch.autograd.grad(0.25 * distance, pulled.trainable.parameters)
    flat = torch.cat([gradient.reshape(-1) for gradient in gradients])
    torch.testing.assert_close(flat, 0.5 * (away - start), rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("name", ["adam", "sgd", "momentum", "adamw", "adafactor"])
def test_client_optimisers_move_the_weights(federate: Federate, name: str) -> None:
    trainer, _ = local_trainer(federate, replace(QUICK, optimizer=name, local_steps=2))
    update, loss = trainer.train(trainer.trainable.read(), list(range(8)), 1, 0)
    assert np.isfinite(loss)
    assert bool(update.any())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("lora", "change"),
    [
        (0, {"strategy": "fedavgm", "optimizer": "momentum", "weighting": "data"}),
        (2, {"strategy": "fedadam", "optimizer": "adam", "proximal": 1.0, "codec": "nf4"}),
        (0, {"strategy": "fedadam-corrected", "optimizer": "sgd", "client_fraction": 0.7}),
    ],
)
def test_a_run_that_was_cut_goes_on_with_the_state_of_its_server(
    federate: Federate, lora: int, change: dict[str, Any]
) -> None:
    settings = replace(QUICK, **change)
    federate("whole", "fl", settings=settings, lora=lora)
    with pytest.raises(KeyboardInterrupt):
        federate("cut", "fl", settings=settings, lora=lora, progress=Cut2())
    federate("cut", "fl", settings=settings, lora=lora)
    whole, cut = federate.weights("whole"), federate.weights("cut")
    assert all(torch.equal(whole[name], cut[name]) for name in whole)


def test_a_run_in_nf4_sends_an_eighth_and_ends_elsewhere(federate: Federate) -> None:
    plain = federate("plain", "fl")
    packed = federate("packed", "fl", settings=replace(QUICK, codec="nf4"))
    assert packed["communication"]["bytes_a_message"] < plain["communication"]["bytes_a_message"] / 7
    one, other = federate.weights("plain"), federate.weights("packed")
    assert any(not torch.equal(one[name], other[name]) for name in one)


def test_a_message_in_nf4_holds_what_was_learned(federate: Federate) -> None:
    """Competition, Table A5: of one client a round only the uploads are rounded; both downloads are exact."""
    settings = replace(QUICK, rounds=1, clients_per_round=1)
    federate("plain", "fl", settings=settings)
    federate("packed", "fl", settings=replace(settings, codec="nf4"))
    model = open_training(federate.start)
    trainable = choose_trainable(model)

    def vector(name: str) -> torch.Tensor:
        model.network.load_state_dict(federate.weights(name))
        return trainable.read()

    start = trainable.read()
    update = vector("plain") - start
    learned = vector("packed") - start
    largest = torch.nn.functional.pad(update, (0, -len(update) % BLOCK)).view(-1, BLOCK).abs().amax(dim=1)
    widest = float(nf4_levels().diff().max()) / 2
    assert bool(((learned - update).abs() <= widest * largest.repeat_interleave(BLOCK)[: len(update)] + 1e-7).all())
    again = NF4.decode(NF4.encode(learned), len(update))
    torch.testing.assert_close(again, learned, rtol=1e-4, atol=1e-6)


def test_settings_of_earlier_versions_have_the_same_identity() -> None:
    assert not {"codec", "server_rate", "weighting", "proximal"} & set(QUICK.to_dict())
    assert replace(QUICK, codec="nf4").to_dict()["codec"] == "nf4"


@pytest.mark.parametrize("change", [{"codec": "zip"}, {"strategy": "magic"}])
def test_unknown_names_are_refused(federate: Federate, change: dict[str, str]) -> None:
    with pytest.raises(UsageError, match="there is no"):
        federate("out", "fl", settings=replace(QUICK, **change))  # type: ignore[arg-type]


def test_data_weights_are_refused_under_privacy(federate: Federate) -> None:
    """The number of a client's queries is private, and a weight would scale its noise."""
    with pytest.raises(UsageError, match="weighting data has no privacy guarantee"):
        federate("out", "fl-dp", PRIVATE, settings=replace(QUICK, weighting="data"))


def test_a_private_run_may_use_an_adaptive_server(federate: Federate) -> None:
    record = federate("out", "fl-dp", PRIVATE, settings=replace(QUICK, strategy="fedadam"))
    assert record["privacy"]["epsilon"] > 0


@pytest.mark.slow
def test_rounded_messages_have_all_of_the_noise_each(federate: Federate) -> None:
    """A sum of rounded messages is none of the noisy sum: with shares of the noise it is refused."""
    packed = replace(QUICK, codec="nf4")
    with pytest.raises(UsageError, match="with only a share of the noise each"):
        federate("shares", "fl-dp", PRIVATE, settings=packed)
    assert not (federate.folder / "shares").exists()
    record = federate("whole", "fl-dp", replace(PRIVATE, noise="message"), settings=packed)
    assert record["privacy"]["noise"] == "message"
    alone = federate("alone", "central-dp", PRIVATE, settings=packed)
    assert alone["privacy"]["epsilon"] == record["privacy"]["epsilon"]
