"""The optimisation on every document of a corpus, by this process or others, with results kept in the store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from torch import nn

from pfl_audit.attacks.docmia.specs import DocmiaSettings
from pfl_audit.attacks.docmia.travel import Travel, last_matrices, travel
from pfl_audit.attacks.questions.context import QuestionContext
from pfl_audit.documents.corpus import Corpus
from pfl_audit.documents.document import Query
from pfl_audit.errors import AuditError, NotAuditableError, UnanswerableError
from pfl_audit.files import sha256_json
from pfl_audit.models.calls import Calls, InTurn, Workers, require_given
from pfl_audit.models.training_protocol import QuestionModel
from pfl_audit.models.weights import fingerprint_files
from pfl_audit.progress import Silent, Task
from pfl_audit.training.settings import TrainSettings
from pfl_audit.training.start import open_trainable
from pfl_audit.version import __version__

COLUMNS = ("distance", "steps", "before", "after")


@dataclass(frozen=True)
class Held:
    """A model that is fine-tuned on documents, and the weights that move; between calls they are the checkpoint's."""

    model: QuestionModel
    weights: Sequence[nn.Parameter]


@dataclass(frozen=True)
class HeldOpening:
    """Opening of a checkpoint for fine-tuning.

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
        """Open it, and refuse a model that has changed since."""
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


def travel_on(queries: Sequence[Query], settings: DocmiaSettings, held: Held, task: Task) -> Travel:
    """Fine-tune on the document of some queries; with the first two arguments bound, a call of what holds the model."""
    examples = held.model.examples(queries, Silent())
    loss = partial(examples.loss, range(len(examples)))
    return travel(loss, held.weights, settings.rate, settings.steps, settings.tolerance)


def optimise_documents(
    checkpoint: Path,
    fingerprint: str,
    corpus: Corpus,
    settings: DocmiaSettings,
    context: QuestionContext,
    purpose: str,
    workers: Workers | None = None,
) -> pd.DataFrame:
    """Fine-tune a checkpoint on each document by itself; what was done before is taken from the store.

    Args:
        checkpoint: Folder of a model that can be trained.
        fingerprint: SHA-256 of its weights and configuration.
        corpus: Queries grouped by document; the first accepted answer is the target.
        context: Its device, store and progress display.
        purpose: Title of the progress display.
        workers: Other processes, which fine-tune on a document each; this one alone where not given.

    Returns:
        ``distance``, ``steps``, ``before`` and ``after`` as of `Travel`, indexed by document, sorted; documents whose
        page cannot be read, or whose loss is not finite, are left out.

    Raises:
        NotAuditableError: There is no store.
        AuditError: The checkpoint cannot be opened, or cannot be trained.
    """
    records = context.records
    if records is None:
        raise NotAuditableError("there is no store for what the optimisation finds", "Audit with a store")
    groups = {
        unit: sorted(queries, key=lambda query: query.id)[: settings.questions]
        for unit, queries in corpus.by_unit().items()
    }
    keys: dict[str, str] = {}
    for unit, queries in groups.items():
        try:
            keys[unit] = _key(fingerprint, queries, settings)
        except UnanswerableError:
            continue
    found = {unit: value for unit, key in keys.items() if (value := records.get(key)) is not None}
    pending = [unit for unit in keys if unit not in found]
    with context.progress.task(purpose, len(keys), len(found)) as task:
        if pending:
            calls = _calls(checkpoint, settings, context.device, workers)
            works = [partial(travel_on, groups[unit], settings) for unit in pending]
            for at, one in calls.each(works, task, [1] * len(works)):
                if isinstance(one, UnanswerableError):
                    continue
                require_given(isinstance(one, Travel))
                unit = pending[at]
                found[unit] = asdict(one)
                records.put(keys[unit], found[unit])
    table = pd.DataFrame.from_dict(found, orient="index", columns=list(COLUMNS)).astype(np.float64).sort_index()
    return table[np.isfinite(table.to_numpy()).all(axis=1)]


def _calls(checkpoint: Path, settings: DocmiaSettings, device: str, workers: Workers | None) -> Calls[Held]:
    """What holds the model."""
    if workers is None:
        return InTurn(hold(checkpoint, device, settings.matrices))
    return workers.calls(HeldOpening(str(checkpoint), device, settings.matrices, files_of(checkpoint)))


def _key(fingerprint: str, queries: Sequence[Query], settings: DocmiaSettings) -> str:
    used: Mapping[str, object] = settings.model_dump(include={"matrices", "rate", "steps", "tolerance"})
    asked = [[query.document.digest, query.question, query.answers[0]] for query in queries]
    return sha256_json(["docmia", __version__, fingerprint, asked, used])
