"""Batches of forms for training and validation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch

from pfl_audit.documents.forms.form import Form
from pfl_audit.models.encoders.batch import FormBatch, collate
from pfl_audit.models.encoders.config import EncoderConfig
from pfl_audit.models.encoders.labels import labels_of, mask_tokens
from pfl_audit.models.encoders.pages import PageReader
from pfl_audit.models.encoders.tokens import FormTokenizer
from pfl_audit.models.form_protocol import Window


class ExampleMaker:
    """Makes labelled batches."""

    def __init__(self, config: EncoderConfig, tokenizer: FormTokenizer) -> None:
        self.config = config
        self.tokenizer = tokenizer
        self._pages = PageReader(config.page_side) if config.page_side is not None else None

    def windows(self, forms: Iterable[Form]) -> list[Window]:
        """Every window of every form, in order."""
        return [window for form in forms for window in self.tokenizer.windows(form, self.config.max_tokens)]

    def batch(self, windows: Sequence[Window], generator: torch.Generator | None = None) -> FormBatch:
        """Windows with their labels, and with page images if the encoder is bimodal.

        Args:
            windows: At least one.
            generator: For ``mlm``, of what is masked; the same state masks the same.

        Raises:
            AuditError: A label that the model does not know, or a page image that cannot be used.
            ValueError: ``mlm`` without a generator.
        """
        ids = None
        if self.config.task == "mlm":
            if generator is None:
                raise ValueError("mlm needs a generator")
            masked = [mask_tokens(window.ids, self.tokenizer, generator) for window in windows]
            ids, labels = [hidden for hidden, _ in masked], [label for _, label in masked]
        else:
            labels = [labels_of(window, self.config) for window in windows]
        if self._pages is None:
            return collate(windows, ids=ids, labels=labels, pad=self.tokenizer.pad)
        forms = list({id(window.form): window.form for window in windows}.values())
        place = {id(form): number for number, form in enumerate(forms)}
        return collate(
            windows,
            ids=ids,
            labels=labels,
            pixels=torch.stack([self._pages.pixels(form) for form in forms]),
            page=[place[id(window.form)] for window in windows],
            pad=self.tokenizer.pad,
        )
