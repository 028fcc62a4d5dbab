"""A training run from forms to checkpoints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pfl_audit.documents.forms.form import PARTS, Form, FormCorpus, FormPart
from pfl_audit.documents.forms.partition import FormPartition, partition_forms
from pfl_audit.documents.forms.readers import open_forms
from pfl_audit.errors import NotAuditableError, UsageError
from pfl_audit.files import write_json
from pfl_audit.inputs import is_regular, read_json
from pfl_audit.models.device import usable_device
from pfl_audit.models.encoders.checkpoint import LoadedEncoder
from pfl_audit.models.encoders.config import EncoderConfig
from pfl_audit.models.encoders.labels import labels_of
from pfl_audit.models.encoders.tokens import FormTokenizer
from pfl_audit.models.form_protocol import Window
from pfl_audit.models.weights import fingerprint_files
from pfl_audit.privacy.record_text import NO_PRIVACY
from pfl_audit.progress import Progress
from pfl_audit.training.forms.begin import encoder_from, new_encoder
from pfl_audit.training.forms.epochs import CRITERIA, History, best_epoch, train_encoder
from pfl_audit.training.forms.model import TrainableEncoder
from pfl_audit.training.forms.scores import MEASURE
from pfl_audit.training.forms.settings import FormTrainSettings
from pfl_audit.training.loop import STATE_FILE
from pfl_audit.training.records import RECORD
from pfl_audit.training.run import WEIGHTS, trained_on, training_folder
from pfl_audit.version import __version__, package_versions


@dataclass(frozen=True)
class FormRun:
    """Where a run begins and ends.

    Attributes:
        out: Folder of the checkpoints.
        start: Checkpoint to begin with, whose tokenizer is kept; or None for random weights.
        device: torch's name of the device; no part of the run's identity.
        half: Save as float16.
    """

    data: Path
    out: Path
    start: Path | None = None
    device: str = "cpu"
    half: bool = False


def run_form_training(run: FormRun, settings: FormTrainSettings, progress: Progress) -> dict[str, Any]:
    """Train on a part of the forms, and write the checkpoints of the two criteria and ``training.json``.

    ``OUT/best-precision`` and ``OUT/best-loss`` are whole checkpoints with a record of their own, and every
    ``keep_every`` epochs so is ``OUT/epoch-NNN``. A finished run of the same settings is not repeated.

    Returns:
        The record: what was trained on what, ``history`` and ``chosen``, the entry of each criterion.

    Raises:
        UsageError: The folder holds another run or what others made, a setting cannot be, or torch has not the device.
        NotAuditableError: The forms have not what the task learns.
        AuditError: They cannot be read or divided, the start cannot be opened, or the training fails.
    """
    settings.check()
    run = replace(run, device=usable_device(run.device))
    corpus = open_forms(run.data)
    parts = partition_forms(corpus, seed=settings.split_seed)
    identity: dict[str, Any] = {
        "data": {part: _digest(parts.of(part)) for part in PARTS},
        "start": fingerprint_files(run.start) if run.start else None,
        "settings": settings.to_dict(),
        "half": run.half,
    }
    if (finished := _finished(run.out, identity, progress)) is not None:
        return finished
    with training_folder(run.out, identity) as folder:
        record = _train(run, settings, progress, corpus, parts, identity)
        folder.finish()
        return record


def _train(
    run: FormRun,
    settings: FormTrainSettings,
    progress: Progress,
    corpus: FormCorpus,
    parts: FormPartition,
    identity: dict[str, Any],
) -> dict[str, Any]:
    loaded = begin(run, settings, corpus.labels, parts.public)
    model = TrainableEncoder(loaded, run.device, settings.batch_size)
    windows: dict[FormPart, list[Window]] = {part: model.maker.windows(parts.of(part)) for part in PARTS}
    for part in ("validation", settings.part):
        require_labels(windows[part], part, loaded.config)
    facts: dict[str, Any] = {
        "mode": "central",
        "task": settings.task,
        "backbone": settings.backbone,
        "modality": settings.modality,
        "part": settings.part,
        "accuracy": MEASURE[settings.task],
        "data": _data(corpus, parts, windows, settings.part, run.start),
        "notes": list(loaded.notes),
        "privacy": NO_PRIVACY,
        "identity": identity,
        "version": __version__,
        "packages": package_versions(),
    }

    def keep(name: str, history: History) -> None:
        criterion = name.removeprefix("best-") if name.startswith("best-") else None
        last = {**history[-1], "criterion": criterion, "history": history}
        model.save(run.out / name, {RECORD: {**facts, **last}}, half=run.half)

    history = train_encoder(
        model,
        windows[settings.part],
        windows["validation"],
        settings,
        run.out,
        identity=identity,
        keep=keep,
        progress=progress,
    )
    chosen = {criterion: history[best_epoch(history, criterion)] for criterion in CRITERIA}
    record = {**facts, "chosen": chosen, "history": history}
    write_json(run.out / RECORD, record)
    (run.out / STATE_FILE).unlink(missing_ok=True)
    return record


def begin(run: FormRun, settings: FormTrainSettings, labels: tuple[str, ...], public: Sequence[Form]) -> LoadedEncoder:
    """The encoder to begin with, and its tokenizer: of the start, or learnt from public forms alone.

    Args:
        public: The public part.

    Raises:
        UsageError: The settings make no network or no tokenizer.
        NotAuditableError: The task needs fields, and none is labelled.
        AuditError: The start cannot be opened.
    """
    if settings.task in ("ee-bio", "ee-spade") and not labels:
        raise NotAuditableError(f"no form has a labelled field, which {settings.task} learns", "Choose --task mlm")
    learnt = labels if settings.task in ("ee-bio", "ee-spade") else ()
    if run.start is not None:
        tokenizer = FormTokenizer.open(run.start)
        started = encoder_from(settings, learnt, run.start)
        network, notes = started.network, started.notes
    else:
        texts = (word for form in public for word in form.document.words)
        tokenizer = FormTokenizer.train(texts, settings.vocabulary, run.out)
        network, notes = new_encoder(settings, learnt, len(tokenizer.vocabulary)), ()
    if len(tokenizer.vocabulary) > network.config.vocabulary:
        raise UsageError(
            f"{run.start}: the tokenizer has {len(tokenizer.vocabulary)} pieces, the embedding only "
            f"{network.config.vocabulary} rows",
            "Copy the tokenizer that the model was trained with",
        )
    return LoadedEncoder(network, tokenizer, network.config, notes)


def require_labels(windows: Sequence[Window], part: FormPart, config: EncoderConfig) -> None:
    """Stop where the windows of a part hold nothing of what a task learns.

    Raises:
        NotAuditableError: No words, no labelled field or no link.
    """
    if config.task == "mlm":
        found, what = bool(windows), "words"
    elif config.task == "el":
        pointers = [labels_of(window, config).pointers for window in windows]
        found = any(row is not None and bool((row >= 0).any()) for row in pointers)
        what = "two linked fields in one window"
    else:
        found, what = any(window.spans for window in windows), "labelled fields that fit in a window"
    if not found:
        raise NotAuditableError(
            f"the forms of the {part} part have no {what}, which {config.task} needs",
            "Choose another --task, or give forms that have them",
        )


def _finished(out: Path, identity: dict[str, Any], progress: Progress) -> dict[str, Any] | None:
    """The record of a run that is already done, or None.

    Raises:
        UsageError: The folder holds a model of another run.
    """
    if not is_regular(out / RECORD):
        return None
    record = read_json(out / RECORD)
    if not isinstance(record, dict) or record.get("identity") != identity:
        raise UsageError(f"{out} holds a model of another run", "Name another --out")
    if not all(is_regular(out / f"best-{criterion}" / WEIGHTS) for criterion in CRITERIA):
        return None
    progress.say(f"{out} is already trained")
    (out / STATE_FILE).unlink(missing_ok=True)
    return record


def _digest(forms: Sequence[Form]) -> str:
    return FormCorpus(tuple(forms)).digest


def _data(
    corpus: FormCorpus, parts: FormPartition, windows: dict[FormPart, list[Window]], part: FormPart, start: Path | None
) -> dict[str, Any]:
    """What was trained on, as the record has it."""
    return {
        "sha256": _digest(parts.of(part)),
        "corpus": corpus.digest,
        "format": corpus.format,
        "forms": {name: len(parts.of(name)) for name in PARTS},
        "windows": {name: len(windows[name]) for name in PARTS},
        "fields": sum(len(form.fields) for form in parts.of(part)),
        "near_duplicates": parts.near_duplicates,
        "left_out": len(parts.left_out),
        "before": trained_on(start),
    }
