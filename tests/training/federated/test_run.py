"""Federated and private runs, from the corpus to the checkpoint."""

import csv
import os
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from pfl_audit.errors import UsageError
from pfl_audit.models.page_store import PAGES_FILE
from pfl_audit.models.vt5.checkpoint import load_vt5
from pfl_audit.models.vt5.training import open_training
from pfl_audit.privacy.accounting import privacy_spent
from pfl_audit.privacy.sampling import Sampling
from pfl_audit.progress import Silent
from pfl_audit.training.federated import partial, server, worker
from pfl_audit.training.federated.clients import partition
from pfl_audit.training.federated.gaussian_mechanism import GaussianNoise
from pfl_audit.training.federated.local import LocalTrainer
from pfl_audit.training.federated.run import KEY_FILE
from pfl_audit.training.federated.server import STATE_FILE
from pfl_audit.training.federated.settings import PrivacySettings
from pfl_audit.training.lora import Adapters
from pfl_audit.training.trainable import choose_trainable
from tests.training.federated.conftest import PRIVATE, QUICK, Federate, local_trainer
from tests.training.killed import obeyed

MODES = [("fl", None), ("fl-dp", PRIVATE), ("central-dp", PRIVATE)]


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("mode", "privacy"), MODES)
def test_every_mode_trains_all_but_the_dit(
    federate: Federate, mode: str, privacy: PrivacySettings | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Without noise, which would move everything by itself.
    monkeypatch.setattr(GaussianNoise, "share", lambda self, size, *who: torch.zeros(size))
    record = federate("out", mode, privacy)
    before, after = load_vt5(federate.start).network.state_dict(), federate.weights("out")
    for name, tensor in after.items():
        assert torch.equal(tensor, before[name]) == name.startswith("visual_embedding.image_model."), name
    assert record["rounds"] == 3
    assert [entry["round"] for entry in record["history"]] == [2, 3]
    assert (federate.folder / "out/communication.csv").is_file() == (mode != "central-dp")
    for name in (KEY_FILE, PAGES_FILE, STATE_FILE, partial.FILE):
        assert not (federate.folder / "out" / name).exists()


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("mode", "privacy"), MODES)
def test_lora_trains_adapters_and_merges_them(federate: Federate, mode: str, privacy: PrivacySettings | None) -> None:
    record = federate("out", mode, privacy, lora=2)
    before, after = load_vt5(federate.start).network.state_dict(), federate.weights("out")
    changed = {name for name, tensor in after.items() if not torch.equal(tensor, before[name])}
    assert record["lora"] == 2
    adapted = {name for name in changed if name.endswith((".q.weight", ".v.weight"))}
    whole = {name for name in changed if name.startswith("spatial_embedding.") or ".visual_emb_matcher." in name}
    assert changed == adapted | whole
    assert adapted
    assert whole
    assert (federate.folder / "out/adapters/adapter_model.safetensors").is_file()


@pytest.mark.slow
def test_parts_of_adapters_are_trained_alone(federate: Federate) -> None:
    """Adapters alone change no embedding; their zero halves alone leave the random halves as they were drawn."""
    files, random = {}, {}
    for parts in ("adapters", "up"):
        federate(parts, "fl-dp", PRIVATE, replace(QUICK, lora_parts=parts), lora=2)
        before, after = load_vt5(federate.start).network.state_dict(), federate.weights(parts)
        changed = {name for name, tensor in after.items() if not torch.equal(tensor, before[name])}
        assert changed
        assert all(name.endswith((".q.weight", ".v.weight")) for name in changed)
        files[parts] = load_file(federate.folder / parts / "adapters/adapter_model.safetensors")
        random[parts] = [tensor for name, tensor in files[parts].items() if "lora_A" in name]
    drawn = Adapters(open_training(federate.start), 2, seed=QUICK.seed).trainable
    first = [one.detach() for name, one in zip(drawn.names, drawn.parameters, strict=True) if "lora_A" in name]
    assert all(any(torch.equal(one, kept) for kept in random["up"]) for one in first)
    assert not any(torch.equal(one, kept) for one in first for kept in random["adapters"])
    with pytest.raises(UsageError, match="--lora-parts chooses among the parts of adapters, and there are none"):
        federate("none", "fl", settings=replace(QUICK, lora_parts="up"))


