"""What transformers' auto classes open and no family of its own recognises. Imports no torch."""

from __future__ import annotations

from pathlib import Path

from pfl_audit.models.auto.kinds import kind_of
from pfl_audit.models.family import Settings
from pfl_audit.models.protocol import QUESTIONS, Capability, DocumentModel


class AutoFamily:
    """Text models, vision-language models, UDOP and Pix2Struct of transformers, and LoRA adapters of them."""

    name = "transformers"
    precedence = 900
    """After every family with a loader of its own."""
    takes_adapters = True

    def recognises(self, config: Settings, tensors: frozenset[str]) -> bool:
        """Whether an auto class that writes text opens the model type."""
        return kind_of(config) is not None

    def way(self, config: Settings) -> str:
        """How it is asked: the kind, the auto class and the default prompt."""
        kind = kind_of(config)
        return f"as {kind.name} through {kind.auto}, by the prompt: {kind.prompt}" if kind else ""

    def capabilities(self, config: Settings, tensors: frozenset[str]) -> frozenset[Capability]:
        """Answers with their probabilities."""
        return QUESTIONS | {Capability.GUESSES}

    def open(self, folder: Path, *, device: str) -> DocumentModel:
        """Open a checkpoint with the default prompt of its kind."""
        return self.open_prompted(folder, device=device, prompt=None)

    def open_prompted(self, folder: Path, *, device: str, prompt: str | None) -> DocumentModel:
        """Open a checkpoint with a prompt template."""
        from pfl_audit.models.auto.model import AutoModel

        return AutoModel(folder, device, prompt)


FAMILY = AutoFamily()
