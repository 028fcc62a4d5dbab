"""A training run from corpus to checkpoint."""

from __future__ import annotations

import shutil
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pfl_audit.documents.corpus import Corpus
from pfl_audit.documents.document import Query
from pfl_audit.documents.readers import open_corpus
from pfl_audit.errors import NotAuditableError, UsageError
from pfl_audit.files import sha256_json
from pfl_audit.inputs import is_regular, read_json
from pfl_audit.models.device import usable_device
from pfl_audit.models.training_protocol import QuestionModel
from pfl_audit.models.weights import fingerprint_files
from pfl_audit.out_folder import OutFolder
from pfl_audit.privacy.canary_coins import Manifest
from pfl_audit.privacy.ledger import Ledger, require_cap
from pfl_audit.privacy.record_text import NO_PRIVACY
from pfl_audit.progress import Progress
from pfl_audit.training import canaries
from pfl_audit.training.central import train_central_phases
from pfl_audit.training.federated.clients import unit_name
from pfl_audit.training.federated.kept import kept_path
from pfl_audit.training.federated.kept import read_record as read_kept
from pfl_audit.training.federated.phases import train_federated
from pfl_audit.training.federated.run import KEY_FILE, Federation, forget_secrets
from pfl_audit.training.federated.settings import FederatedSettings, PrivacySettings
from pfl_audit.training.loop import STATE_FILE
from pfl_audit.training.lora import Adapters
from pfl_audit.training.parts import of_some_providers, places, split_queries
from pfl_audit.training.pretraining import FOLDER
from pfl_audit.training.process_group import ONE, ProcessGroup
from pfl_audit.training.records import RECORD, public_part, read_record, write_private
from pfl_audit.training.settings import TrainSettings
from pfl_audit.training.start import Settings, Training, TrainRun, begin, choose, on_pages
from pfl_audit.version import __version__, package_versions

WEIGHTS = "model.safetensors"
ADAPTERS = "adapters"


@dataclass(frozen=True)
class Prepared:
    """What a run works on.

    Attributes:
        corpus: Its BLUE part.
        train: Queries to train on.
        valid: Held-out queries.
        identity: What decides the weights.
    """

    corpus: Corpus
    train: list[Query]
    valid: list[Query]
    identity: dict[str, Any]


def run_training(
    run: TrainRun,
    settings: Settings,
    progress: Progress,
    privacy: PrivacySettings | None = None,
    group: ProcessGroup = ONE,
) -> dict[str, Any]:
    """Train and write the checkpoint with its ``training.json``.

    A finished run of the same settings is not repeated.

    Returns:
        The content of ``training.json``, and of the private record of a private run; nothing where another process
        leads.

    Args:
        settings: TrainSettings for the mode central, else FederatedSettings.
        privacy: Of the private modes.
        group: Processes that train together; each calls this.

    Raises:
        UsageError: The folder holds another run or what others made, a setting cannot be, or torch has not the device.
        AuditError: Another process writes into the folder, there is nothing to train on, the start cannot be opened,
            or the parties are not as they must be.
    """
    run = replace(run, device=usable_device(group.device(run.device)))
    prepared = prepare(run, settings, privacy)
    if (record := finished(run.out, prepared.identity, progress)) is not None:
        if run.keep_updates:
            read_kept(kept_path(run.out))
        return record
    with ExitStack() as stack:
        with group.leader_first():
            folder = stack.enter_context(training_folder(run.out, prepared.identity)) if group.leads else None
        record = _train(run, settings, progress, privacy, prepared, group)
        if folder is not None:
            folder.finish()
        return record


def training_folder(out: Path, identity: dict[str, Any] | None) -> OutFolder:
    """The folder of a new checkpoint, locked for a run.

    Args:
        identity: What decides the weights, or None where the caller compares it later.

    Raises:
        UsageError: It holds what others made, or a model or a state of other settings.
        AuditError: Another process writes into it.
    """
    kept = (RECORD, WEIGHTS, STATE_FILE, KEY_FILE, FOLDER, canaries.COINS)
    return OutFolder(out, "training", identity, keeps=kept, private=True)


def _train(
    run: TrainRun,
    settings: Settings,
    progress: Progress,
    privacy: PrivacySettings | None,
    prepared: Prepared,
    group: ProcessGroup,
) -> dict[str, Any]:
    with ExitStack() as stack:
        with group.leader_first():
            model = begin(run, prepared.corpus, settings, leads=group.leads)
            pages = on_pages(run.pretraining, model)
            adapters, trainable = choose(model, run.lora, settings, pages)
            pairs = canaries.in_pairs(privacy)
            planted = canaries.planted(run.canaries, run.out, model, prepared.train, progress, pairs=pairs)
            coins, train = stack.enter_context(planted)
        training = Training(model, trainable, train, prepared.valid, progress, pages, group)
        if isinstance(settings, TrainSettings):
            done = train_central_phases(training, run.pretraining, settings, run.out, prepared.identity)
            if group.size > 1:
                done["processes"] = group.size
        else:
            done = train_federated(federation_of(run, settings, privacy, prepared.identity), training)
    if not group.leads:
        return {}
    data = {
        "sha256": prepared.corpus.digest,
        "providers": len({query.document.provider for query in prepared.train}),
        "documents": len({query.document.id for query in prepared.train}),
        "queries": len(prepared.train),
        "before": trained_on(run.start),
        **done.pop("data", {}),
    }
    record = {"mode": run.mode, "data": data, **done, "lora": run.lora or None, "identity": prepared.identity}
    return conclude(model, adapters, run.out, record, half=run.half, coins=coins)