def test_fedavg_is_the_mean_of_the_clients_own_trainings(federate: Federate) -> None:
    settings = replace(QUICK, rounds=1)
    federate("out", "fl", settings=settings)
    rows = list(csv.DictReader((federate.folder / "out/communication.csv").open()))
    clients = sorted(int(row["receiver"]) for row in rows if row["sender"] == "-1")
    updates = []
    for client in clients:
        alone = federate(f"alone-{client}", "fl", settings=settings)  # same seeds: the same two clients
        assert alone["updates"] == {"kept": 2}
    trainer, examples = local_trainer(federate, settings)
    start = trainer.trainable.read()
    for client in clients:
        held = [row for row, query in enumerate(examples) if query.document.client == client]
        held.sort(key=lambda row: examples[row].document.provider)
        updates.append(trainer.train(start, held, 1, client)[0])
    trainer.trainable.write(start + sum(updates) / len(updates))  # type: ignore[arg-type]
    wanted = trainer.model.network.state_dict()
    for name, tensor in federate.weights("out").items():
        torch.testing.assert_close(tensor, wanted[name], rtol=1e-5, atol=1e-6)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("mode", "privacy"), MODES)
def test_a_run_that_was_cut_ends_the_same(
    federate: Federate, mode: str, privacy: PrivacySettings | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = federate("whole", mode, privacy)
    monkeypatch.setattr(partial.Partial.__init__, "__defaults__", (0.0,))
    monkeypatch.setattr(server, "_SAVE_SECONDS", -1.0)

    class CutError(Exception):
        pass

    train, trainings = LocalTrainer.train, Counter[str]()

    def stop(self: LocalTrainer, *arguments: Any) -> Any:
        trainings["done"] += 1
        if trainings["done"] % 3 == 0:  # after two more of a round of three, so at each place of one
            raise CutError
        return train(self, *arguments)

    monkeypatch.setattr(LocalTrainer, "train", stop)
    cuts = 0
    while True:
        try:
            cut = federate("cut", mode, privacy, ledger=federate.folder / "cut.ledger.json")
            break
        except CutError:
            cuts += 1
            assert cuts < 60
    assert cuts >= 2
    resumed = federate.weights("cut")
    for name, tensor in federate.weights("whole").items():
        assert torch.equal(tensor, resumed[name]), name
    same = ("privacy", "rounds", "updates", "history", "communication")
    assert {key: whole.get(key) for key in same} == {key: cut.get(key) for key in same}


def cuts_until_whole(federate: Federate, mode: str, privacy: PrivacySettings | None) -> int:
    """Number of interrupts until a run ends, with the weights of the run that is called whole."""
    cuts = 0
    with obeyed(signal.SIGTERM):
        while True:
            try:
                federate("cut", mode, privacy, ledger=federate.folder / "cut.ledger.json")
                break
            except KeyboardInterrupt:
                cuts += 1
                assert cuts < 60
    whole, cut = ((federate.folder / name / "model.safetensors").read_bytes() for name in ("whole", "cut"))
    assert whole == cut
    return cuts


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("mode", "privacy", "every"), [("fl", None, 2), ("fl-dp", PRIVATE, 3)])
def test_sigterm_keeps_every_local_training_that_is_whole(
    federate: Federate, mode: str, privacy: PrivacySettings | None, every: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No state is old enough to be saved by itself."""
    federate("whole", mode, privacy)
    train, trainings = LocalTrainer.train, Counter[str]()

    def interrupt(self: LocalTrainer, *arguments: Any) -> Any:
        trainings["done"] += 1
        if trainings["done"] % every == 0:  # a run that does not keep those before never ends
            os.kill(os.getpid(), signal.SIGTERM)
        return train(self, *arguments)

    monkeypatch.setattr(LocalTrainer, "train", interrupt)
    assert cuts_until_whole(federate, mode, privacy) >= 2


class Signals(tuple[Any, ...]):
    """A tuple that sends two signals when it is read."""

    def __iter__(self) -> Iterator[Any]:
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGTERM)
        return super().__iter__()


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("mode", "privacy"), [("fl", None), ("fl-dp", PRIVATE)])
def test_a_second_interrupt_keeps_no_half_added_update(
    federate: Federate, mode: str, privacy: PrivacySettings | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both signals come after the addition to the sum, before all of the update is counted."""
    federate("whole", mode, privacy)
    add, norm, calls = server.Server._add, worker.norm_of, Counter[str]()

    def interrupted() -> bool:
        calls["done"] += 1
        return calls["done"] in (2, 5)

    def add_loudly(self: Any, state: Any, task: Any, report: Any, total: torch.Tensor) -> None:
        loud = replace(report, losses=Signals(report.losses)) if mode == "fl" and interrupted() else report
        add(self, state, task, loud, total)

    def norm_loudly(update: torch.Tensor) -> float:
        return sum(Signals([norm(update)])) if interrupted() else norm(update)

    monkeypatch.setattr(server.Server, "_add", add_loudly)
    monkeypatch.setattr(worker, "norm_of", norm_loudly)
    assert cuts_until_whole(federate, mode, privacy) == 2


@pytest.mark.slow
def test_a_run_without_a_seed_has_noise_of_its_own(federate: Federate) -> None:
    secret = replace(PRIVATE, noise_seed=None)
    once = replace(QUICK, rounds=1)
    records = [federate(name, "fl-dp", secret, once) for name in ("one", "two")]
    one, two = (federate.weights(name)["language_backbone.shared.weight"] for name in ("one", "two"))
    assert not torch.equal(one, two)
    assert records[0]["privacy"]["noise_generator"].startswith("cryptographic")
    assert not federate("seeded", "fl-dp", PRIVATE, once)["privacy"]["noise_generator"].startswith("cryptographic")


def test_a_round_without_anybody_still_adds_its_noise(federate: Federate) -> None:
    privacy = replace(PRIVATE, sampling="clients", client_rate=1e-9, provider_rate=1.0, denominator=3.0)
    record = federate("out", "fl-dp", privacy, replace(QUICK, rounds=1))
    assert record["communication"]["messages"] == 0
    before, after = open_training(federate.start), open_training(federate.folder / "out")
    difference = choose_trainable(after).read() - choose_trainable(before).read()
    assert float(difference.std()) == pytest.approx(0.8 * 0.1 / 3.0, rel=0.02)


def test_noise_has_the_same_scale_whoever_takes_part(federate: Federate, monkeypatch: pytest.MonkeyPatch) -> None:
    """With updates of zero the whole movement is noise, drawn in shares by the clients that take part."""
    monkeypatch.setattr(
        LocalTrainer, "train", lambda self, weights, rows, *who: (torch.full_like(weights, torch.nan), float("nan"))
    )
    settings = replace(QUICK, rounds=1)
    before = choose_trainable(open_training(federate.start)).read()
    for name, privacy in (
        ("providers", replace(PRIVATE, denominator=3.0)),
        ("clients", replace(PRIVATE, denominator=3.0, sampling="clients", client_rate=0.5, provider_rate=1.0)),
    ):
        record = federate(name, "fl-dp", privacy, settings)
        assert set(record["updates"]) == {"dropped"}
        after = choose_trainable(open_training(federate.folder / name)).read()
        assert float((after - before).std()) == pytest.approx(0.8 * 0.1 / 3.0, rel=0.02)


def test_epsilon_is_what_the_accountant_says_after_each_round(federate: Federate) -> None:
    record = federate("out", "fl-dp", PRIVATE)
    for entry in record["history"]:
        wanted = privacy_spent(Sampling(1.0, 0.6, entry["round"]), 0.8, 1e-5)
        assert entry["epsilon"] == wanted.epsilon
    assert record["privacy"]["epsilon"] == record["history"][-1]["epsilon"]
    assert record["privacy"]["rounds"] == record["privacy"]["rounds_accounted"] == 3


@pytest.mark.sampled(1)
@pytest.mark.parametrize("optimizer", ["adam", "adamw", "momentum", "sgd"])
def test_norms_before_and_after_the_clip_are_those_of_the_providers(federate: Federate, optimizer: str) -> None:
    settings = replace(QUICK, rounds=1, optimizer=optimizer)
    trainer, queries = local_trainer(federate, settings)
    start, wanted = trainer.trainable.read(), list[float]()
    for client in partition(queries):
        for rows, tag in zip(client.providers, client.tags, strict=True):
            update, _ = trainer.train(start, rows, 1, client.number, tag)
            wanted.append(float(update.double().norm()))
    bound = float(np.median(wanted))  # half of the updates are clipped
    record = federate("out", "fl-dp", replace(PRIVATE, provider_rate=1.0, clip=bound), settings)
    (entry,) = record["history"]
    assert entry["norm"] == pytest.approx(np.mean(wanted), rel=1e-3)
    assert entry["clipped_norm"] == pytest.approx(np.mean(np.minimum(wanted, bound)), rel=1e-3)
    assert "norm" not in (federate.folder / "out" / "training.json").read_text()


class Lines(Silent):
    """Remembers what was told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    @contextmanager
    def task(self, name: str, total: int, done: int = 0) -> Iterator[Any]:
        told = self.told

        class Task:
            def advance(self, amount: int = 1, note: str = "") -> None:
                told.append(f"{name} {amount} of {total} {note}")

        yield Task()

    def say(self, text: str) -> None:
        self.told.append(text)


@pytest.mark.slow
def test_a_private_run_does_not_say_how_many_were_drawn(federate: Federate) -> None:
    lines = Lines()
    federate("out", "fl-dp", PRIVATE, progress=lines)
    told = [line for line in lines.told if "round" in line]
    assert [line for line in told if line.startswith("training")] == [
        f"training 1 of 3 round {number} of 3" for number in (1, 2, 3)
    ]
    assert not any("clients" in line or "providers" in line for line in told)
