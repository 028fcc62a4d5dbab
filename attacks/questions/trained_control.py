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
from pfl_audit.errors import AuditError, UsageError
from pfl_audit.files import cannot_write, make_folder, sha256_json, write_json
from pfl_audit.fitness.spare import spare_non_members
from pfl_audit.inputs import is_there, read_json
from pfl_audit.progress import Progress
from pfl_audit.training.run import prepare, run_training, trained_on
from pfl_audit.training.settings import TrainSettings
from pfl_audit.training.start import TrainRun

UNITS_FILE: Final = "trained-units.json"
"""Beside the checkpoint: SHA-256 of the names of the units that it was trained on."""
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
    write_json(out / UNITS_FILE, sorted(_hashed(red, unit) for unit in spared.training.units))
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


def require_unseen(flag: str, name: str, target: str | None, red: Corpus, blue: Corpus | None) -> None:
    """Refuse a model beside the target that was trained on what is audited, as far as the records of both say.

    Args:
        flag: Option that names it, such as ``--control``.
        name: Its checkpoint.
        target: Checkpoint under audit, or None where it is elsewhere.
        red: Corpus that is asked about.
        blue: Training corpus of the target, or None.

    Raises:
        UsageError: It was trained on RED, on the training corpus of the target, or by another audit on units of RED.
        AuditError: The list of these units cannot be read.
    """
    saw, audited = _digests(name), {red.digest, *([blue.digest] if blue is not None else [])}
    # With a training corpus at hand, what the target began with is not what is asked about, and may be shared.
    own = {*_digests(target)[:1]} & {*(saw[:1] if blue is not None else saw)}
    units = Path(name) / UNITS_FILE
    taught = read_json(units) if is_there(units) else []
    both = sum(_hashed(red, unit) in taught for unit in red.units)
    if audited & {*saw} or own or both:
        what = (
            f"{both} of the {UNITS[red.unit].many}, by --train-control of another audit"
            if both
            else "RED, or the training set of the model under audit"
        )
        raise UsageError(
            f"the model of {flag} was trained on what is audited: {what}",
            f"Give {flag} a model that saw neither members nor non-members",
        )


def _digests(checkpoint: str | None) -> list[str]:
    """Digests of what a checkpoint was trained on, its own documents first; none where no record can be read."""
    try:
        return trained_on(Path(checkpoint)) if checkpoint is not None else []
    except AuditError:
        return []


def _hashed(corpus: Corpus, unit: str) -> str:
    return sha256_json([corpus.unit, unit])
