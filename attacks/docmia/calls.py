"""Fine-tuning on a document, as a call of a model that this process or another holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from torch import nn

from pfl_audit.attacks.docmia.attack import DocmiaSettings
from pfl_audit.attacks.docmia.travel import Travel, last_matrices, travel
from pfl_audit.documents.document import Query
from pfl_audit.errors import AuditError
from pfl_audit.files import sha256_json
from pfl_audit.models.calls import Call
from pfl_audit.models.training_protocol import QuestionModel
from pfl_audit.models.weights import fingerprint_files
from pfl_audit.progress import Silent, Task
from pfl_audit.training.settings import TrainSettings
from pfl_audit.training.start import open_trainable
from pfl_audit.version import __version__


@dataclass(frozen=True)
class Held:
    """A model that is fine-tuned on documents, and the weights that move; between calls they are the checkpoint's."""

    model: QuestionModel
    weights: Sequence[nn.Parameter]


@dataclass(frozen=True)
class HeldOpening:
    """How a checkpoint is opened for fine-tuning; as of Opening.

    Attributes:
        matrices: As of DocmiaSettings.
        files: SHA-256 of the checkpoint's files.
        version: Version of pfl-audit.
    """

    folder: str
    device: str
    matrices: int
    files: str
    version: str = __version__

    def open(self) -> Held:
        """As of Opening."""
        if files_of(Path(self.folder)) != self.files:
            raise AuditError(f"{self.folder} has changed since it was opened", "Repeat the command")
        return hold(Path(self.folder), self.device, self.matrices)


def files_of(checkpoint: Path) -> str:
    """SHA-256 of the files that decide what the optimisation finds."""
    return sha256_json(fingerprint_files(checkpoint))


def hold(checkpoint: Path, device: str, matrices: int) -> Held:
    """Open a checkpoint.

    Raises:
        AuditError: It cannot be opened, or cannot be trained.
    """
    model = open_trainable(checkpoint, TrainSettings(), device)
    return Held(model, last_matrices(model.network, model.is_frozen, matrices))


def travelling(queries: Sequence[Query], settings: DocmiaSettings) -> Call[Held, Travel]:
    """The call that fine-tunes on the document of some queries."""
    return partial(_travel_by, list(queries), settings)


def _travel_by(queries: list[Query], settings: DocmiaSettings, held: Held, task: Task) -> Travel:
    examples = held.model.examples(queries, Silent())
    loss = partial(examples.loss, range(len(examples)))
    return travel(loss, held.weights, settings.rate, settings.steps, settings.tolerance)
