"""What the tests of federated training share: quick settings, and runs of a tiny model on the small corpus."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from pfl_audit.documents.document import Query
from pfl_audit.documents.readers import open_corpus
from pfl_audit.models.vt5.checkpoint import load_vt5
from pfl_audit.models.vt5.training import open_training
from pfl_audit.progress import Silent
from pfl_audit.training.federated.local import LocalTrainer
from pfl_audit.training.federated.optimizer_memory import OptimizerMemory
from pfl_audit.training.federated.settings import FederatedSettings, PrivacySettings
from pfl_audit.training.parts import split_queries
from pfl_audit.training.run import run_training
from pfl_audit.training.start import TrainRun
from pfl_audit.training.trainable import choose_trainable

Make = Callable[[int], Path]
FAST = FederatedSettings(rounds=3, batch_size=4, local_steps=2, learning_rate=1e-3, validate_every=2)
QUICK = replace(FAST, validation_queries=4)
PRIVATE = PrivacySettings(
    provider_rate=0.6, clip=0.1, noise_multiplier=0.8, epsilon=None, noise_seed=1, public_providers=12
)


class Federate:
    """Runs trainings from a tiny checkpoint on the small corpus."""

    def __init__(self, corpus: Path, start: Path, folder: Path) -> None:
        self.corpus, self.start, self.folder = corpus, start, folder

    def __call__(
        self,
        name: str,
        mode: Any,
        privacy: PrivacySettings | None = None,
        settings: FederatedSettings = QUICK,
        progress: Silent | None = None,
        **changes: Any,
    ) -> dict[str, Any]:
        return run_training(self.run(name, mode, **changes), settings, progress or Silent(), privacy)

    def run(self, name: str, mode: Any, **changes: Any) -> TrainRun:
        run = TrainRun(self.corpus, self.folder / name, self.start, "small", 150, half=False, mode=mode)
        run = replace(run, ledger=self.folder / "ledger.json")
        return replace(run, **changes)

    def weights(self, name: str) -> dict[str, torch.Tensor]:
        return dict(load_vt5(self.folder / name).network.state_dict())


@pytest.fixture
def federate(corpus_folder: Path, make_checkpoint: Make, tmp_path: Path) -> Federate:
    return Federate(corpus_folder, make_checkpoint(0), tmp_path)


def local_trainer(
    federate: Federate, settings: FederatedSettings, memory: OptimizerMemory | None = None
) -> tuple[LocalTrainer, list[Query]]:
    """The trainer of a local training, and the queries of its rows."""
    model = open_training(federate.start)
    queries, _ = split_queries(open_corpus(federate.corpus, "blue"))
    examples = model.examples(queries, Silent(), federate.folder / "pages")
    return LocalTrainer(model, choose_trainable(model), examples, settings, memory), queries