def federation_of(
    run: TrainRun, settings: FederatedSettings, privacy: PrivacySettings | None, identity: dict[str, Any]
) -> Federation:
    """Who takes part in a run that is not central, and what it promises."""
    return Federation(
        run.mode,
        settings,
        privacy,
        run.out,
        identity,
        run.device,
        ledger=run.budget,
        budget_cap=run.budget_cap,
        pretraining=run.pretraining,
        kept=kept_path(run.out) if run.keep_updates else None,
    )


def is_complete(out: Path) -> bool:
    """Whether a checkpoint and its record are there, of this run or another."""
    return is_regular(out / RECORD) and is_regular(out / WEIGHTS)


def finished(out: Path, identity: dict[str, Any], progress: Progress) -> dict[str, Any] | None:
    """The record of a run that is already done, or None.

    Raises:
        UsageError: The folder holds a model of another run.
    """
    if not is_complete(out):
        return None
    record = read_record(out)
    held = record.get("identity")
    if isinstance(held, dict) and "places" not in held:  # of an earlier version
        identity = {name: value for name, value in identity.items() if name != "places"}
    if held != identity:
        raise UsageError(f"{out} holds a model of another run", "Name another --out")
    progress.say(f"{out} is already trained")
    forget(out)
    return record


def conclude(
    model: QuestionModel,
    adapters: Adapters | None,
    out: Path,
    record: dict[str, Any],
    *,
    half: bool,
    coins: Manifest | None = None,
) -> dict[str, Any]:
    """Write the checkpoint with its record, and remove what was only needed to get there.

    Of a private run the checkpoint gets the public part, and the private record beside it everything.

    Args:
        coins: Of canaries that were planted; the checkpoint reveals them.

    Returns:
        The record, with the versions of what made it.
    """
    if adapters is not None:
        adapters.save(out / ADAPTERS)
        adapters.merge()
    planted = {"canaries": coins.public()} if coins else {}
    promise = {"privacy": record["privacy"] or NO_PRIVACY}
    record = {**record, **planted, **promise, "version": __version__, "packages": package_versions()}
    released = record
    if record["privacy"] != NO_PRIVACY:
        released = public_part(record)
        write_private(out, record)
    revealed = {canaries.RECORD: coins.revealed()} if coins else {}
    model.save(out, {RECORD: released, **revealed}, half=half)
    forget(out)
    return record


def forget(folder: Path) -> None:
    """Remove what a finished run no longer needs, its secrets among it."""
    (folder / STATE_FILE).unlink(missing_ok=True)
    shutil.rmtree(folder / FOLDER, ignore_errors=True)
    canaries.forget(folder)
    forget_secrets(folder)


def prepare(run: TrainRun, settings: Settings, privacy: PrivacySettings | None) -> Prepared:
    """Check what is asked for, and open the corpus."""
    settings.check()
    if run.canaries:
        canaries.check(run.canaries, privacy)
    if run.pretraining:
        run.pretraining.check()
    usable_device(run.device)
    if privacy is not None:
        privacy.check()
        require_cap(run.budget_cap)
        if run.start is None:
            raise UsageError(
                "a private run cannot begin from nothing: its tokenizer would be learnt from the documents",
                "Give --from a public checkpoint",
            )
    corpus = run.corpus or open_corpus(run.data, "blue")
    train, valid = split_queries(corpus)
    if not train:
        raise NotAuditableError(f"{run.data} holds no BLUE training document", "Give a corpus with a blue_train part")
    train = of_some_providers(train, run.providers_share, settings.seed)
    if not train:
        raise NotAuditableError("no provider was drawn", "Give a larger --providers-share, or another --seed")
    identity: dict[str, Any] = {
        "mode": run.mode,
        "data": corpus.digest,
        "places": places(corpus),
        "start": fingerprint_files(run.start) if run.start else [run.size, run.vocabulary, settings.seed],
        "half": run.half,
        "settings": settings.to_dict(),
    }
    if any(document.source for document in corpus.documents):  # of a partition
        sources = sorted([document.id, document.source, document.client] for document in corpus.documents)
        identity["partition"] = sha256_json(sources)
    if run.lora:
        identity["lora"] = run.lora
    if run.pretraining:
        identity["pretraining"] = run.pretraining.to_dict()
    if run.canaries:
        identity["canaries"] = run.canaries.to_dict()
    if run.providers_share < 1:
        identity["providers_share"] = run.providers_share
    if privacy is not None:
        identity["privacy"] = privacy.to_public()
        units = {unit_name(query, privacy.unit) for query in train}
        refuse_trained_start(run.start, corpus.digest, run.budget, units)
    return Prepared(corpus, train, valid, identity)


def refuse_trained_start(start: Path | None, digest: str, ledger: Ledger, names: set[str]) -> None:
    """Refuse a start that has seen the documents, which makes any promise about them worthless.

    A private start is recognised by the ledger, which holds its run.
    """
    before = trained_on(start)
    if digest in before or ledger.trained(before, names):
        raise UsageError(
            f"{start} was trained on these very documents, so no private run from it can promise anything",
            "Give --from a checkpoint that has not seen them",
        )


def trained_on(start: Path | None) -> list[str]:
    """Digests of, or commitments to, the documents of a checkpoint and of those before it, as far as it says."""
    path = start / RECORD if start else None
    record = read_json(path) if path and path.is_file() else None
    data = record.get("data") if isinstance(record, dict) else None
    if not isinstance(data, dict):
        return []
    lists = [listed for name in ("commitments", "before") if isinstance(listed := data.get(name), list)]
    digests = [data.get("sha256"), data.get("commitment"), *(digest for listed in lists for digest in listed)]
    return [digest for digest in digests if isinstance(digest, str)]
