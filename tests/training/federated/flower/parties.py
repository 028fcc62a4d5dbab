"""A server and three clients with a tiny model, in one process."""

import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from flwr.common.config import flatten_dict

from pfl_audit.models.vt5.checkpoint import load_vt5
from pfl_audit.progress import Silent
from pfl_audit.training.federated.flower.agreement import Agreement, start_fingerprint
from pfl_audit.training.federated.flower.config import ServerConfig
from pfl_audit.training.federated.flower.server_app import lead_federation
from pfl_audit.training.federated.settings import FederatedSettings, PrivacySettings
from pfl_audit.training.run import run_training
from pfl_audit.training.start import TrainRun
from tests.training.federated.flower.local_grid import LocalGrid, Watch

Make = Callable[[int], Path]
QUICK = FederatedSettings(
    rounds=2, batch_size=2, local_steps=1, learning_rate=1e-3, validate_every=2, validation_queries=4
)
PRIVATE = PrivacySettings(
    provider_rate=0.4, clip=0.1, noise_multiplier=0.8, epsilon=None, noise_seed=1, public_providers=12
)
CLOSE: dict[str, Any] = {"rtol": 1e-4, "atol": 1e-6}


class Parties:
    """A server and three clients, each with a folder of its own and nothing of the others."""

    def __init__(self, corpus: Path, start: Path, folder: Path) -> None:
        self.corpus, self.start, self.folder = corpus, start, folder
        self.nodes = [self._node(number) for number in range(3)]

    def _node(self, number: int) -> dict[str, Any]:
        data = self.folder / f"data-{number}"
        (data / "imdb").mkdir(parents=True)
        shutil.copy(self.corpus / f"imdb/blue/blue_train_client_{number}.npy", data / "imdb")
        shutil.copy(self.corpus / "doc2provider.json", data)
        shutil.copytree(self.corpus / "images/blue", data / "images", copy_function=os.link)
        work = str(self.folder / f"work-{number}")
        return {"partition-id": number, "data": str(data), "start": str(self.start), "work": work}

    def agreement(self, privacy: PrivacySettings | None = None, **changes: Any) -> Agreement:
        mode = "fl-dp" if privacy else "fl"
        start = start_fingerprint(self.start)
        return replace(Agreement(mode, 3, start, 0, False, QUICK, privacy), **changes)

    def grid(self, agreement: Agreement, watch: Watch | None = None) -> LocalGrid:
        private = {"budget-cap": 1000.0, "repeatable-noise": True} if agreement.privacy else {}
        return LocalGrid([private | node for node in self.nodes], flatten_dict(agreement.to_config()), watch)

    def lead(
        self, name: str, agreement: Agreement, grid: LocalGrid | None = None, wait: float = 0.0, *, keep: bool = False
    ) -> dict[str, Any]:
        out = str(self.folder / name)
        place = ServerConfig(str(self.start), out, str(self.corpus), wait=wait, timeout=0.5, keep_updates=keep)
        return lead_federation(grid or self.grid(agreement), agreement, place, Silent())

    def local(self, name: str, agreement: Agreement, *, keep: bool = False) -> dict[str, Any]:
        out, mode = self.folder / name, agreement.mode
        run = TrainRun(self.corpus, out, self.start, "small", 150, half=False, mode=mode, lora=agreement.lora)
        ledger = self.folder / f"{name}.ledger.json"
        run = replace(run, ledger=ledger, pretraining=agreement.pretraining, keep_updates=keep)
        run = replace(run, canaries=agreement.canaries)
        return run_training(run, agreement.settings, Silent(), agreement.privacy)

    def weights(self, name: str) -> dict[str, torch.Tensor]:
        return dict(load_vt5(self.folder / name).network.state_dict())

    def moved_from_start(self, name: str) -> float:
        """Standard deviation of the change of the numbers that moved."""
        start = load_vt5(self.start).network.state_dict()
        change = torch.cat([(tensor - start[key]).flatten() for key, tensor in self.weights(name).items()])
        return float(change[change != 0].std())

    def require_equal(self, one: str, other: str, **tolerance: float) -> None:
        wanted, start = self.weights(other), load_vt5(self.start).network.state_dict()
        moved = 0.0
        for name, tensor in self.weights(one).items():
            torch.testing.assert_close(tensor, wanted[name], **(tolerance or CLOSE), msg=lambda m, n=name: f"{n}: {m}")
            own = tensor[: len(start[name])]  # added tokens have rows that the start lacks
            moved = max(moved, float((own - start[name]).abs().max()))
        assert moved > 5e-4
