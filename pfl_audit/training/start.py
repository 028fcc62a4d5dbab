"""What a training run begins with: its places and kind, its model, and what is trained on what."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pfl_audit.documents.corpus import Corpus
from pfl_audit.documents.document import Query
from pfl_audit.errors import UsageError
from pfl_audit.models.open import families, family_of
from pfl_audit.models.pretraining import SelfPretraining, one_a_page
from pfl_audit.models.training_protocol import QuestionModel, TrainableFamily, TrainableModel
from pfl_audit.models.vt5.checkpoint import LoadedVt5
from pfl_audit.models.vt5.tokenizer import Tokenizer
from pfl_audit.models.vt5.training import TrainableVt5
from pfl_audit.privacy.ledger import Ledger, default_path
from pfl_audit.progress import Progress
from pfl_audit.training.canaries import CanarySettings
from pfl_audit.training.federated.settings import FederatedSettings, Mode
from pfl_audit.training.lora import Adapters
from pfl_audit.training.pretraining import Pretraining
from pfl_audit.training.process_group import ONE, ProcessGroup
from pfl_audit.training.scratch import new_vt5, train_tokenizer
from pfl_audit.training.settings import TrainSettings
from pfl_audit.training.trainable import Trainable, choose_trainable, without_embeddings

Settings = TrainSettings | FederatedSettings


@dataclass(frozen=True)
class TrainRun:
    """Where a run begins and ends.

    Attributes:
        data: Path of the corpus whose BLUE training part is trained on.
        start: Checkpoint to begin with, or None for random weights.
        size: Of a model from nothing.
        vocabulary: Of a tokenizer from nothing.
        half: Save as float16.
        mode: How to train.
        device: torch's name of the device; no part of the run's identity.
        lora: Rank of adapters, or 0 to train whole tensors.
        providers_share: Probability with which each provider is trained on; the settings' seed draws.
        ledger: Budget ledger of a private run, or None for the one beside the data.
        budget_cap: Largest epsilon of a provider in all runs of the ledger; None for the ledger's own.
        pretraining: Self-pretraining before, on the same pages; None without.
        canaries: Document canaries that are planted among the providers, or None.
        keep_updates: Whether every message of a federation is kept beside the checkpoint; no part of its identity.
        corpus: Corpus in memory in place of ``data``, or None.
    """

    data: Path
    out: Path
    start: Path | None
    size: str
    vocabulary: int
    half: bool
    mode: Mode
    device: str = "cpu"
    lora: int = 0
    providers_share: float = 1.0
    ledger: Path | None = None
    budget_cap: float | None = None
    pretraining: Pretraining | None = None
    canaries: CanarySettings | None = None
    keep_updates: bool = False
    corpus: Corpus | None = None

    @property
    def budget(self) -> Ledger:
        """The budget ledger."""
        return Ledger(self.ledger or default_path(self.data))


@dataclass(frozen=True)
class Training:
    """A model with what it is trained and validated on.

    Attributes:
        train: Queries to train on, by row; none where the clients that hold them are elsewhere.
        valid: Held-out queries.
        pages: The model on its pages alone, for a phase of self-pretraining before; its tokens are in ``trainable``.
        group: Processes that train together; the one that leads validates, and writes.
    """

    model: TrainableModel[Query]
    trainable: Trainable
    train: Sequence[Query]
    valid: Sequence[Query]
    progress: Progress
    pages: SelfPretraining | None = None
    group: ProcessGroup = ONE

    @property
    def before(self) -> Training | None:
        """Self-pretraining on the same pages; None without it."""
        return replace(self, model=self.pages, train=one_a_page(self.train), pages=None) if self.pages else None


def begin(run: TrainRun, corpus: Corpus, settings: Settings, *, leads: bool = True) -> QuestionModel:
    """The model to begin with: of the start, or a VT5 with random weights and a tokenizer learnt from the corpus.

    Args:
        leads: Whether the tokenizer is learnt and written here; it is read where another process has done so.
    """
    if run.start is not None:
        return open_trainable(run.start, settings, run.device)
    network = new_vt5(run.size, run.vocabulary, seed=settings.seed)
    if leads:
        train_tokenizer(corpus, run.out, run.vocabulary)
    loaded = LoadedVt5(network, Tokenizer.open(run.out), ())
    return TrainableVt5(loaded, run.out, run.device, train_visual=not settings.freeze_visual)


def open_trainable(start: Path, settings: Settings, device: str) -> QuestionModel:
    """Open a checkpoint for training.

    Raises:
        UsageError: Its family cannot be trained, or it cannot be trained with these settings.
    """
    family = family_of(start)
    if not isinstance(family, TrainableFamily):
        able = ", ".join(other.name for other in families() if isinstance(other, TrainableFamily))
        raise UsageError(f"{family.name} models cannot be trained; {able} can", "Give --from a checkpoint of those")
    return family.open_training(start, device=device, train_visual=not settings.freeze_visual)


def on_pages(pretraining: Pretraining | None, model: QuestionModel) -> SelfPretraining | None:
    """The model on its pages alone, with the tokens of self-pretraining; None without it.

    It comes before the choice of what is trained, since the added tokens are rows of another embedding.

    Raises:
        UsageError: The family has no self-pretraining.
    """
    return SelfPretraining(model, pretraining.tasks, pretraining.form) if pretraining else None


def choose(
    model: QuestionModel, rank: int, settings: Settings, pages: SelfPretraining | None = None
) -> tuple[Adapters | None, Trainable]:
    """What is trained: adapters of that rank and what goes with them, or with rank 0 whole tensors.

    Args:
        pages: The model on its pages alone; its added tokens are trained also where the embedding is frozen.
    """
    if rank and not settings.freeze_visual:
        raise UsageError("--lora keeps the visual encoder frozen", "Leave out --train-visual or --lora")
    if settings.lora_parts != "all" and not rank:
        raise UsageError("--lora-parts chooses among the parts of adapters, and there are none", "Give --lora a rank")
    if settings.lora_dropout != type(settings).lora_dropout and not rank:
        raise UsageError("--lora-dropout is of adapters, and there are none", "Give --lora a rank")
    adapters, parts = None, settings.lora_parts
    if rank:
        adapters = Adapters(model, rank, seed=settings.seed, parts=parts, dropout=settings.lora_dropout)
    trainable = adapters.trainable if adapters else choose_trainable(model)
    if isinstance(settings, FederatedSettings) and settings.freeze_embeddings:
        trainable = without_embeddings(model.network)
    if pages is not None:
        pages.train_markers()
        trainable = Trainable(model.network)
    return adapters, trainable
