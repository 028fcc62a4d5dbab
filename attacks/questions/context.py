"""What attacks that ask questions about pages get."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pfl_audit.attacks.questions.canaries import ReleasedCanaries
from pfl_audit.attacks.questions.engine import QueryEngine
from pfl_audit.core.context import AuditContext
from pfl_audit.core.store import Records
from pfl_audit.documents.corpus import Corpus
from pfl_audit.documents.units import UNITS, Unit
from pfl_audit.models.calls import Workers


@dataclass(frozen=True, kw_only=True)
class QuestionParts:
    """Models that answer questions about pages, and the documents.

    Attributes:
        pretrained: Public model that the target was trained from, or None.
        red: Queries of members and non-members, grouped by the unit of privacy.
        blue: Training corpus, or None.
        reader: OCR of the pictures of pages, or None.
        control: Model that saw neither members nor non-members, as competent as the target (an out-model), or None.
        references: Further out-models, for attacks that compare the target with several; none, or two at least.
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
        classes_random: Whether the user declares that members and non-members were drawn at random.
    """

    classes_random: bool = False

    @property
    def unit(self) -> Unit:
        """Unit of privacy, by which the corpora are grouped."""
        return UNITS[self.red.unit]
