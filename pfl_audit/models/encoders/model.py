"""A form encoder as a FormModel: attempts are evaluated in batches, each independently of the others."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TypeVar, Unpack

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pfl_audit.documents.forms.form import Form
from pfl_audit.errors import AuditError
from pfl_audit.models.batch_budget import BatchBudget
from pfl_audit.models.device import arithmetic_of, computing, release_memory
from pfl_audit.models.encoders.batch import FormBatch, collate
from pfl_audit.models.encoders.checkpoint import LoadedEncoder, open_encoder
from pfl_audit.models.encoders.config import POINTING, EncoderConfig
from pfl_audit.models.encoders.labels import WindowLabels, known_label, labels_at, labels_of, map_labels
from pfl_audit.models.encoders.pages import PageFeatureCache
from pfl_audit.models.family import FLOATS, FormOptions, Precision
from pfl_audit.models.form_protocol import Attempt, Blank, TokenIds
from pfl_audit.models.memory import keep_freed_memory
from pfl_audit.models.opened import OpenedCheckpoint
from pfl_audit.models.protocol import Capability
from pfl_audit.models.weights import fingerprint_files

T = TypeVar("T")

ADAPTER_VERSION = 2
"""Incremented whenever the adapter's results change, so that stored losses are not reused."""

_BATCH_TOKENS = 8192
"""Tokens of a batch where nothing else is asked for."""


