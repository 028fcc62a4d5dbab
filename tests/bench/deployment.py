"""Seconds of a deployment as the federation page has it: python -m tests.bench.deployment.

A SuperLink and two SuperNodes with TLS and authentication on loopback, with Flower's own programs, train a tiny VT5:
once in peace, and once with a node that is killed in the second round under a quorum of one.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from pathlib import Path

from pfl_audit.cli.main import run
from pfl_audit.documents.readers import open_corpus
from pfl_audit.documents.synthetic.generator import Recipe, make_corpus
from pfl_audit.progress import Silent
from pfl_audit.training.federated.flower.server_app import RUN_FILE
from pfl_audit.training.records import RECORD
from pfl_audit.training.scratch import train_tokenizer
from tests.conftest import save_tiny_vt5
from tests.training.federated.flower.deployment import Deployment

ROUNDS = 3


def measure(folder: Path, data: Path, start: Path, *, killed: bool) -> None:
    """Run the federation once, and print seconds from ``flwr run``."""
    app, out = folder / "app", folder / "out"
    words = ["train", "--mode", "fl", "--from", str(start), "--rounds", str(ROUNDS), "--local-steps", "2", "--quiet",
             "--batch-size", "4", "--engine", "flower", "--app", str(app), "--clients", "2", "--out", str(out),
             *(["--quorum", "1"] if killed else [])]  # fmt: skip
    if run(words) != 0:
        raise SystemExit("the app was not written")
    work = [folder / f"work-{number}" for number in (0, 1)]
    with Deployment(folder / "processes", out, *work, forks=False) as deployment:
        for number, place in enumerate(work):
            own = folder / f"data-{number}"
            (own / "imdb").mkdir(parents=True)
            shutil.copy(data / f"imdb/blue/blue_train_client_{number}.npy", own / "imdb")
            shutil.copy(data / "doc2provider.json", own)
            shutil.copytree(data / "images/blue", own / "images", copy_function=os.link)
            config = {"partition-id": number, "data": str(own), "start": str(start), "work": str(place)}
            deployment.add_node(f"supernode-{number}", config)
        begin = time.monotonic()
        run_id = deployment.run(app)

        def passed(what: str) -> None:
            print(f"{what}: {time.monotonic() - begin:.1f} s", flush=True)

        def journals() -> int:
            return sum(any(place.glob("*/journal.json")) for place in work)

        passed("flwr run returned")
        for count in (1, 2):
            deployment.wait(run_id, lambda count=count: journals() >= count)  # type: ignore[misc]
            passed(f"{count} of 2 clients joined")
        if killed:
            deployment.wait(run_id, (out / "training-state.safetensors").is_file)
            passed("the first round ended, a node is killed")
            deployment.kill("supernode-1")
        deployment.wait(run_id, lambda: (out / RECORD).is_file() and not (out / RUN_FILE).exists())
        passed(f"{ROUNDS} rounds ended")
        said = deployment.server_log(run_id)
    print("\n".join(line for line in said.splitlines() if "client" in line))
    record = json.loads((out / RECORD).read_text())
    print("rounds in the record:", record["rounds"], flush=True)


def main() -> None:
    """Print the measurements of both runs."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        data, start = folder / "data", folder / "start"
        make_corpus(Recipe(members=12, clients=2, documents=2, red_providers=4), data, Silent())
        train_tokenizer(open_corpus(data, "blue"), folder, 150)
        save_tiny_vt5(folder, start, 0)
        for killed in (False, True):
            print("with a node killed under --quorum 1" if killed else "both nodes stay")
            measure(folder / str(killed), data, start, killed=killed)


if __name__ == "__main__":
    main()
