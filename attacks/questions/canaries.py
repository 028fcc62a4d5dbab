"""Document canaries that a checkpoint reveals."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pfl_audit.core.training_record import read_training
from pfl_audit.privacy.canary_coins import RECORD, Manifest
from pfl_audit.privacy.guarantee import PrivacyGuarantee
from pfl_audit.training.records import RECORD as TRAINING
from pfl_audit.training.verify import Expected, read_coins


@dataclass(frozen=True)
class ReleasedCanaries:
    """What a checkpoint says of its canaries.

    Attributes:
        manifest: Coins, with the hash of the commitment in the training record; None if they do not have it.
        claim: The stated guarantee, or None.
        pages: Folder for the page images.
        text: What was found of the coins, in a sentence.
    """

    manifest: Manifest | None
    claim: PrivacyGuarantee | None
    pages: Path
    text: str


def read_canaries(checkpoint: Path, pages: Path) -> ReleasedCanaries | None:
    """The canaries of a checkpoint; None if it has none.

    Raises:
        AuditError: A record cannot be read.
    """
    if not (checkpoint / RECORD).is_file():
        return None
    found, manifest = read_coins(checkpoint, Expected())
    _, review = read_training(checkpoint / TRAINING)
    return ReleasedCanaries(manifest, review.claim if review else None, pages, found.text)
