"""The kept messages of a federation, opened: a model, what the server saw, and the pages that clients trained on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import ceil
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from pfl_audit.attacks.inversion.adapters.rows import adapter_shapes, holds_adapters
from pfl_audit.attacks.inversion.analytic.limits import Cause, Limit
from pfl_audit.attacks.inversion.bag_readers import Items, reader_of, together
from pfl_audit.attacks.inversion.bound import NoiseBound
from pfl_audit.attacks.inversion.context import GradientContext, GradientParts, Observation
from pfl_audit.attacks.inversion.inputs import GRADIENT, MESSAGES, GradientInputs
from pfl_audit.attacks.inversion.opened import OpenedGradients
from pfl_audit.attacks.inversion.rounds.pages import Pages
from pfl_audit.attacks.inversion.template.template import Template, TemplateField
from pfl_audit.core.context import AuditContext, context_of
from pfl_audit.core.results import Data
from pfl_audit.core.store import Records
from pfl_audit.core.subject import AuditJob
from pfl_audit.documents.document import Query
from pfl_audit.documents.readers import open_corpus
from pfl_audit.errors import AuditError, NotAuditableError, UsageError
from pfl_audit.inputs import is_there, sha256_input
from pfl_audit.metrics.arrays import Integers
from pfl_audit.models.calls import Calls
from pfl_audit.models.gradient_protocol import GradientModel
from pfl_audit.models.open import open_gradient_model
from pfl_audit.models.openings import GradientOpening
from pfl_audit.models.safetensors_file import read_header
from pfl_audit.models.samples import Sample
from pfl_audit.models.tensor_file import read_tensors
from pfl_audit.models.word_tables import LooksUpWords, SumsWordsAndBoxes
from pfl_audit.privacy.units import UNITS
from pfl_audit.training.federated.kept import Kept, Message, kept_path, messages_of, read_record
from pfl_audit.training.federated.settings import FederatedSettings
from pfl_audit.training.parts import split_queries
from pfl_audit.training.pretraining import FOLDER as PRETRAINING

_REMEDY = "Train again, with --keep-updates and another --out"


@dataclass(frozen=True, eq=False)
class Sent:
    """A message, and apart from it what it was trained on.

    Attributes:
        seen: Its weights are those that the round began with, where they differ from the model's.
        round: From 1.
        clients: Numbers of the clients in it.
        key: SHA-256 of the files that it is read from.
        rows: Questions that it was trained on, as rows of the pages, of a private round perhaps none; None where no
            corpus is at hand.
        bound: What its noise allows; None without noise.
        left_out: Number of its tensors that the finished model has not, such as adapters that are not read.
        dropout: Dropout rate of the inputs of adapters, by the settings of the training; 0 without adapters.
    """

    seen: Observation
    round: int
    clients: tuple[int, ...]
    key: tuple[str, str]
    rows: Integers | None
    bound: NoiseBound | None
    left_out: int
    dropout: float = 0.0

    def restated(self, limit: Limit) -> Limit:
        """A limit with its true cause, where the settings of the training say it."""
        if not self.dropout or limit.cause is not Cause.CROWDED or not limit.words.startswith("tokens"):
            return limit
        masks = "each position has a mask of its own, so that there are too many different inputs"
        return Limit(Cause.DROPOUT, f"tokens: the inputs of adapters have dropout of {self.dropout:g}: {masks}")


@dataclass(frozen=True, kw_only=True)
class RoundParts(GradientParts):
    """Messages of a federation.

    Attributes:
        sent: The messages.
        pages: What clients may have trained on; None where no corpus is at hand.
        clients: Number of clients of the federation.
        reading: What reads a message; this process where not given.
    """

    sent: tuple[Sent, ...]
    pages: Pages | None
    clients: int
    reading: Calls[GradientModel] | None = None


@dataclass(frozen=True, kw_only=True)
class RoundContext(GradientContext, RoundParts):
    """Context of an audit of kept messages."""


@dataclass(frozen=True, kw_only=True)
class OpenedRounds(OpenedGradients, RoundParts):
    """Messages of a federation, opened."""

    def have(self) -> frozenset[str]:
        """The messages in place of a template's gradients."""
        return (super().have() - {GRADIENT}) | {MESSAGES}

    def context(self, common: AuditContext) -> RoundContext:
        """Context for the attack."""
        return context_of(RoundContext, common, self)


