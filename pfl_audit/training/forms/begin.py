"""Form encoders to begin with: from nothing, or with what a checkpoint has learnt."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, get_args

import torch
from torch import Tensor

from pfl_audit.errors import AuditError, UsageError
from pfl_audit.models.encoders.checkpoint import build, own_tensors, read_text_names
from pfl_audit.models.encoders.config import SECTION, EncoderConfig, VisualConfig, config_from_dict
from pfl_audit.models.encoders.kinds import TrainedBackbone
from pfl_audit.models.encoders.network import FormEncoder
from pfl_audit.models.weights import read_config
from pfl_audit.training.forms.settings import FormTrainSettings

_WITHOUT_DROPOUT: Final = {
    "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "classifier_dropout_prob": 0.0,
}  # fmt: skip
SIZES: Final[Mapping[str, Mapping[str, Any]]] = {
    "tiny": {
        "hidden": 128, "layers": 2, "heads": 4, "intermediate": 512, "text": _WITHOUT_DROPOUT,
        "visual": VisualConfig(stem=8, channels=(8, 16, 32), side=112),
    },
    "small": {
        "hidden": 256, "layers": 4, "heads": 4, "intermediate": 1024, "text": _WITHOUT_DROPOUT,
        "visual": VisualConfig(),
    },
    "base": {
        "hidden": 768, "layers": 12, "heads": 12, "intermediate": 3072, "text": {},
        "visual": VisualConfig(stem=64, channels=(64, 128, 256, 512), depths=(2, 2, 2, 2)),
    },
}  # fmt: skip
"""``tiny`` and ``small`` are stand-ins that a CPU trains in minutes; ``base`` has the sizes of the released models,
and with ``bimodal`` those of a ResNet-18."""
_PREFIX = re.compile(r"^(bert|layoutlm|bros)\.")
_TAKEN = ("embeddings.", "encoder.", "bbox_embeddings.", "cls.predictions.", "visual.")
_WORDS = "embeddings.word_embeddings.weight"
_POSITIONS = "embeddings.position_embeddings.weight"


def new_encoder(settings: FormTrainSettings, labels: tuple[str, ...], vocabulary: int) -> FormEncoder:
    """An encoder with random weights, the same for the same seed; chance elsewhere is left as it was.

    Args:
        settings: Size, task, backbone, modality, longest window and seed.
        labels: Field labels that it distinguishes.
        vocabulary: Pieces of its tokenizer.

    Raises:
        UsageError: There is no such size, or the settings make no network.
    """
    if settings.size not in SIZES:
        raise UsageError(f"there is no size '{settings.size}'", f"Choose one of: {', '.join(SIZES)}")
    config = _config(settings, labels, {**SIZES[settings.size], "vocabulary": vocabulary})
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.seed)
        return FormEncoder(config)


def encoder_from(settings: FormTrainSettings, labels: tuple[str, ...], start: Path) -> Started:
    """An encoder that begins with a checkpoint of any backbone and task, in its sizes; the same for the same seed.

    Args:
        settings: Task, backbone, modality, longest window and seed.
        labels: Field labels that it distinguishes.

    Raises:
        UsageError: The settings make no network of its sizes, or it is of another backbone.
        AuditError: It cannot be opened, or its tensors do not fit (they are named).
    """
    values = read_config(start)
    section = values.get(SECTION, {})
    if isinstance(section, Mapping):  # its own head does not count
        values = {**values, SECTION: {**section, "task": "mlm", "labels": []}}
    given = config_from_dict(values, frozenset(), start)
    names = ("hidden", "layers", "heads", "intermediate", "vocabulary", "positions", "text")
    if given.backbone not in get_args(TrainedBackbone):
        raise UsageError(
            f"{start}: training does not begin with a {given.backbone}", "Give a BERT, LayoutLM or BROS checkpoint"
        )
    sizes = {name: getattr(given, name) for name in names}
    sizes["text"] = {name: value for name, value in given.text.items() if name != "tie_word_embeddings"}
    config = _config(settings, labels, {**sizes, "visual": given.visual or VisualConfig()})
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.seed)
        return start_from(config, start)


def _config(settings: FormTrainSettings, labels: tuple[str, ...], sizes: dict[str, Any]) -> EncoderConfig:
    if settings.modality == "unimodal":
        del sizes["visual"]
    try:
        return EncoderConfig(
            backbone=settings.backbone,
            task=settings.task,
            modality=settings.modality,
            labels=labels,
            max_tokens=settings.max_tokens,
            labelled_tokens=settings.labelled_tokens,
            **sizes,
        )
    except ValueError as error:
        raise UsageError(
            f"no encoder can be made: {error}", "Correct the settings or the labels of the forms"
        ) from error


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