class EncoderModel(OpenedCheckpoint):
    """A form encoder ready for an audit.

    Args:
        files: File name to SHA-256 of what it was opened from.
        folder: Checkpoint folder, for the report.
        visual_noise: Seed of Gaussian noise that replaces every page image (CDMI, section 6.2), or None.
        precision: Floating-point type of the backbone and the head; page features and losses are float32 either way.
        label_map: Field label of the forms to a tag of the head, where the names differ.
        batch_tokens: Largest number of tokens in a batch, patches and padding included; None for the own limit.

    Attributes:
        batch_budget: Batches that the memory of the device has room for.

    Raises:
        UsageError: The label map names a tag that the head does not have.
    """

    def __init__(
        self,
        loaded: LoadedEncoder,
        files: dict[str, str],
        folder: Path,
        device: str = "cpu",
        visual_noise: int | None = None,
        precision: Precision = "fp32",
        label_map: Mapping[str, str] | None = None,
        batch_tokens: int | None = None,
    ) -> None:
        keep_freed_memory()
        self.network = loaded.network.to(device).eval()
        self.tokenizer = loaded.tokenizer
        self.config: EncoderConfig = map_labels(loaded.config, label_map or {})
        self._device = torch.device(device)
        self._precision: Precision = precision
        self.batch_budget = BatchBudget(batch_tokens, self._release, device)
        self.family, self.task = self.config.backbone, self.config.task
        own = Capability.TOKENS if self.task == "mlm" else Capability.LOSS_ESTIMATES
        self.capabilities = frozenset({Capability.FORM_LOSS, own})
        self.vocabulary = self.tokenizer.vocabulary
        self.sees_page = self.config.page_side is not None
        self._page_features = PageFeatureCache(self.network, self._device, visual_noise) if self.sees_page else None
        itself = self.config.visual is None and self.sees_page
        seen = "sees the page itself" if itself else self.config.modality
        notes = (
            f"{self.task}, {seen}, {FLOATS[precision]}",
            *(["page features of noise"] if visual_noise is not None else []),
            *loaded.notes,
        )
        elsewhere = [arithmetic_of(device, precision)] if self._device.type != "cpu" else []
        arithmetic = (FLOATS[precision], *elsewhere, *_later_settings(self.config))
        settings = (self.tokenizer.fingerprint, visual_noise, *arithmetic)
        self.identify(folder, files, ADAPTER_VERSION, notes, *settings)
        self._closed = ~np.isin(np.arange(len(self.vocabulary)), self.tokenizer.ordinary)

    def require_labels(self, labels: Collection[str]) -> tuple[str, ...]:
        """Field labels that an entity head does not have, and reads as outside of fields.

        Raises:
            AuditError: It has none of them; the message names some.
        """
        if self.task not in ("ee-bio", "ee-spade"):
            return ()
        outside = tuple(label for label in sorted(labels) if known_label(label, self.config) is None)
        if outside and len(outside) == len(labels):
            raise AuditError(
                f"the model knows no field label of the forms ({', '.join(outside)[:200]}), only "
                f"{', '.join(self.config.labels)[:200]}",
                "Name the tag of each label with --label-map NAME=TAG",
            )
        return outside

    def blanks(self, form: Form) -> list[tuple[Blank, tuple[int, ...]]]:
        """Each field of a form scrubbed in turn, with its true ids, in the order of the fields.

        Left out are fields that no window holds whole, and fields that the tokenizer loses: of which no token is
        left, or one that is unknown to it.
        """
        windows = self.tokenizer.windows(form, self.config.max_tokens)
        blanks = [self.tokenizer.scrub(window, span) for window in windows for span in window.spans]
        return [(blank, truth) for blank, truth in blanks if self.tokenizer.unk not in truth]

    @torch.no_grad()
    def token_logits(self, attempts: Sequence[Attempt]) -> NDArray[np.float32]:
        """Logits of the next open token of each attempt, float32 (attempts, vocabulary).

        Special and unused tokens get minus infinity.

        Raises:
            AuditError: The model computes what is no number, or a page image cannot be used.
            ValueError: The task is not ``mlm``, or an attempt has no open token.
        """
        if self.task != "mlm":
            raise ValueError(f"a model for {self.task} has no logits of tokens")
        out = np.empty((len(attempts), len(self.vocabulary)), dtype=np.float32)
        places = [_open_place(attempt) for attempt in attempts]

        def logits(rows: Sequence[int]) -> Sequence[NDArray[np.float32]]:
            batch = self._batch([attempts[row].blank for row in rows], [_filled(attempts[row]) for row in rows])
            with self._computing():
                hidden = self.network.hidden(batch)
                at = torch.tensor([places[row] for row in rows], device=self._device)
                found = self.network.class_logits(hidden[torch.arange(len(rows), device=self._device), at])
            return list(_checked(found)[:, : len(self.vocabulary)])

        for rows, values in self._evaluated([attempt.blank for attempt in attempts], logits):
            out[rows] = values
        out[:, self._closed] = -np.inf
        return out

    @torch.no_grad()
    def losses(self, attempts: Sequence[Attempt]) -> NDArray[np.float64]:
        """The training loss at the last token of each attempt, float64 (attempts,): not averaged over anything.

        The attempt's tokens are filled in, the others of the field stay masked, and the label is that of the last
        token filled in (CDMI, section 3.1: "the token-level loss", and section 4.2, step 2); where the task says
        nothing of it, and before the first, it is the mean over the window's labels. Of ``mlm``, whose labels are the
        tokens themselves, the whole field stays masked, and it is the mean cross-entropy of the attempt's tokens; 0
        where there are none.

        Raises:
            AuditError: The model computes what is no number, or a page image cannot be used.
        """
        if self.task == "mlm":
            return self._masked_losses(attempts)
        labels = self._labels(attempts)
        out = np.empty(len(attempts), dtype=np.float64)

        def losses(rows: Sequence[int]) -> Sequence[np.float32]:
            batch = self._batch(
                [attempts[row].blank for row in rows],
                [_filled(attempts[row]) for row in rows],
                [_label(attempts[row], labels[id(attempts[row].blank)]) for row in rows],
            )
            with self._computing():
                found = self.network.loss(batch)
            return list(_checked(found))

        for rows, values in self._evaluated([attempt.blank for attempt in attempts], losses):
            out[rows] = values
        return out

    @torch.no_grad()
    def estimated_losses(self, attempts: Sequence[Attempt]) -> NDArray[np.float32]:
        """Estimate of the loss with each token in place of the next open one, to first order.

        It is the loss with the mask there, plus its gradient by the mask's embedding times the difference of the two
        embeddings. The label is that of the open token, as for ``losses`` once the token is filled in.

        Returns:
            float32 (attempts, vocabulary); plus infinity for special and unused tokens.

        Raises:
            AuditError: As for ``losses``.
            ValueError: The task is ``mlm``, whose loss needs no estimate, or an attempt has no open token.
        """
        if self.task == "mlm":
            raise ValueError("a model for mlm gives logits of tokens")
        labels = self._labels(attempts)
        places = [_open_place(attempt) for attempt in attempts]
        out = np.empty((len(attempts), len(self.vocabulary)), dtype=np.float32)

        def estimates(rows: Sequence[int]) -> Sequence[NDArray[np.float32]]:
            batch = self._batch(
                [attempts[row].blank for row in rows],
                [_filled(attempts[row]) for row in rows],
                [labels_at(labels[id(attempts[row].blank)], places[row]) for row in rows],
            )
            found = self._estimates(batch, torch.tensor([places[row] for row in rows], device=self._device))
            return list(_checked(found)[:, : len(self.vocabulary)])

        for rows, values in self._evaluated([attempt.blank for attempt in attempts], estimates):
            out[rows] = values
        out[:, self._closed] = np.inf
        return out

    def _estimates(self, batch: FormBatch, places: Tensor) -> Tensor:
        """By window and token in its place, float32 (b, vocabulary)."""
        seen: list[Tensor] = []

        def follow(_: torch.nn.Module, __: object, embedded: Tensor) -> Tensor:
            seen.append(embedded.detach().requires_grad_())
            return seen[-1]

        hook = self.network.words.register_forward_hook(follow)
        try:
            with torch.enable_grad(), self._computing():
                losses = self.network.loss(batch)
                (gradient,) = torch.autograd.grad(losses.sum(), seen)
        finally:
            hook.remove()
        here = gradient[torch.arange(len(places), device=self._device), places]
        table = self.network.words.weight
        masked = (here * table[self.tokenizer.mask]).sum(dim=1, keepdim=True)
        return losses.detach()[:, None] + here @ table.T - masked

    def _labels(self, attempts: Sequence[Attempt]) -> dict[int, WindowLabels]:
        """Labels of each window, by the id of its blank."""
        blanks = {id(attempt.blank): attempt.blank for attempt in attempts}
        return {name: labels_of(blank.window, self.config) for name, blank in blanks.items()}

    def _masked_losses(self, attempts: Sequence[Attempt]) -> NDArray[np.float64]:
        """One pass per blank serves all attempts at it, since the network sees none of them."""
        blanks = list({id(attempt.blank): attempt.blank for attempt in attempts}.values())
        by_blank: dict[int, list[int]] = {id(blank): [] for blank in blanks}
        for number, attempt in enumerate(attempts):
            by_blank[id(attempt.blank)].append(number)
        out = np.zeros(len(attempts), dtype=np.float64)

        def surprises(rows: Sequence[int]) -> Sequence[NDArray[np.float32]]:
            some = [blanks[row] for row in rows]
            batch = self._batch(some, [blank.window.ids for blank in some])
            with self._computing():
                hidden = self.network.hidden(batch)
                fields = [hidden[row, blank.span.start : blank.span.stop] for row, blank in enumerate(some)]
                logits = self.network.class_logits(torch.cat(fields))
            found = _checked(-logits.float().log_softmax(dim=-1))
            return np.split(found, np.cumsum([blank.length for blank in some])[:-1])

        for rows, values in self._evaluated(blanks, surprises):
            for row, of_tokens in zip(rows, values, strict=True):
                for number in by_blank[id(blanks[row])]:
                    tokens = list(attempts[number].tokens)
                    if tokens:
                        out[number] = of_tokens[np.arange(len(tokens)), tokens].mean()
        return out

    def _evaluated(
        self, blanks: Sequence[Blank], call: Callable[[Sequence[int]], Sequence[T]]
    ) -> Iterator[tuple[list[int], Sequence[T]]]:
        """Batches of blanks by index with what a call gives for them; smaller ones where memory runs out."""
        beside = self.config.page_tokens
        for rows in self._chunks(blanks):
            yield rows, self.batch_budget.run(rows, lambda row: len(blanks[row].window.ids) + beside, call)

    def _release(self) -> None:
        if self._page_features is not None:
            self._page_features.forget()
        release_memory(str(self._device))

    def _chunks(self, blanks: Sequence[Blank]) -> Iterator[list[int]]:
        """Batches of blanks by index: of similar length, limited by the number of tokens."""
        lengths = [len(blank.window.ids) for blank in blanks]
        beside = self.config.page_tokens
        if lengths and max(lengths) > self.config.longest:
            raise AuditError(
                f"a window has {max(lengths)} tokens, and the {self.family} model reads {self.config.longest}",
                "Give models that read windows of one length",
            )
        places: dict[int, int] = {}  # BROS's geometry is shared by rows of one window, and costs the most
        if self.config.backbone == "bros":
            places = {name: number for number, name in enumerate(dict.fromkeys(id(b.window.boxes) for b in blanks))}
        kinds = [(-lengths[row], places.get(id(blank.window.boxes), 0)) for row, blank in enumerate(blanks)]
        chunk: list[int] = []
        for row in sorted(range(len(blanks)), key=lambda row: (kinds[row], row)):
            first = chunk[0] if chunk else row
            cost = lengths[first] + beside
            full = len(chunk) >= self.batch_budget.size(cost, _BATCH_TOKENS // cost)
            if full or kinds[first][1] != kinds[row][1]:
                yield chunk
                chunk = []
            chunk.append(row)
        if chunk:
            yield chunk

    def _batch(
        self, blanks: Sequence[Blank], ids: Sequence[TokenIds], labels: Sequence[WindowLabels] | None = None
    ) -> FormBatch:
        features, page = self._page_features.features_of(blanks) if self._page_features is not None else (None, None)
        windows = [blank.window for blank in blanks]
        batch = collate(windows, ids=ids, labels=labels, features=features, page=page, pad=self.tokenizer.pad)
        return batch.to(self._device)

    def _computing(self) -> AbstractContextManager[None]:
        return computing(str(self._device), self._precision)


def open_form_model(folder: Path, device: str = "cpu", **options: Unpack[FormOptions]) -> EncoderModel:
    """Open a checkpoint folder as a form model."""
    opened = open_encoder(folder)  # first: it refuses a file without reading all of it
    files = fingerprint_files(folder)
    return EncoderModel(opened, files, folder, device, **options)


def _later_settings(config: EncoderConfig) -> list[dict[str, object]]:
    """Settings that earlier versions did not have, where they change a result; so stored losses stay valid."""
    found: dict[str, object] = {}
    if config.label_map:
        found["label_map"] = dict(config.label_map)
    if config.task in POINTING and config.labelled_tokens == "word-starts":
        found["labelled_tokens"] = config.labelled_tokens
    if not config.text.get("tie_word_embeddings", True):
        found["tie_word_embeddings"] = False
    return [found] if found else []


def _filled(attempt: Attempt) -> TokenIds:
    ids = attempt.blank.window.ids.copy()
    start = attempt.blank.span.start
    ids[start : start + len(attempt.tokens)] = attempt.tokens
    return ids


def _open_place(attempt: Attempt) -> int:
    """Place of the next open token in the window."""
    place = attempt.blank.span.start + len(attempt.tokens)
    if place >= attempt.blank.span.stop:
        raise ValueError("an attempt has no open token")
    return place


def _label(attempt: Attempt, labels: WindowLabels) -> WindowLabels:
    """The label of the last token that is filled in."""
    return labels_at(labels, attempt.blank.span.start + len(attempt.tokens) - 1) if attempt.tokens else labels


def _checked(values: Tensor) -> NDArray[np.float32]:
    if not bool(torch.isfinite(values).all()):
        raise AuditError("the model computes NaN or infinite values", "Check how it was trained or exported")
    return values.float().cpu().numpy()
