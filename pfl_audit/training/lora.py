"""Low-rank adapters, as the winners of the competition placed them (pfl-docvqa-competition, 4.3 and appendix C).

Adapters stand on the query and value projections of the T5. The spatial embedding and the projection of
the page are trained whole, and everything else is frozen.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import torch

from pfl_audit.errors import UsageError
from pfl_audit.models.vt5.modeling import Vt5
from pfl_audit.training.trainable import Trainable

ALPHA = 16
"""Scale of the adapters, times one over their rank."""
_DROPOUT = 0.1
_TARGETS = ["q", "v"]


class Adapters:
    """Adapters in a network.

    Args:
        network: Gets them, in place; what is trainable is marked.
        rank: Of the adapters, 1 or more.
        seed: Of their random halves; the others begin at zero.

    Attributes:
        trainable: The adapters, the spatial embedding and the projection of the page.

    Raises:
        UsageError: The rank is not positive, or peft is not installed.
    """

    def __init__(self, network: Vt5, rank: int, *, seed: int) -> None:
        if rank < 1:
            raise UsageError("the rank of LoRA must be 1 or more", "Correct --lora")
        peft = _peft()
        settings = peft.LoraConfig(r=rank, lora_alpha=ALPHA, lora_dropout=_DROPOUT, target_modules=_TARGETS)
        network.requires_grad_(False)
        self._network = network
        with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # peft asks transformers for an old name
            torch.manual_seed(seed)
            self._wrapped: Any = peft.get_peft_model(network.language_backbone, settings)
        network.spatial_embedding.requires_grad_(True)
        network.visual_embedding.visual_emb_matcher.requires_grad_(True)
        self.trainable = Trainable(network)

    def save(self, folder: Path) -> None:
        """Keep the adapters by themselves, in peft's files."""
        self._wrapped.save_pretrained(str(folder))
        (folder / "README.md").unlink(missing_ok=True)

    def merge(self) -> None:
        """Take the adapters into the weights that they stand on: the network is an ordinary one again."""
        self._network.language_backbone = self._wrapped.merge_and_unload()
        self._network.requires_grad_(True)


def _peft() -> Any:
    try:
        import peft
    except ImportError as error:
        raise UsageError("--lora needs peft", "Install it: pip install 'pfl-audit[lora]'") from error
    return peft
