"""Trainings side by side give what one after the other gives."""

import os
import signal
from collections.abc import Iterator

import pytest
import torch

from pfl_audit.documents.readers import open_corpus
from pfl_audit.errors import AuditError
from pfl_audit.models.vt5.training import open_training
from pfl_audit.progress import Silent
from pfl_audit.training.federated.clients import merged
from pfl_audit.training.federated.local import LocalTrainer
from pfl_audit.training.federated.together import Job
from pfl_audit.training.federated.worker_pool import WorkerPool, trainer_for
from pfl_audit.training.parts import split_queries
from pfl_audit.training.trainable import choose_trainable
from tests.training.federated.conftest import QUICK, Federate


@pytest.fixture
def threads() -> Iterator[None]:
    """Two threads, whatever the suite has."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def work(federate: Federate) -> tuple[LocalTrainer, list[Job]]:
    model = open_training(federate.start)
    queries, _ = split_queries(open_corpus(federate.corpus, "blue"))
    examples = model.examples(queries, Silent())
    providers = merged(queries)[0].providers
    jobs: list[Job] = [(rows, (1, 0, number)) for number, rows in enumerate(providers)]
    return LocalTrainer(model, choose_trainable(model), examples, QUICK), jobs[:5]


def test_a_pool_gives_what_one_thread_gives_in_order(work: tuple[LocalTrainer, list[Job]], threads: None) -> None:
    trainer, jobs = work
    pool = WorkerPool(trainer, 2)
    weights = trainer.trainable.read()
    together = list(pool.train_each(weights, jobs))
    alone = [pool.train(weights, rows, *who) for rows, who in jobs]
    torch.set_num_threads(1)
    wanted = list(trainer.train_each(weights, jobs))
    assert len(together) == len(jobs)
    for (update, loss), (same, same_loss), (want, want_loss) in zip(together, alone, wanted, strict=True):
        assert torch.equal(update, want)
        assert torch.equal(same, want)
        assert loss == same_loss == want_loss


@pytest.mark.slow
def test_one_thread_or_another_device_needs_no_pool(work: tuple[LocalTrainer, list[Job]], threads: None) -> None:
    trainer, _ = work
    assert isinstance(trainer_for(trainer, "cpu"), WorkerPool)
    assert trainer_for(trainer, "cuda") is trainer
    torch.set_num_threads(1)
    assert trainer_for(trainer, "cpu") is trainer


def test_a_killed_process_of_the_crew_is_one_clear_line(work: tuple[LocalTrainer, list[Job]], threads: None) -> None:
    trainer, jobs = work
    pool = WorkerPool(trainer, 2)
    weights = trainer.trainable.read()
    results = pool.train_each(weights, jobs * 50)
    next(results)
    assert pool._pool is not None
    os.kill(next(iter(pool._pool._processes)), signal.SIGKILL)
    with pytest.raises(AuditError, match="was killed"):
        list(results)


@pytest.mark.slow
def test_clients_without_privacy_train_side_by_side(federate: Federate, threads: None) -> None:
    federate("two", "fl")
    torch.set_num_threads(1)
    federate("one", "fl")
    one, two = federate.weights("one"), federate.weights("two")
    assert all(torch.equal(two[name], tensor) for name, tensor in one.items())