class StoredTensors(Mapping[str, Tensor]):
    """Tensors of a file, read when they are needed: a federation's messages do not fit into memory.

    Args:
        shapes: Name to shape; tensors of other names are left out.
        adapters: Whether adapters of these are kept as well.

    Raises:
        AuditError: The file cannot be read, or a tensor has another shape or holds no floating-point numbers.
    """

    def __init__(self, path: Path, shapes: Mapping[str, tuple[int, ...]], *, adapters: bool = False) -> None:
        self._path = path
        entries = read_header(path, remedy=_REMEDY).entries
        if adapters:
            shapes = {**shapes, **adapter_shapes({name: entry.shape for name, entry in entries.items()}, shapes)}
        self._entries = {name: entry for name, entry in entries.items() if name in shapes}
        self.left_out = len(entries) - len(self._entries)
        for name, entry in self._entries.items():
            if entry.shape != shapes[name] or not entry.dtype.is_floating_point:
                raise AuditError(f"{path}: tensor {name} is not that of the model", "Give the checkpoint of the run")

    def __getitem__(self, name: str) -> Tensor:
        part = read_tensors(self._path, {name: self._entries[name]}, single=True)[name]
        if not bool(torch.isfinite(part).all()):
            raise AuditError(f"{self._path}: tensor {name} holds NaN or infinite values", _REMEDY)
        return part

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)


def open_rounds(inputs: GradientInputs, run: Path, job: AuditJob) -> OpenedRounds:
    """Open what an audit of kept messages needs.

    Args:
        run: Folder of the checkpoint.

    Raises:
        UsageError: No message was kept, there is no such round, or the corpus is another one.
        NotAuditableError: The model's family takes no gradients.
        AuditError: The model, a message or the corpus cannot be read, or they do not fit.
    """
    folder, pages_alone = kept_path(run), inputs.phase == "pretraining"
    if pages_alone:
        folder /= PRETRAINING
        if not is_there(folder):
            raise UsageError(f"{run} kept no messages of self-pretraining", "Leave --phase out")
    record, kept = read_record(folder), list(messages_of(folder, inputs.rounds))
    if not kept:
        raise UsageError(f"{folder} holds no message yet", "Let the training finish its first round")
    name = job.checkpoint("messages")
    model = open_gradient_model(name, job.device)
    reading = job.pool.calls(GradientOpening(name, job.device, model.fingerprint)) if job.pool is not None else None
    pages = _pages(inputs.data, model, job, alone=pages_alone) if inputs.data is not None else None
    shapes = {name: tuple(parameter.shape) for name, parameter in model.network.named_parameters()}
    form = _whole_page(model)
    summed = model.word_tables() if isinstance(model, LooksUpWords) else None
    placed = model.word_encoder() is not None or model.text_decoder() is not None
    adapters = placed or isinstance(summed, SumsWordsAndBoxes)
    rate = summed.summed().dropout if isinstance(summed, SumsWordsAndBoxes) else 0.0
    sent = tuple(_sent(message, record, shapes, form, pages, adapters=adapters, dropout=rate) for message in kept)
    rounds, numbers = {one.round for one in sent}, {client for one in sent for client in one.clients}
    about = Data(
        subject="gradients",
        chosen=True,
        audited="the protocol of updates",
        caveat="This says what the messages give away while the model is being trained, and nothing about the finished "
        "model.",
        format="messages",
        path=str(run),
        sha256=sha256_input(folder / "federation.json"),
        documents=len(sent),
        queries=sum(len(one.rows) for one in sent if one.rows is not None),
        parts={"rounds": len(rounds), "clients": len(numbers)},
        facts={
            "Messages": f"{len(sent)}, of {len(rounds)} rounds and {len(numbers)} of {record.clients} clients"
            + (", of self-pretraining" if pages_alone else "")
        },
    )
    return OpenedRounds(
        model=model,
        cases=(),
        records=Records(job.store),
        states=job.states,
        about=about,
        sent=sent,
        pages=pages,
        clients=record.clients,
        reading=reading,
    )


