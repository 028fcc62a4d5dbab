"""The family of form encoders: LayoutLM, BROS, BERT and RoBERTa with a head for masked tokens, entities or links."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from pfl_audit.models.family import FormOptions, Settings
from pfl_audit.models.protocol import Capability

if TYPE_CHECKING:
    from pfl_audit.models.form_protocol import FormModel

_BACKBONES = ("layoutlm", "bros", "bert")
_BY_HEAD = ("roberta", "lilt", "layoutlmv3")
"""Of the family only with a head that is read."""


class EncoderFamily:
    """Form encoders, recognised by the model type in config.json."""

    name = "form-encoder"

    def recognises(self, config: Settings, tensors: frozenset[str]) -> bool:
        """Whether the backbone is one of ours, and has no head that answers questions."""
        if any(name.startswith("qa_outputs.") for name in tensors):
            return False
        kind = config.get("model_type")
        return kind in _BACKBONES or (kind in _BY_HEAD and bool(self.capabilities(config, tensors)))

    def way(self, config: Settings) -> str:
        """How it is asked."""
        return "on filled-in forms (pfl-audit reconstruct); it answers no questions"

    def capabilities(self, config: Settings, tensors: frozenset[str]) -> frozenset[Capability]:
        """The loss of forms, and tokens of a masked-language head or else estimated losses; empty without a task."""
        from pfl_audit.models.encoders.config import task_of

        try:
            task = task_of(config, tensors)
        except ValueError:
            return frozenset()
        return frozenset({Capability.FORM_LOSS, Capability.TOKENS if task == "mlm" else Capability.LOSS_ESTIMATES})

    def open_forms(self, folder: Path, *, device: str, **options: Unpack[FormOptions]) -> FormModel:
        """Open a checkpoint to read forms."""
        from pfl_audit.models.encoders.model import open_form_model

        return open_form_model(folder, device, **options)


FAMILY = EncoderFamily()
