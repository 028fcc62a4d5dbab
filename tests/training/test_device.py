"""Training on a GPU: the double, and a real one where there is one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

from pfl_audit.models.vt5.checkpoint import load_vt5
from pfl_audit.training.optimizers import make_optimizer
from pfl_audit.training.pretraining import Pretraining
from pfl_audit.training.settings import TrainSettings
from pfl_audit.training.state import RunState, restore_state, save_state
from tests.fake_gpu import GPUS, gpu
from tests.training.federated.conftest import PRIVATE, QUICK, Federate, federate

__all__ = ["federate"]
SHORT = replace(QUICK, rounds=1, local_steps=1, batch_size=2, validate_every=9, validation_queries=2, optimizer="sgd")
CENTRAL = TrainSettings(steps=2, batch_size=2, save_every=1, validate_every=9, validation_queries=2)


def test_steps_of_a_fused_optimiser_are_restored_on_its_device(tmp_path: Path) -> None:
    """A fused kernel on a GPU reads them there; the device "meta" replaces the GPU."""
    network = nn.Linear(2, 1)
    optimizer = make_optimizer("adamw", list(network.parameters()), 1e-3, 0.0)
    network(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    save_state(tmp_path / "state", "run", RunState(step=1), network, optimizer)
    other = nn.Linear(2, 1, device="meta")
    for name, kept in (("adamw", "meta"), ("adafactor", "cpu")):
        restored = make_optimizer(name, list(other.parameters()), 1e-3, 0.0)
        restore_state(tmp_path / "state", "run", other, restored)
        assert {str(state["step"].device) for state in restored.state.values()} == {kept}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kind", GPUS)
@pytest.mark.parametrize("mode", ["central", "fl", "central-dp"])
def test_the_weights_are_those_of_the_cpu(mode: str, kind: str, federate: Federate) -> None:
    """With self-pretraining and added tokens, or adapters and noise; a real GPU draws other dropout."""

    def weights(name: str, device: str) -> dict[str, torch.Tensor]:
        federate(
            name,
            mode,
            replace(PRIVATE, provider_rate=0.2) if mode == "central-dp" else None,
            CENTRAL if mode == "central" else SHORT,
            device=device,
            pretraining=Pretraining("tm", pretrain_rounds=1) if mode == "fl" else None,
            lora=2 if mode == "central-dp" else 0,
        )
        return federate.weights(name)

    true = weights("cpu", "cpu")
    with gpu(kind):
        found = weights("gpu", "cuda")
    assert found.keys() == true.keys()
    before = load_vt5(federate.start).network.state_dict()
    assert any(not torch.equal(part, true[name]) for name, part in before.items() if part.shape == true[name].shape)
    assert max(float((found[name] - part).abs().max()) for name, part in true.items()) < (
        1e-4 if kind == "double" else 2e-3
    )
