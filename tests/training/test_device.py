"""Training on a GPU: the double, and a real one where there is one."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from pfl_audit.models.vt5.checkpoint import load_vt5
from pfl_audit.training.pretraining import Pretraining
from pfl_audit.training.settings import TrainSettings
from tests.fake_gpu import GPUS, gpu
from tests.training.federated.conftest import PRIVATE, QUICK, Federate, federate

__all__ = ["federate"]
SHORT = replace(QUICK, rounds=1, local_steps=1, batch_size=2, validate_every=9, validation_queries=2, optimizer="sgd")
CENTRAL = TrainSettings(steps=2, batch_size=2, save_every=1, validate_every=9, validation_queries=2)


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