def _sent(
    message: Message,
    record: Kept,
    shapes: Mapping[str, tuple[int, ...]],
    form: Template,
    pages: Pages | None,
    *,
    adapters: bool,
    dropout: float,
) -> Sent:
    """A message, opened.

    Args:
        adapters: Whether adapters are read.
        dropout: Rate on the inputs of the first layers.
    """
    update, begun = (StoredTensors(path, shapes, adapters=adapters) for path in (message.path, message.model))
    if not update:
        raise AuditError(f"{message.path}: none of its tensors is one of the model", "Give the checkpoint of the run")
    origin, rows = message.origin, None
    if pages is not None:
        rows = pages.rows_of(origin.clients) if origin.queries is None else pages.rows(origin.queries)
        if rows is None:
            raise UsageError(
                f"the corpus lacks questions of {message.path.stem} in round {message.round}",
                "Give --data as it was given to the training",
            )
    name = f"round {message.round} {message.path.stem}"
    steps = _steps(record, 0 if rows is None else len(rows))
    seen = Observation(name, form, update, 1, steps, begun, dropout=dropout)
    unit = "company" if record.unit == "provider" else UNITS[record.unit].noun
    bound = NoiseBound(origin.noise, 2 * record.clip, unit=unit) if origin.noise and record.clip else None
    key = sha256_input(message.path), sha256_input(message.model)
    of_adapters = record.settings.get("lora_dropout", FederatedSettings.lora_dropout) if holds_adapters(update) else 0.0
    return Sent(seen, message.round, origin.clients, key, rows, bound, update.left_out, float(of_adapters))


def _steps(record: Kept, questions: int) -> int:
    """Optimiser steps of a message, as far as the settings say; a document or an example gives one gradient."""
    if record.unit != "provider":
        return 1
    size, epochs, most = (record.settings.get(name) for name in ("batch_size", "local_epochs", "local_steps"))
    if not isinstance(size, int) or not isinstance(epochs, int) or size < 1:
        return 1
    steps = max(1, epochs * ceil(questions / size))
    return min(steps, most) if isinstance(most, int) and most >= 1 else steps


def _whole_page(model: GradientModel) -> Template:
    """An empty page, all of which is private."""
    return Template(np.zeros((*model.page, 3), dtype=np.uint8), (TemplateField("page", (0.0, 0.0, 1.0, 1.0)),))


def _pages(data: Path, model: GradientModel, job: AuditJob, *, alone: bool) -> Pages:
    """The pages of a corpus with their questions, or ``alone``, as self-pretraining has them."""
    corpus = open_corpus(data, "blue")
    queries = [query for part in split_queries(corpus) for query in part]
    reader, form, kept, items = reader_of(model), _whole_page(model), list[Query](), list[Items]()
    with job.progress.task("words of the pages", len(queries)) as task:
        for query in queries:
            document = query.document
            asked = ("", "") if alone else (query.question, query.answers[0])
            sample = Sample(*asked, document.words, document.boxes)
            try:
                items.append(together(reader.split(model.text(sample), form)))
                kept.append(query)
            except NotAuditableError:  # the answer is not on the page, so the model was not trained on it
                pass
            task.advance()
    if not kept:
        raise NotAuditableError(f"{data} holds no question that this model can be trained on", "Give another --data")
    return Pages(kept, items)
