"""Verification of a released checkpoint: its record, its commitments, its ledger entry, and its document canaries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pfl_audit.documents.document import Query
from pfl_audit.documents.synthetic.canaries import draw_canaries
from pfl_audit.errors import AuditError, NotAuditableError
from pfl_audit.inputs import is_there, read_json, require_folder
from pfl_audit.models.open import open_model
from pfl_audit.models.protocol import Capability, DocumentModel, Response
from pfl_audit.privacy.canary_coins import RECORD as CANARIES
from pfl_audit.privacy.canary_coins import Manifest
from pfl_audit.privacy.document_canaries import (
    CanaryBounds,
    bound_epsilon,
    contradicted,
    guess_coins,
    pages_asked,
)
from pfl_audit.privacy.guarantee import GuaranteeReview, PrivacyGuarantee
from pfl_audit.privacy.ledger import Ledger
from pfl_audit.privacy.review import mechanism_of, review_record
from pfl_audit.progress import Progress
from pfl_audit.training.records import RECORD, commitment, private_path, public_part

Status = Literal["verified", "measured", "contradicted", "unknown", "not checked"]
"""``unknown``: what is stated could not be confirmed; ``not checked``: nothing is stated, or no file was given."""


@dataclass(frozen=True)
class Expected:
    """What the verifier knows beside the checkpoint; None for what it does not.

    Attributes:
        commitment: Commitment to the coins that was noted before the training.
        nonce: Text that was given to the trainer.
        private: Private record of the run.
        ledger: Budget ledger of the data.
    """

    commitment: str | None = None
    nonce: str | None = None
    private: Path | None = None
    ledger: Path | None = None


@dataclass(frozen=True)
class Verified:
    """One line of a verification."""

    name: str
    status: Status
    text: str


def verify_records(checkpoint: Path, expected: Expected) -> tuple[list[Verified], GuaranteeReview | None]:
    """Compare the records of a checkpoint with each other and with what the verifier knows.

    Returns:
        Lines, and the review of the stated guarantee.

    Raises:
        UsageError: There is no such folder.
        AuditError: The checkpoint has no readable record.
    """
    remedy = "Give a checkpoint that train has made"
    require_folder(checkpoint, remedy)
    if not is_there(checkpoint / RECORD):
        raise AuditError(f"{checkpoint} has no {RECORD}", remedy)
    record = read_json(checkpoint / RECORD, remedy=remedy)
    if not isinstance(record, dict):
        raise AuditError(f"{checkpoint / RECORD} is no training record", remedy)
    review = review_record(record)
    return [_guarantee(review), *_data(record, review, checkpoint, expected)], review


def read_coins(checkpoint: Path, expected: Expected) -> tuple[Verified, Manifest | None]:
    """The coins of a checkpoint, held against every commitment that is known."""
    path, record = checkpoint / CANARIES, read_json(checkpoint / RECORD)
    stated = record.get("canaries") if isinstance(record, dict) else None
    if not is_there(path):
        if expected.commitment is not None or expected.nonce is not None:
            return Verified("coins", "contradicted", "the checkpoint reveals no coins of canaries"), None
        missing = f"{RECORD} has a commitment to canaries, and {CANARIES} is missing"
        without = Verified("coins", "not checked", "the model was trained without --audit-canaries")
        return Verified("coins", "unknown", missing) if stated else without, None
    revealed = read_json(path)
    known = expected.commitment or (stated.get("commitment") if isinstance(stated, dict) else None)
    try:
        manifest = Manifest.check(revealed if isinstance(revealed, dict) else {}, str(known))
    except AuditError as error:
        return Verified("coins", "contradicted", error.problem), None
    if not isinstance(stated, dict) or stated.get("commitment") != manifest.commitment:
        return Verified("coins", "contradicted", f"{RECORD} states another commitment"), None
    if expected.nonce is not None and expected.nonce != manifest.nonce:
        return Verified("coins", "contradicted", "the nonce is not the verifier's"), None
    how = "noted before the training" if expected.commitment else f"in {RECORD} (give --commitment to show its age)"
    return Verified("coins", "verified", f"{manifest.canaries} coins have the hash of the commitment {how}"), manifest


def measure_canaries(
    checkpoint: Path,
    manifest: Manifest,
    claim: PrivacyGuarantee | None,
    start: Path | None,
    device: str,
    folder: Path,
    progress: Progress,
) -> tuple[Verified, CanaryBounds]:
    """Ask the released model for the values of all canaries, guess the coins, and hold the guesses against the claim.

    Args:
        start: Checkpoint that the training began with; the loss that a canary has there is subtracted.
        folder: For the page images.

    Raises:
        NotAuditableError: A model gives no losses.
    """
    numbers = pages_asked(manifest, claim)
    queries = draw_canaries(numbers, manifest.salt, folder, progress, pointed=manifest.pointed)
    evidence = -canary_losses(open_losses(checkpoint, device), queries, progress)
    if start is not None:
        evidence += canary_losses(open_losses(start, device), queries, progress)
    guesses = guess_coins(evidence, manifest)
    bounds = bound_epsilon(guesses, claim)
    why = contradicted(guesses, claim) if claim else None
    guaranteed = f"guaranteed epsilon at most {claim.epsilon:.4g}; " if claim else ""
    text = (
        f"{guaranteed}measured epsilon at least {bounds.largest:.3g} (95 %): "
        f"{guesses.correct} of {guesses.made} guesses are correct"
    )
    status: Status = "contradicted" if why else "verified" if claim else "measured"
    return Verified("canaries", status, f"{text}; {why}" if why else text), bounds


def open_losses(checkpoint: Path, device: str) -> DocumentModel:
    """Open a model that gives losses, or raise NotAuditableError."""
    model = open_model(str(checkpoint), device=device)
    if Capability.LOSS not in model.capabilities:
        raise NotAuditableError(f"{checkpoint} gives no losses", "Give the checkpoint itself")
    return model


def summed_loss(response: Response | None) -> float:
    """Summed negative log-likelihood of a canary's value.

    Raises:
        AuditError: The model gives no finite one; 0, that of a certain answer, would decide the guess of its coin.
    """
    if response is None or response.loss is None or not isfinite(response.loss):
        raise AuditError("the model gives no loss for the value of a canary", "Give a model that gives losses")
    return response.loss * (response.tokens or 1)


def canary_losses(model: DocumentModel, queries: Sequence[Query], progress: Progress) -> NDArray[np.float64]:
    """Summed negative log-likelihood of the answer of every query, float64 (queries,).

    Raises:
        AuditError: The model gives no loss for one.
    """
    losses = np.empty(len(queries))
    with progress.task("questions about canaries", len(queries)) as task:
        for batch in _batches(model, queries):
            for at, response in zip(batch, model.respond([queries[at] for at in batch]), strict=True):
                losses[at] = summed_loss(response)
            task.advance(len(batch))
    return losses


def _batches(model: DocumentModel, queries: Sequence[Query]) -> Iterator[list[int]]:
    costs = [model.cost(query) for query in queries]
    order = sorted(range(len(queries)), key=lambda at: (-costs[at], at))
    while order:
        size = model.batch_size(costs[order[0]])
        batch, order = order[:size], order[size:]
        yield batch


def _guarantee(review: GuaranteeReview | None) -> Verified:
    if review is None:
        return Verified("guarantee", "not checked", "none is stated")
    status: dict[str, Status] = {"holds": "verified", "unknown": "unknown"}
    return Verified("guarantee", status.get(review.worth, "contradicted"), review.text)


def _data(
    record: dict[str, Any], review: GuaranteeReview | None, checkpoint: Path, expected: Expected
) -> Iterator[Verified]:
    """Commitment to the documents, and the entry of the ledger."""
    data = record.get("data")
    stated = data.get("commitment") if isinstance(data, dict) else None
    path = expected.private or private_path(checkpoint)
    private = read_json(path) if expected.private or is_there(path) else None
    if stated is None:
        yield Verified("documents", "not checked", "the record has no commitment to them")
    elif not isinstance(private, dict):
        yield Verified("documents", "not checked", "the private record is not here (--private)")
    else:
        yield _committed(private, record, str(stated))
    budget = private.get("budget") if isinstance(private, dict) else None
    named = budget.get("ledger") if isinstance(budget, dict) else None
    ledger = expected.ledger or (Path(named) if isinstance(named, str) else None)
    if stated is None or ledger is None or not (expected.ledger or is_there(ledger)):
        yield Verified("ledger", "not checked", "no ledger of the data is known (--ledger)")
    else:
        yield _reserved(Ledger(ledger), str(stated), record, review)


def _reserved(ledger: Ledger, run: str, record: dict[str, Any], review: GuaranteeReview | None) -> Verified:
    """The entry of the ledger, held against the cost of the mechanism that the record states."""
    if review is None or review.claim is None or review.epsilon is None:
        return Verified("ledger", "unknown", "the record states no mechanism whose cost could be compared")
    return {
        None: Verified("ledger", "unknown", "the ledger does not have the run: it may be one of other data"),
        True: Verified("ledger", "verified", "the run is reserved in the ledger at the cost of the stated mechanism"),
        False: Verified("ledger", "contradicted", "the ledger has another cost for the run than the stated mechanism"),
    }[ledger.agrees(run, mechanism_of(record, review.claim)[0].cost(review.claim.delta))]


def _committed(private: dict[str, Any], record: Any, stated: str) -> Verified:
    data, identity = private.get("data"), private.get("identity")
    if not isinstance(data, dict) or not isinstance(identity, dict):
        return Verified("documents", "contradicted", "the private record is none")
    if commitment(str(data.get("salt")), str(identity.get("data"))) != stated:
        return Verified("documents", "contradicted", "the private record does not have the hash of the commitment")
    try:
        same = public_part(private) == record
    except KeyError:
        same = False
    if not same:
        return Verified("documents", "contradicted", f"{RECORD} differs from the private record")
    return Verified("documents", "verified", "the private record has the hash of the commitment")
