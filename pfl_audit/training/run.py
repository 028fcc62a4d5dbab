"""A training run from corpus to checkpoint."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from pfl_audit import __version__
from pfl_audit.documents.corpus import Corpus
from pfl_audit.documents.document import Query
from pfl_audit.documents.readers import open_corpus
from pfl_audit.errors import NotAuditableError, UsageError
from pfl_audit.files import read_json
from pfl_audit.models.open import require_device
from pfl_audit.models.vt5.checkpoint import LoadedVt5, load_vt5, save_vt5
from pfl_audit.models.vt5.tokenizer import Tokenizer
from pfl_audit.models.weights import fingerprint_files
from pfl_audit.progress import Progress
from pfl_audit.provenance import package_versions
from pfl_audit.training.central import STATE_FILE, train_central
from pfl_audit.training.scratch import new_vt5, train_tokenizer
from pfl_audit.training.settings import TrainSettings

RECORD = "training.json"


@dataclass(frozen=True)
class TrainRun:
    """Where a run begins and ends.

    Attributes:
        data: Corpus; its BLUE training part is trained on.
        out: Folder of the checkpoint.
        start: Checkpoint to begin with, or None for random weights.
        size: Of a model from nothing.
        vocabulary: Of a tokenizer from nothing.
        half: Save as float16.
        mode: How to train.
        device: torch's name of the device; no part of the run's identity.
    """

    data: Path
    out: Path
    start: Path | None
    size: str
    vocabulary: int
    half: bool
    mode: str
    device: str = "cpu"


def run_training(run: TrainRun, settings: TrainSettings, progress: Progress) -> dict[str, Any]:
    """Train and write the checkpoint with its ``training.json``; return the latter.

    A finished run of the same settings is not repeated.

    Raises:
        UsageError: The folder holds another run, or torch has not the device.
        AuditError: Nothing to train on, or the start cannot be opened.
    """
    settings.check()
    require_device(run.device)
    corpus = open_corpus(run.data, "blue")
    train, valid = split_queries(corpus)
    if not train:
        raise NotAuditableError(f"{run.data} holds no BLUE training document", "Give a corpus with a blue_train part")
    identity = {
        "mode": run.mode,
        "data": corpus.digest,
        "start": fingerprint_files(run.start) if run.start else [run.size, run.vocabulary, settings.seed],
        "half": run.half,
        "settings": settings.to_dict(),
    }
    if (run.out / RECORD).is_file():
        record: dict[str, Any] = read_json(run.out / RECORD)
        if record.get("identity") != identity:
            raise UsageError(f"{run.out} holds a model of another run", "Name another --out")
        progress.say(f"{run.out} is already trained")
        return record
    loaded, tokenizer_files = _begin(run, corpus, settings.seed)
    state = train_central(
        loaded, train, valid, settings, run.out, identity=identity, progress=progress, device=run.device
    )
    record = {
        "mode": run.mode,
        "privacy": "none: trained without differential privacy",
        "steps": state.step,
        "data": {
            "sha256": corpus.digest,
            "providers": len({query.document.provider for query in train}),
            "documents": len({query.document.id for query in train}),
            "queries": len(train),
        },
        "history": state.history,
        "identity": identity,
        "version": __version__,
        "packages": package_versions(),
    }
    dtype = torch.float16 if run.half else torch.float32
    save_vt5(loaded.network, tokenizer_files, run.out, dtype=dtype, extra={RECORD: record})
    (run.out / STATE_FILE).unlink(missing_ok=True)
    return record


def split_queries(corpus: Corpus) -> tuple[list[Query], list[Query]]:
    """Queries to train on, and held-out ones to validate with: the valid part, else the test part."""
    train = [query for query in corpus.queries if "train" in query.document.split]
    valid = [query for query in corpus.queries if "val" in query.document.split]
    return train, valid or [query for query in corpus.queries if "test" in query.document.split]


def _begin(run: TrainRun, corpus: Corpus, seed: int) -> tuple[LoadedVt5, Path]:
    if run.start is not None:
        return load_vt5(run.start), run.start
    train_tokenizer(corpus, run.out, run.vocabulary)
    return LoadedVt5(new_vt5(run.size, run.vocabulary, seed=seed), Tokenizer.open(run.out), ()), run.out
