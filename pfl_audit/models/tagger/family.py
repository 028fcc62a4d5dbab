"""Token taggers: encoders that label the words of a page, such as LayoutLM, LiLT and BERT. Imports no torch."""

from __future__ import annotations

from pathlib import Path
from typing import Unpack

from pfl_audit.errors import NotAuditableError
from pfl_audit.models.encoders.config import SECTION
from pfl_audit.models.encoders.family import FAMILY as FORMS
from pfl_audit.models.family import FormOptions, Settings
from pfl_audit.models.field_keys import listed
from pfl_audit.models.form_protocol import FormModel
from pfl_audit.models.protocol import QUESTIONS, Capability, DocumentModel
from pfl_audit.models.tagger.kinds import AUTO, tagger_kind
from pfl_audit.models.tagger.labels import read_labels
from pfl_audit.models.training_protocol import QuestionModel
from pfl_audit.models.weights import read_config


class TaggerFamily:
    """Checkpoints of ``*ForTokenClassification`` of transformers."""

    name = "token-tagger"
    precedence = 90
    """Before the form encoders, which read LayoutLM and BERT with such a head too; what they offer is offered here."""

    def recognises(self, config: Settings, tensors: frozenset[str]) -> bool:
        """Whether the auto class of token classification opens the saved class."""
        return SECTION not in config and tagger_kind(config) is not None

    def way(self, config: Settings) -> str:
        """How it is asked: the auto class and the keys."""
        try:
            keys = f"Keys: {listed(read_labels(config).keys)}"
        except ValueError as error:
            keys = f"It cannot be opened: {error}"
        asked = f"as a token tagger through {AUTO}, without a question; the answer to a query is the span of its key"
        return f"{asked}. {keys}"

    def capabilities(self, config: Settings, tensors: frozenset[str]) -> frozenset[Capability]:
        """Answers with their probabilities, training, and what form encoders offer; nothing without usable labels."""
        try:
            read_labels(config)
        except ValueError:
            return frozenset()
        forms = FORMS.capabilities(config, tensors) if FORMS.recognises(config, tensors) else frozenset()
        return QUESTIONS | {Capability.TRAINABLE} | forms

    def open(self, folder: Path, *, device: str) -> DocumentModel:
        """Open a checkpoint to tag pages."""
        from pfl_audit.models.tagger.model import TokenTagger

        return TokenTagger(folder, device)

    def open_forms(self, folder: Path, *, device: str, **options: Unpack[FormOptions]) -> FormModel:
        """Open a checkpoint to read forms, as a form encoder.

        Raises:
            NotAuditableError: It is none.
        """
        if not FORMS.recognises(read_config(folder), frozenset()):
            raise NotAuditableError(f"{folder} is no form encoder: it reads no forms", "Give a LayoutLM or a BERT")
        return FORMS.open_forms(folder, device=device, **options)

    def open_training(self, folder: Path, *, device: str, train_visual: bool) -> QuestionModel:
        """Open a checkpoint to train it further."""
        from pfl_audit.models.tagger.training import open_training

        return open_training(folder, device=device, train_visual=train_visual)


FAMILY = TaggerFamily()
