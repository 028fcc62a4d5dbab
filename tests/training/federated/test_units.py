"""Documents and examples as units of privacy: one clipped gradient each, and an optimiser along their noisy mean."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from pfl_audit.cli.main import run
from pfl_audit.documents.document import Query
from pfl_audit.documents.readers import open_corpus
from pfl_audit.errors import AuditError, UsageError
from pfl_audit.models.vt5.training import open_training
from pfl_audit.privacy.canary_coins import Manifest
from pfl_audit.privacy.guarantee import PrivacyGuarantee
from pfl_audit.privacy.review import mechanism_of, review_record
from pfl_audit.privacy.units import UNITS, PrivacyUnit
from pfl_audit.progress import Silent
from pfl_audit.training.canaries import CanarySettings
from pfl_audit.training.federated.canaries.report import family_of, report_on
from pfl_audit.training.federated.canaries.run import observe
from pfl_audit.training.federated.clients import merged, partition
from pfl_audit.training.federated.gaussian_mechanism import GaussianNoise
from pfl_audit.training.federated.gradients import GradientTrainer
from pfl_audit.training.federated.secure_rng import SecretStream, new_key
from pfl_audit.training.federated.strategies import OptimizerStep
from pfl_audit.training.federated.worker import ClientPrivacy, Worker
from pfl_audit.training.lora import Adapters
from pfl_audit.training.optimizers import make_optimizer
from pfl_audit.training.parts import split_queries
from pfl_audit.training.pretraining import Pretraining
from pfl_audit.training.run import run_training
from pfl_audit.training.trainable import choose_trainable
from tests.conftest import save_tiny_vt5
from tests.training.federated.conftest import PRIVATE, QUICK, Federate, Make

BOUND = 0.05
SIMPLE = replace(QUICK, local_steps=None, rounds=2, learning_rate=1e-3)
SECRET = replace(PRIVATE, noise_seed=None, unit="document", delta=1e-3, public_providers=30, provider_rate=0.3)


@pytest.fixture
def start(make_checkpoint: Make, tmp_path: Path) -> Path:
    """A tiny VT5 without dropout, so that a plain loop gives the same gradients."""
    save_tiny_vt5(make_checkpoint(0), tmp_path / "start", 0, dropout=0.0)
    return tmp_path / "start"


@pytest.fixture
def queries(corpus_folder: Path) -> list[Query]:
    return split_queries(open_corpus(corpus_folder, "blue"))[0]


def opened(start: Path) -> Any:
    """The model without any dropout: its positions have some of their own."""
    model = open_training(start)
    for module in model.network.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    return model


def trainer_of(start: Path, queries: Sequence[Query], batch_size: int = 1) -> GradientTrainer:
    model = opened(start)
    return GradientTrainer(
        model, choose_trainable(model), model.examples(queries, Silent()), replace(SIMPLE, batch_size=batch_size)
    )


def round_of(trainer: GradientTrainer, queries: Sequence[Query], unit: PrivacyUnit) -> Tensor:
    """The sum of a round that draws every unit, without noise."""
    stream = SecretStream(new_key(3))
    settings = replace(PRIVATE, unit=unit, provider_rate=1.0, clip=BOUND)
    worker = Worker(
        merged(queries, unit)[0], trainer, ClientPrivacy(settings, GaussianNoise(1e-12, BOUND, stream), stream)
    )
    return worker.report(1, 1, trainer.trainable.read(), lambda done: None).update


def slow_gradient(start: Path, queries: Sequence[Query], of: Sequence[Query]) -> Tensor:
    """Minus the gradient of the sum of the losses of questions, one question at a time by plain autograd."""
    model = opened(start)
    trainable = choose_trainable(model)
    examples = model.examples(queries, Silent())
    model.network.train()
    total = torch.zeros(trainable.size, dtype=torch.float64)
    for query in of:
        found = torch.autograd.grad(
            examples.loss([list(queries).index(query)]), trainable.parameters, materialize_grads=True
        )
        total -= torch.cat([one.reshape(-1) for one in found]).double()
    return total


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("unit", "name"), [("document", lambda query: query.document.file), ("example", lambda query: query.id)]
)
def test_the_sum_of_a_round_is_that_of_a_slow_loop_over_units(
    start: Path, queries: list[Query], unit: PrivacyUnit, name: Callable[[Query], str]
) -> None:
    some = queries[:12]
    wanted = torch.zeros(())
    norms = []
    for one in dict.fromkeys(map(name, some)):
        gradient = slow_gradient(start, some, [query for query in some if name(query) == one])
        norms.append(float(gradient.norm()))
        wanted = wanted + gradient * min(1.0, BOUND / norms[-1])
    assert max(norms) > BOUND
    assert len(norms) == (12 if unit == "example" else len({query.document.file for query in some})) > 1
    found = round_of(trainer_of(start, some), some, unit).double()
    assert float((found - wanted).norm()) < 1e-4 * float(wanted.norm())


def test_a_document_of_many_questions_moves_the_sum_by_the_bound_at_most(start: Path, queries: list[Query]) -> None:
    """Clipped one by one, its questions would move it by several times the bound."""
    files = [query.document.file for query in queries]
    most = max(dict.fromkeys(files), key=files.count)
    assert files.count(most) >= 3
    others = [query for query in queries if query.document.file != most]
    with_it = round_of(trainer_of(start, queries, 2), queries, "document").double()
    moved = with_it - round_of(trainer_of(start, others, 2), others, "document").double()
    assert 0.5 * BOUND < float(moved.norm()) <= BOUND * (1 + 1e-4)
    own = [query for query in queries if query.document.file == most]
    apart = round_of(trainer_of(start, own), own, "example").double()
    assert float(apart.norm()) > 1.5 * BOUND


@pytest.mark.slow
def test_batches_of_a_document_are_one_gradient(start: Path, queries: list[Query]) -> None:
    """A gradient that lay at moved weights, or was the last batch's alone, would be another one."""
    trainer = trainer_of(start, queries, 2)
    weights = trainer.trainable.read()
    rows = list(range(5))
    halves = [trainer.train(weights, batch, 1, 0, 7)[0] for batch in trainer.batches(rows, 1, 0, 7)]
    assert len(halves) == 3
    found, loss = trainer.train(weights, rows, 1, 0, 7)
    torch.testing.assert_close(found, sum(halves, torch.zeros_like(found)), rtol=1e-4, atol=1e-6)
    assert loss > 0


