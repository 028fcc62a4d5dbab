"""Checkpoints that an audit trains itself, such as a control on non-members that leave it (``--train-control``)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np

from pfl_audit.attacks.questions.inputs import QuestionInputs
from pfl_audit.core.subject import AuditJob
from pfl_audit.documents.corpus import Corpus
from pfl_audit.documents.units import UNITS
from pfl_audit.errors import UsageError
from pfl_audit.files import cannot_write, make_folder, sha256_json
from pfl_audit.fitness.spare import spare_non_members
from pfl_audit.progress import Progress
from pfl_audit.training.run import prepare, run_training
from pfl_audit.training.settings import TrainSettings
from pfl_audit.training.start import TrainRun

RANK: Final = 8
"""Rank of the adapters."""
BATCH: Final = 8
"""Questions of a step."""
RATE: Final = 1e-3
"""Learning rate: adapters take five times that of whole tensors, the default of ``train``."""
_STREAM: Final = 0x73706172
"""Separates the draw of the companies from other draws of the same seed."""


def train_control(
    inputs: QuestionInputs, job: AuditJob, red: Corpus, blue: Corpus | None, groups: Mapping[str, str]
) -> tuple[Corpus, QuestionInputs, str]:
    """Train adapters of the pre-trained model on non-members that leave the audit.

    The checkpoint stays in the folder of states, by the training documents, start and settings: the same audit trains
    it once, and one that was killed goes on.

    Args:
        red: Corpus that is asked about.
        blue: Training corpus of the target, or None; no page that the control is trained on resembles one of its.
        groups: Unit to its group.

    Returns:
        RED without these companies, the inputs with the control, and what it was trained on, for the report.

    Raises:
        UsageError: Inputs contradict each other, or the pre-trained model cannot be trained.
        NotAuditableError: Too few non-members can be spared.
        AuditError: Training failed.
    """
    if inputs.control is not None:
        raise UsageError("--train-control and --control are both a control", "Give one of them")
    if inputs.pretrained is None or not Path(inputs.pretrained).is_dir():
        raise UsageError("--train-control begins with a checkpoint folder", "Give --pretrained as a folder")
    if job.share is not None or job.cluster is not None:
        # Other machines lack its checkpoint, and their arithmetic would make another one.
        raise UsageError("a control is trained on one machine", "Leave --train-control, or --shard and --cluster, out")
    rng = np.random.default_rng([job.seed, _STREAM])
    spared = spare_non_members(red, groups, rng, job.progress, blue.documents if blue is not None else ())
    queries = tuple(
        replace(query, document=replace(query.document, split="train")) for query in spared.training.queries
    )
    settings = TrainSettings(
        steps=inputs.train_control_steps, batch_size=BATCH, learning_rate=RATE, seed=job.seed,
        warmup=inputs.train_control_steps // 10,
    )  # fmt: skip
    corpus, start = replace(spared.training, queries=queries), Path(inputs.pretrained)
    out = train_beside(corpus, start, job.states / "controls", settings, job.device, job.progress, RANK)
    told = (
        f"trained on {len(spared.training.documents)} pages of {len(spared.training.units)} non-member "
        f"{UNITS[red.unit].many}, which left the audit"
    )
    return spared.audited, inputs.model_copy(update={"control": str(out)}), told


def train_beside(
    corpus: Corpus, start: Path, folder: Path, settings: TrainSettings, device: str, progress: Progress, rank: int = 0
) -> Path:
    """Train a checkpoint for an audit, once for the same documents, start and settings; one that was killed goes on.

    Args:
        corpus: Its documents of training are trained on.
        start: Checkpoint to begin with.
        folder: Folder of such checkpoints; the owner's alone, because they have learnt pages and answers of an audit.
        device: torch's name of the device.
        rank: Rank of adapters, or 0 to train whole tensors.

    Returns:
        Folder of the checkpoint.

    Raises:
        AuditError: The folder cannot be written, or training failed.
    """
    try:
        make_folder(folder, private=True)
    except OSError as error:
        raise cannot_write(folder, error) from error
    run = TrainRun(
        data=Path(), out=folder, start=start, size="", vocabulary=0, half=False, mode="central", device=device,
        lora=rank, corpus=corpus,
    )  # fmt: skip
    out = folder / sha256_json(prepare(run, settings, None).identity)[:16]
    run_training(replace(run, out=out), settings, progress)
    return out
