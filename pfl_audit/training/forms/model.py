"""Form encoders as a TrainableModel: batches of windows as examples, F1 or accuracy as validation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pfl_audit.documents.forms.form import Form
from pfl_audit.models.encoders.batch import FormBatch, collate
from pfl_audit.models.encoders.checkpoint import LoadedEncoder, save_encoder
from pfl_audit.models.encoders.config import EncoderConfig
from pfl_audit.models.encoders.labels import labels_of, mask_tokens
from pfl_audit.models.encoders.pages import PageReader
from pfl_audit.models.encoders.tokens import FormTokenizer
from pfl_audit.models.form_protocol import Window
from pfl_audit.progress import Progress
from pfl_audit.training.forms.scores import Counts, score

_VALIDATION_MASK = 0
"""Seed of the mask of the validation windows: the same every epoch and for every run."""


class FormExamples:
    """Windows of forms as training examples; for ``mlm`` tokens are masked anew whenever a batch is drawn.

    Args:
        windows: Windows to train on.
    """

    page_bytes = 0
    """Pages are read as they are needed."""

    def __init__(self, model: TrainableEncoder, windows: Sequence[Window]) -> None:
        self._model, self._windows = model, windows
        self._rng = torch.Generator()

    def __len__(self) -> int:
        return len(self._windows)

    def length(self, row: int) -> int:
        """Number of tokens of a window."""
        return len(self._windows[row].ids)

    def loss(self, rows: Sequence[int]) -> Tensor:
        """The mean over the windows of their losses, float ()."""
        batch = self._model.maker.batch([self._windows[row] for row in rows], self._rng)
        return self._model.network.loss(batch.to(self._model.device)).mean()

    def reseed(self, seed: int) -> None:
        """Seed the generator of masked tokens."""
        self._rng.manual_seed(seed)


class TrainableEncoder:
    """A form encoder under training; all of its parameters are trained.

    Args:
        batch_size: Windows in a batch of a validation.
    """

    page_encoder = None
    adapters = None
    points = False

    def __init__(self, loaded: LoadedEncoder, device: str, batch_size: int) -> None:
        self.network = loaded.network.to(device)
        self.maker = ExampleMaker(loaded.config, loaded.tokenizer)
        self.device = device
        self._loaded, self._batch_size = loaded, batch_size

    def is_frozen(self, name: str) -> bool:
        """No parameter is frozen."""
        return False

    def length(self, window: Window) -> int:
        """Number of tokens of a window."""
        return len(window.ids)

    def can_write(self, text: str) -> bool:
        """A form encoder writes no answers."""
        return False

    def examples(self, windows: Sequence[Window], progress: Progress, cache: Path | None = None) -> FormExamples:
        """Windows as examples; nothing is computed ahead."""
        return FormExamples(self, windows)

    def validate(self, windows: Sequence[Window]) -> dict[str, float]:
        """Mean loss over windows (at least one), and ``accuracy`` (see MEASURE); masks are the same every time."""
        self.network.eval()
        rng = torch.Generator().manual_seed(_VALIDATION_MASK)
        ordered = sorted(windows, key=self.length)
        losses: list[float] = []
        counts = Counts()
        for at in range(0, len(ordered), self._batch_size):
            batch = self.maker.batch(ordered[at : at + self._batch_size], rng).to(self.device)
            some, found = score(self.network, batch)
            losses += some
            counts += found
        return {"validation_loss": sum(losses) / len(losses), "accuracy": counts.f1}

    def save(self, folder: Path, records: Mapping[str, Any], *, half: bool) -> None:
        """Write a checkpoint."""
        save_encoder(self._loaded, folder, dtype=torch.float16 if half else torch.float32, extra=records)


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