@pytest.mark.slow
def test_a_shared_pass_gives_the_gradients_of_one_after_the_other(start: Path, queries: list[Query]) -> None:
    model = open_training(start)
    trainable = Adapters(model, 2, seed=0, parts="adapters").trainable
    examples = model.examples(queries, Silent())
    model.network.to(torch.float64)
    trainer = GradientTrainer(model, trainable, examples, replace(SIMPLE, batch_size=2))
    assert trainer.together == 8
    weights = trainable.read() + 0.05 * torch.randn(trainable.size, generator=torch.Generator().manual_seed(0))
    jobs = [((0, 1, 2), (1, 0, 7)), ((3,), (1, 0, 8)), ((4, 5, 6, 7, 8), (1, 0, 9))]
    together = trainer.train_group(weights, jobs)
    for (update, loss), (rows, who) in zip(together, jobs, strict=True):
        alone, its = trainer.train(weights, rows, *who)
        torch.testing.assert_close(update, alone, rtol=1e-5, atol=1e-7)
        assert loss == pytest.approx(its)


@pytest.mark.parametrize("name", ["adamw", "adam", "sgd", "momentum"])
def test_the_optimiser_of_the_server_is_that_of_torch_over_rounds(name: str) -> None:
    generator = torch.Generator().manual_seed(1)
    gradients = [torch.randn(7, generator=generator) for _ in range(4)]
    whole = nn.Parameter(torch.ones(7))
    optimizer = make_optimizer(name, [whole], 0.1, 0.01)
    memory: dict[str, Tensor] = {}
    weights = torch.ones(7)
    for gradient in gradients:
        whole.grad = gradient.clone()
        optimizer.step()
        weights = OptimizerStep(name, 0.1, 0.01).step(weights, -gradient, memory, 1.0)
        memory = {key: value.clone() for key, value in memory.items()}  # as a state that is read again
    torch.testing.assert_close(weights, whole.detach())


def test_a_run_by_document_states_its_unit_everywhere(
    federate: Federate, queries: list[Query], capsys: pytest.CaptureFixture[str]
) -> None:
    record = federate("out", "central-dp", SECRET, SIMPLE)
    public = json.loads((federate.folder / "out/training.json").read_text())
    assert public["privacy"]["unit"] == public["privacy"]["mechanism"]["unit"] == "document"
    assert public["privacy"]["adjacency"] == UNITS["document"].adjacency
    assert record["identity"]["privacy"]["unit"] == "document"
    kinds = [part["part"] for part in public["privacy"]["mechanism"]["phases"][0]["parts"]]
    assert kinds == ["gradient", "clip", "noise", "codec", "sum", "server"]
    assert public["privacy"]["mechanism"]["phases"][0]["parts"][-1]["strategy"] == "adamw"
    assert run(["account", "--review", str(federate.folder / "out")]) == 0
    assert "for one document with all its pages and questions and not for a provider" in capsys.readouterr().out
    assert run(["verify", str(federate.folder / "out"), "--ledger", str(federate.folder / "ledger.json")]) == 0
    assert "verified      ledger" in capsys.readouterr().out
    assert run(["account", "--ledger", str(federate.folder / "ledger.json")]) == 0
    assert f"documents {len({query.document.file for query in queries})}" in capsys.readouterr().out
    with pytest.raises(UsageError, match="counts what a document has spent, and the run protects a provider"):
        federate("other", "central-dp", replace(SECRET, unit="provider"), QUICK)


