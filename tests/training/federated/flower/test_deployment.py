"""A federation of real processes: a SuperLink and SuperNodes with TLS and authentication, on loopback."""

import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

pytest.importorskip("flwr")
if not sys.platform.startswith("linux"):
    pytest.skip("looks at /proc", allow_module_level=True)

from pfl_audit.cli.main import run
from pfl_audit.models.vt5.checkpoint import load_vt5
from pfl_audit.privacy.canary_coins import RECORD as CANARIES
from pfl_audit.privacy.canary_coins import Manifest
from pfl_audit.training.federated.flower.server_app import RUN_FILE
from pfl_audit.training.records import RECORD
from tests.training.federated.flower.deployment import Deployment, Patience

Make = Callable[[int], Path]


def part(corpus: Path, folder: Path, clients: list[int]) -> Path:
    """A corpus with these clients and nothing else."""
    (folder / "imdb").mkdir(parents=True)
    for client in clients:
        shutil.copy(corpus / f"imdb/blue/blue_train_client_{client}.npy", folder / "imdb")
    shutil.copy(corpus / "doc2provider.json", folder)
    shutil.copytree(corpus / "images/blue", folder / "images", copy_function=os.link)
    return folder


def test_patience_is_as_long_as_something_changes(tmp_path: Path) -> None:
    steps = iter(range(10))
    assert Patience(lambda: next(steps), 0.5).wait(lambda: next(steps) > 6)  # over a second, and a change each time
    assert not Patience(lambda: "the same", 0.5).wait(lambda: False)


@pytest.mark.slow
def test_two_supernodes_train_what_one_process_trains(
    corpus_folder: Path, make_checkpoint: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = str(make_checkpoint(0))
    arguments = [
        "train", "--mode", "fl", "--from", start, "--rounds", "1", "--local-steps", "2", "--batch-size", "4",
        "--learning-rate", "1e-3", "--pretrain", "tm", "--pretrain-rounds", "1", "--lora", "2", "--quiet",
        "--audit-canaries", "8",
    ]  # fmt: skip
    app, out = tmp_path / "app", tmp_path / "flower"
    assert run([*arguments, "--out", str(out), "--engine", "flower", "--app", str(app), "--clients", "2"]) == 0
    nodes = [
        {
            "partition-id": number,
            "data": str(part(corpus_folder, tmp_path / f"data-{number}", [number])),
            "start": start,
            "work": str(tmp_path / f"work-{number}"),
            "audit-canaries-cap": 4,
        }
        for number in (0, 1)
    ]
    with Deployment(tmp_path / "processes", out, tmp_path / "work-0", tmp_path / "work-1") as deployment:
        deployment.add_node("stranger", {**nodes[1], "work": str(tmp_path / "stranger")}, registered=False)
        for number, node in enumerate(nodes):
            deployment.add_node(f"supernode-{number}", node)
        run_id = deployment.run(app)
        # The id of the run is the last thing to go, once the clients were told that it is over.
        deployment.wait(run_id, lambda: (out / RECORD).is_file() and not (out / RUN_FILE).exists())
        said = deployment.server_log(run_id)
    assert not deployment.left
    assert "Failed to activate SuperNode" in (tmp_path / "processes/stranger.log").read_text()
    assert "No SuperNode found with the given public key" in (tmp_path / "processes/superlink.log").read_text()
    assert not (tmp_path / "stranger").exists()  # it was asked for nothing
    assert {peer[-8:] for peer in deployment.peers} == {"0100007F", "00000000"}  # 127.0.0.1, and nobody yet
    journals = [json.loads(path.read_text()) for path in tmp_path.glob("work-*/*/journal.json")]
    assert [journal["finished"] for journal in journals] == [True, True]
    revealed = json.loads((out / CANARIES).read_text())
    coins = Manifest.check(revealed, json.loads((out / RECORD).read_text())["canaries"]["commitment"])
    numbers = {number for journal in journals for number in journal["canaries"]["numbers"]}
    assert numbers == set(np.flatnonzero(coins.coins))
    assert f"commitment of the canaries: {coins.commitment}" in said
    assert coins.salt not in "".join((said, *(path.read_text() for path in (tmp_path / "processes").glob("*.log"))))
    monkeypatch.setattr(Manifest, "draw", lambda *_, **__: coins)
    both = part(corpus_folder, tmp_path / "both", [0, 1])
    assert run([*arguments, "--out", str(tmp_path / "local"), "--data", str(both)]) == 0
    wanted = load_vt5(tmp_path / "local").network.state_dict()
    for name, tensor in load_vt5(out).network.state_dict().items():
        torch.testing.assert_close(tensor, wanted[name], rtol=1e-4, atol=1e-6)
    assert (out / "communication.csv").read_text() == (tmp_path / "local/communication.csv").read_text()
