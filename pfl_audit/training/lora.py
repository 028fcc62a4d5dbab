"""Low-rank adapters; each model family states where they are placed (``TrainableModel.adapters``)."""

from __future__ import annotations

import warnings
from pathlib import Path
from types import ModuleType
from typing import Never

import torch

from pfl_audit.errors import UsageError
from pfl_audit.files import make_folder
from pfl_audit.models.training_protocol import TrainableModel
from pfl_audit.training.trainable import Trainable

ALPHA = 16
"""Scale of the adapters, times one over their rank."""


class Adapters:
    """Low-rank adapters in a network.

    Args:
        model: Model whose network gets the adapters, in place; the trainable parameters are marked.
        rank: Rank of the adapters, 1 or more.
        seed: Seed of their random halves; the others begin at zero.
        parts: What is trained: all (adapters, and the submodules that the family trains whole beside them), adapters,
            or up: the halves that begin at zero (FFA-LoRA; Sun et al. 2024, "Improving LoRA in Privacy-Preserving
            Federated Learning", section 3), half the numbers, and noise is not multiplied with noise.
        dropout: Share of the inputs of adapters that is set to zero in training.

    Attributes:
        trainable: What is trained.

    Raises:
        UsageError: The rank is not positive, the model takes no adapters, or peft is not installed.
    """

    def __init__(
        self, model: TrainableModel[Never], rank: int, *, seed: int, parts: str = "all", dropout: float = 0.1
    ) -> None:
        if rank < 1:
            raise UsageError("the rank of LoRA must be 1 or more", "Correct --lora")
        if model.adapters is None:
            raise UsageError("this model takes no adapters", "Leave out --lora")
        peft, layout, network = _peft(), model.adapters, model.network
        settings = peft.LoraConfig(r=rank, lora_alpha=ALPHA, lora_dropout=dropout, target_modules=list(layout.targets))
        network.requires_grad_(False)
        self._network = network
        with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # peft asks transformers for an old name
            torch.manual_seed(seed)
            self._wrapped = peft.get_peft_model(network.get_submodule(layout.module), settings)
        for name in layout.whole if parts == "all" else ():
            network.get_submodule(name).requires_grad_(True)
        if parts == "up":
            for name, parameter in network.named_parameters():
                parameter.requires_grad_(".lora_B." in name)
        self.trainable = Trainable(network)

    def save(self, folder: Path) -> None:
        """Write the adapters by themselves, in peft's files, readable by the owner only."""
        make_folder(folder, private=True)
        self._wrapped.save_pretrained(str(folder))
        (folder / "README.md").unlink(missing_ok=True)
        for path in folder.iterdir():
            path.chmod(0o600)

    def merge(self) -> None:
        """Add the adapters to the weights below them: the network is an ordinary one again."""
        self._wrapped.merge_and_unload()
        self._network.requires_grad_(True)


def _peft() -> ModuleType:
    try:
        import peft
    except ImportError as error:
        raise UsageError("--lora needs peft", "Install it: pip install 'pfl-audit[lora]'") from error
    return peft