@pytest.mark.slow
def test_delta_is_compared_with_the_number_of_units(federate: Federate) -> None:
    said = {}
    for unit in ("provider", "example"):
        progress = Silent()
        lines: list[str] = []
        progress.say = lines.append  # type: ignore[method-assign]
        rounds = QUICK if unit == "provider" else SIMPLE
        ledger = federate.folder / f"{unit}.json"
        federate(unit, "central-dp", replace(SECRET, unit=unit, delta=0.02), rounds, progress, ledger=ledger)  # type: ignore[arg-type]
        said[unit] = [line for line in lines if "is not below 1/n" in line]
    assert said["provider"] == []
    assert "questions: disclosing one question" in said["example"][0]


@pytest.mark.slow
@pytest.mark.parametrize(
    "privacy",
    [
        replace(SECRET, sampling="clients", client_rate=0.7),
        replace(SECRET, noise="message"),
        replace(SECRET, unit="example", provider_rate=0.1, public_providers=100),
    ],
)
def test_federations_of_documents_hold_and_survive_update_canaries(federate: Federate, privacy: Any) -> None:
    """Clients draw their own documents; NF4 where each message has all of the noise."""
    rounds = replace(SIMPLE, codec="nf4" if privacy.noise == "message" else "float32", optimizer="sgd")
    record = federate("out", "fl-dp", privacy, rounds)
    public = json.loads((federate.folder / "out/training.json").read_text())
    review = review_record(public)
    assert review is not None
    assert review.worth == "holds", review.text
    claim = PrivacyGuarantee.model_validate(record["privacy"])
    mechanism = mechanism_of(public, claim)[0]
    (federate.folder / "canaries").mkdir()
    manifest = Manifest.draw(2000, 100, "")
    observation = observe(claim, mechanism, manifest, 2, federate.folder / "canaries", Silent(), noise_seed=5)
    assert not report_on(claim, manifest, observation, family_of(claim)).contradictions


@pytest.mark.slow
def test_a_phase_of_self_pretraining_and_planted_canaries_go_with_documents(federate: Federate) -> None:
    settings = replace(SIMPLE, rounds=1)
    phase = Pretraining("tm", pretrain_rounds=1)
    record = federate(
        "out",
        "central-dp",
        replace(SECRET, sampling="providers"),
        settings,
        pretraining=phase,
        canaries=CanarySettings(6, 2),
    )
    assert record["privacy"]["rounds"] == 2
    assert [part["rounds"] for part in record["privacy"]["mechanism"]["phases"]] == [1, 1]
    review = review_record(record)
    assert review is not None
    assert review.worth == "holds", review.text
    with pytest.raises(UsageError, match="several questions share"):
        run_training(
            federate.run("none", "central-dp", pretraining=phase), settings, Silent(), replace(SECRET, unit="example")
        )


def test_a_document_in_two_clients_is_refused(queries: list[Query]) -> None:
    moved = [
        replace(query, document=replace(query.document, client=number % 2)) for number, query in enumerate(queries)
    ]
    with pytest.raises(AuditError, match="the document of training question"):
        partition(moved, unit="document")
    assert sum(len(client.providers) for client in partition(moved, unit="example")) == len(queries)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--local-steps", "2"], "gives one gradient"),
        (["--strategy", "fedadam"], "gives one gradient"),
        (
            ["--sampling", "fixed-size", "--providers-per-round", "2", "--minimum-providers", "3"],
            "accounted for providers",
        ),
        (["--sampling", "schedule", "--separation", "2"], "schedules are accounted for providers"),
        (["--client-memory", "clgecl"], "gives one gradient"),
    ],
)
def test_options_that_a_gradient_has_not_are_refused_in_one_line(
    federate: Federate, options: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = ["--from", str(federate.start), "--data", str(federate.corpus), "--out", str(federate.folder / "out")]
    public = [] if "fixed-size" in options else ["--public-units", "30"]
    code = run(["train", "--mode", "fl-dp", "--unit", "document", "--sigma", "1", *paths, *public, *options, "-q"])
    assert code in (2, 4)
    printed = capsys.readouterr().err
    assert said in printed
    assert printed.count("\n") <= 3
