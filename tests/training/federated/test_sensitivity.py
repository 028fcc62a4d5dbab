"""What one provider can do to a round, measured on real trainings with dropout and chance as they are."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
import torch

from pfl_audit.documents.document import Query
from pfl_audit.documents.readers import open_corpus
from pfl_audit.models.vt5.training import open_training
from pfl_audit.progress import Silent
from pfl_audit.training.federated.clients import merged
from pfl_audit.training.federated.gaussian_mechanism import GaussianNoise
from pfl_audit.training.federated.local import LocalTrainer
from pfl_audit.training.federated.secure_rng import SecretStream, new_key
from pfl_audit.training.federated.worker import ClientPrivacy, Worker
from pfl_audit.training.parts import split_queries
from pfl_audit.training.trainable import choose_trainable
from tests.training.federated.conftest import PRIVATE, QUICK, Federate

BOUND = 0.05
Round = Callable[[Sequence[Query], float], tuple[torch.Tensor, set[str]]]


@pytest.fixture
def one_round(federate: Federate) -> Round:
    """The sum of a round without noise, and who was in it."""

    def run(queries: Sequence[Query], rate: float) -> tuple[torch.Tensor, set[str]]:
        model = open_training(federate.start)
        for module in model.network.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.3
        trainable = choose_trainable(model)
        trainer = LocalTrainer(model, trainable, model.examples(queries, Silent()), QUICK)
        stream = SecretStream(new_key(3))
        (client,) = merged(queries)
        settings = replace(PRIVATE, provider_rate=rate, clip=BOUND)
        worker = Worker(client, trainer, ClientPrivacy(settings, GaussianNoise(1e-12, BOUND, stream), stream))
        names = sorted({query.document.provider for query in queries})
        drawn = {names[at] for at in worker.drawn(1)}
        return worker.report(1, 1, trainable.read(), lambda done: None).update, drawn

    return run


@pytest.mark.sampled(1)
@pytest.mark.parametrize("which", [0, 3, -1])
def test_a_provider_moves_the_sum_by_the_bound_at_most(one_round: Round, federate: Federate, which: int) -> None:
    queries, _ = split_queries(open_corpus(federate.corpus, "blue"))
    name = sorted({query.document.provider for query in queries})[which]
    others = [query for query in queries if query.document.provider != name]
    with_it, _ = one_round(queries, 1.0)
    without, _ = one_round(others, 1.0)
    moved = float((with_it - without).double().norm())
    assert 0 < moved <= BOUND * (1 + 1e-4)


def test_a_provider_changes_nobody_elses_draw(one_round: Round, federate: Federate) -> None:
    queries, _ = split_queries(open_corpus(federate.corpus, "blue"))
    name = min(query.document.provider for query in queries)
    _, drawn = one_round(queries, 0.5)
    _, without = one_round([query for query in queries if query.document.provider != name], 0.5)
    assert drawn - {name} == without
    assert without
