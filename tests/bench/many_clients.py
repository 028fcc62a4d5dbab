"""A federation of many clients in one process with one corpus, as in a simulation: python -m tests.bench.many_clients.

Prints how often the corpus and the model are opened, and CPU seconds: a first run of one round, and each further round.
"""

from __future__ import annotations

import logging
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from flwr.common.config import flatten_dict

from pfl_audit.documents.readers import open_corpus
from pfl_audit.documents.synthetic.generator import Recipe, make_corpus
from pfl_audit.progress import Silent
from pfl_audit.training.federated.flower import opened
from pfl_audit.training.federated.flower.agreement import Agreement, start_fingerprint
from pfl_audit.training.federated.flower.config import ServerConfig
from pfl_audit.training.federated.flower.server_app import lead_federation
from pfl_audit.training.federated.settings import FederatedSettings, PrivacySettings
from pfl_audit.training.scratch import train_tokenizer
from pfl_audit.training.start import open_trainable
from tests.conftest import save_tiny_vt5
from tests.training.federated.flower.local_grid import LocalGrid


def main(clients: int = 100) -> None:
    """Print the measurements."""
    logging.getLogger("flwr").setLevel(logging.CRITICAL)
    reads, models = list[Path](), list[Path]()

    def read_corpus(path: Path, part: Any) -> Any:
        reads.append(path)
        return open_corpus(path, part)

    def open_model(start: Path, *rest: Any) -> Any:
        models.append(start)
        return open_trainable(start, *rest)

    opened.open_corpus, opened.open_trainable = read_corpus, open_model  # type: ignore[attr-defined]
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        data, start = folder / "data", folder / "start"
        make_corpus(Recipe(members=2 * clients, clients=clients, documents=2, red_providers=4), data, Silent())
        train_tokenizer(open_corpus(data, "blue"), folder, 150)
        save_tiny_vt5(folder, start, 0)
        for rounds in (1, 3):
            settings = FederatedSettings(
                rounds=rounds, batch_size=2, local_steps=1, learning_rate=1e-3, validate_every=rounds
            )
            privacy = PrivacySettings(
                provider_rate=0.4, clip=0.1, noise_multiplier=0.8, epsilon=None, public_providers=2 * clients
            )
            agreement = Agreement("fl-dp", clients, start_fingerprint(start), 0, False, settings, privacy)
            nodes = [
                {
                    "partition-id": one,
                    "data": str(data),
                    "start": str(start),
                    "work": str(folder / f"{rounds}-{one}"),
                    "budget-cap": 1000,
                }
                for one in range(clients)
            ]
            grid = LocalGrid(nodes, flatten_dict(agreement.to_config()))
            config = ServerConfig(str(start), str(folder / f"out-{rounds}"), "", wait=0.0, timeout=60)
            reads.clear()
            models.clear()
            before = time.process_time()
            lead_federation(grid, agreement, config, Silent())
            spent = time.process_time() - before
            print(
                f"{clients} clients, {rounds} rounds: {spent:.1f} CPU s, corpus opened {len(reads)} times, "
                f"model {len(models)} times"
            )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
