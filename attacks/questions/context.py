"""What attacks that ask questions about pages get."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pfl_audit.attacks.questions.engine import QueryEngine
from pfl_audit.attacks.questions.inputs import ClassesRandom
from pfl_audit.core.context import AuditContext
from pfl_audit.core.store import Records
from pfl_audit.core.training_record import read_training
from pfl_audit.documents.corpus import Corpus
from pfl_audit.documents.document import Membership
from pfl_audit.documents.units import UNITS, Unit
from pfl_audit.models.calls import Workers
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


@dataclass(frozen=True, kw_only=True)
class QuestionParts:
    """Models that answer questions about pages, and the documents.

    Attributes:
        pretrained: Public model that the target was trained from, or None.
        red: Queries of members and non-members, grouped by the unit of privacy.
        blue: Training corpus, or None.
        reader: OCR of the pictures of pages, or None.
        control: Model that saw neither members nor non-members, as competent as the target (an out-model), or None.
        references: Further out-models, for attacks that compare the target with several; one alone only with a control.
        canaries: Document canaries that the target reveals, or None.
        weights: ``target``, ``control`` and ``pre-trained`` to the folder of the checkpoint, of those that can be
            trained.
        device: torch's name of the device.
        records: Records of long computations, or None.
        states: Folder where long computations keep their state, or None.
        workers: Other processes that compute at the same time; None for this one alone.
    """

    target: QueryEngine
    pretrained: QueryEngine | None = None
    red: Corpus
    blue: Corpus | None = None
    reader: QueryEngine | None = None
    control: QueryEngine | None = None
    references: tuple[QueryEngine, ...] = ()
    canaries: ReleasedCanaries | None = None
    weights: Mapping[str, Path] = field(default_factory=dict)
    device: str = "cpu"
    records: Records | None = None
    states: Path | None = None
    workers: Workers | None = None


@dataclass(frozen=True, kw_only=True)
class QuestionContext(AuditContext, QuestionParts):
    """Context of attacks that ask questions about pages.

    Attributes:
        classes_random: What the user declares to be drawn at random into the classes, units or whole groups; or None.
    """

    classes_random: ClassesRandom | None = None

    @property
    def unit(self) -> Unit:
        """Unit of privacy, by which the corpora are grouped."""
        return UNITS[self.red.unit]

    @property
    def groups(self) -> dict[str, str]:
        """Unit of RED to the name of the group that it belongs to; a unit without a group is its own."""
        return self.red.groups

    @property
    def members(self) -> dict[str, bool]:
        """Unit of privacy to whether it was trained on, of those of which that is known."""
        labels = {unit: self.red.label(unit) for unit in self.red.units}
        return {unit: label is Membership.MEMBER for unit, label in labels.items() if label is not Membership.UNKNOWN}

    @property
    def models(self) -> dict[str, QueryEngine]:
        """Name to every model that can be asked, the target first."""
        named = {"target": self.target, "pre-trained": self.pretrained, "control": self.control}
        return {name: engine for name, engine in named.items() if engine is not None}

    @property
    def control_name(self) -> str | None:
        """Name of the model that the target is compared with: an out-model, else the pre-trained one."""
        return next((name for name in ("control", "pre-trained") if name in self.models), None)
