"""States of the server and of a client, written and read again."""

from collections import Counter
from pathlib import Path

import pytest
import torch

from pfl_audit.errors import UsageError
from pfl_audit.training.federated.partial import Partial
from pfl_audit.training.federated.server import ServerState


def test_a_round_goes_on_with_all_that_it_has_received(tmp_path: Path) -> None:
    state = ServerState(
        torch.ones(3), round=2, done=4, absent=[1], kept=3, total=torch.arange(3.0), tally=Counter(clipped=2),
        losses=[0.5], norms=[(2.0, 1.0)], taken=[[0, 2]], history=[{"round": 1}], stages=[{"round": 2}],
        memory={"m": torch.zeros(3)},
    )  # fmt: skip
    state.save(tmp_path / "state.safetensors", "run")
    found = ServerState.restore(tmp_path / "state.safetensors", "run", torch.zeros(3))
    assert (found.round, found.done, found.absent, found.kept) == (2, 4, [1], 3)
    assert found.total is not None
    assert found.total.tolist() == [0.0, 1.0, 2.0]
    assert (found.tally, found.losses, found.taken) == (state.tally, state.losses, state.taken)
    assert (found.history, found.stages) == (state.history, state.stages)
    assert list(map(tuple, found.norms)) == state.norms
    assert found.weights.tolist() == [1.0] * 3
    assert found.memory["m"].tolist() == [0.0] * 3
    with pytest.raises(UsageError, match="holds a run with other data"):
        ServerState.restore(tmp_path / "state.safetensors", "another run", torch.zeros(3))


def test_the_sum_of_another_client_or_round_is_not_continued(tmp_path: Path) -> None:
    Partial(tmp_path, "run", 0.0).save(3, 1, (2, torch.ones(2), Counter(kept=2), [0.1], [(1.0, 1.0)]))
    kept = Partial(tmp_path, "run")
    found = kept.load(3, 1)
    assert found is not None
    assert (found[0], found[1].tolist(), found[4]) == (2, [1.0, 1.0], [(1.0, 1.0)])
    assert kept.load(3, 2) is None
    assert kept.load(4, 1) is None
