"""Updates that are broken, and tensors that move or stay where they must not."""

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
import torch

from pfl_audit.errors import AuditError
from pfl_audit.models.vt5.training import open_training
from pfl_audit.training.federated.local import LocalTrainer
from pfl_audit.training.trainable import choose_trainable
from tests.training.federated.conftest import PRIVATE, QUICK, Federate


def test_broken_updates_never_reach_the_model(federate: Federate, monkeypatch: pytest.MonkeyPatch) -> None:
    train, calls = LocalTrainer.train, Counter[str]()

    def sometimes(self: LocalTrainer, weights: torch.Tensor, *rest: Any) -> Any:
        calls["n"] += 1
        update, loss = train(self, weights, *rest)
        if calls["n"] % 4 == 2:
            update[5] = float("nan") if calls["n"] % 8 == 2 else float("inf")
        if calls["n"] % 4 == 0:
            update = torch.zeros_like(weights)
        return update, loss

    monkeypatch.setattr(LocalTrainer, "train", sometimes)
    record = federate("out", "fl-dp", PRIVATE)
    assert record["updates"]["dropped"] > 0
    assert record["updates"]["zero"] > 0
    for tensor in federate.weights("out").values():
        assert torch.isfinite(tensor).all()


def test_a_broken_client_is_left_out_of_the_mean(federate: Federate, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = Counter[str]()

    def second_breaks(self: LocalTrainer, weights: torch.Tensor, *rest: Any) -> Any:
        calls["n"] += 1
        return (torch.ones_like(weights), 1.0) if calls["n"] == 1 else (torch.full_like(weights, torch.nan), 1.0)

    monkeypatch.setattr(LocalTrainer, "train", second_breaks)
    record = federate("out", "fl", None, replace(QUICK, rounds=1))
    assert record["updates"] == {"kept": 1, "dropped": 1}
    before = choose_trainable(open_training(federate.start)).read()
    after = choose_trainable(open_training(federate.folder / "out")).read()
    torch.testing.assert_close(after - before, torch.ones_like(before), rtol=1e-4, atol=1e-4)


def test_what_does_not_move_stops_the_run(federate: Federate, monkeypatch: pytest.MonkeyPatch) -> None:
    train = LocalTrainer.train

    def stuck(self: LocalTrainer, weights: torch.Tensor, *rest: Any) -> Any:
        update, loss = train(self, weights, *rest)
        update[: self.trainable.parameters[0].numel()] = 0
        return update, loss

    monkeypatch.setattr(LocalTrainer, "train", stuck)
    with pytest.raises(AuditError, match=r"1 of \d+ trainable tensors did not move.*shared"):
        federate("out", "fl")


def test_a_frozen_tensor_that_moves_stops_the_run(federate: Federate, monkeypatch: pytest.MonkeyPatch) -> None:
    train = LocalTrainer.train

    def leaks(self: LocalTrainer, weights: torch.Tensor, *rest: Any) -> Any:
        with torch.no_grad():
            self.model.network.visual_embedding.image_model.embeddings.cls_token.add_(1)
        return train(self, weights, *rest)

    monkeypatch.setattr(LocalTrainer, "train", leaks)
    with pytest.raises(AuditError, match="a frozen tensor moved"):
        federate("out", "fl-dp", PRIVATE)
