"""A new encoder initialised from another checkpoint."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from pfl_audit.errors import AuditError
from pfl_audit.models.encoders.checkpoint import build, own_tensors, read_text_names
from pfl_audit.models.encoders.config import EncoderConfig
from pfl_audit.models.encoders.network import FormEncoder

_PREFIX = re.compile(r"^(bert|layoutlm|bros)\.")
_TAKEN = ("embeddings.", "encoder.", "bbox_embeddings.", "cls.predictions.", "visual.")
_WORDS = "embeddings.word_embeddings.weight"
_POSITIONS = "embeddings.position_embeddings.weight"


@dataclass(frozen=True)
class Started:
    """A network and the sources of its weights.

    Attributes:
        network: In training mode.
        taken: Names of the tensors that the checkpoint gave.
        fresh: Names of those that are new.
        untied: Whether the checkpoint has an output layer of its own, which is not taken.
    """

    network: FormEncoder
    taken: tuple[str, ...]
    fresh: tuple[str, ...]
    untied: bool = False

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on the tensors that were taken and those that are new, one sentence each."""
        parts = sorted({".".join(_PREFIX.sub("", name).split(".")[:2]) for name in self.fresh})
        notes = [f"{len(self.taken)} tensors taken from the checkpoint"]
        if parts:
            notes.append(f"{len(self.fresh)} tensors are new: {', '.join(parts)}")
        if self.untied:
            notes.append("the checkpoint's output layer is left out: the embedding's is used")
        return tuple(notes)


def start_from(config: EncoderConfig, folder: Path) -> Started:
    """An encoder whose text side comes from a BERT, LayoutLM or BROS checkpoint, or from one of ours.

    Its page side and its masked-language head are taken as well where they are there and fit. Heads of other tasks
    are new, as are layers that the checkpoint does not have. New weights come from torch's global random generator.

    Raises:
        AuditError: No such checkpoint, or another size (the tensor is named).
    """
    state = {_PREFIX.sub("", name): tensor for name, tensor in read_text_names(folder).items()}
    if _WORDS not in state:
        raise AuditError(
            f"{folder} has no text side to begin with ({_WORDS})", "Give a BERT, LayoutLM or BROS checkpoint"
        )
    with torch.device("meta"):
        build(config, folder)  # refuses with a clear line what would not build below
    network = FormEncoder(config)
    taken: list[str] = []
    fresh: list[str] = []
    for name, tensor in own_tensors(network).items():
        given = _fitting(_PREFIX.sub("", name), tensor, state, folder)
        if given is None:
            fresh.append(name)
        else:
            with torch.no_grad():
                tensor.copy_(given)
            taken.append(name)
    decoder = state.get("cls.predictions.decoder.weight")
    untied = config.task == "mlm" and decoder is not None and not torch.equal(decoder, state[_WORDS])
    return Started(network, tuple(taken), tuple(fresh), untied)


def _fitting(name: str, tensor: Tensor, state: dict[str, Tensor], folder: Path) -> Tensor | None:
    """The checkpoint's tensor of this name, or None if there is none that fits."""
    given = state.get(name)
    if given is None or not name.startswith(_TAKEN):
        return None
    if name == _POSITIONS and given.dim() == 2 and len(given) > len(tensor):
        given = given[: len(tensor)]
    if given.shape == tensor.shape:
        return given
    if name.startswith("visual."):
        return None
    raise AuditError(
        f"{folder}: {name} is {tuple(given.shape)}, and the new encoder needs {tuple(tensor.shape)}",
        "Give the new encoder the checkpoint's own sizes and tokenizer",
    )
