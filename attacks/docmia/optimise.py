"""The optimisation on every document of a corpus, with results kept in the store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pandas as pd

from pfl_audit.attacks.docmia.attack import DocmiaSettings
from pfl_audit.attacks.docmia.calls import Held, HeldOpening, files_of, hold, travelling
from pfl_audit.attacks.docmia.travel import Travel
from pfl_audit.core.store import Records
from pfl_audit.documents.corpus import Corpus
from pfl_audit.documents.document import Query
from pfl_audit.errors import UnanswerableError
from pfl_audit.files import sha256_json
from pfl_audit.models.calls import Calls, InTurn, Workers, require_given
from pfl_audit.progress import Progress
from pfl_audit.version import __version__

COLUMNS = ("distance", "steps", "before", "after")


def optimise_documents(
    checkpoint: Path,
    fingerprint: str,
    corpus: Corpus,
    settings: DocmiaSettings,
    device: str,
    records: Records,
    progress: Progress,
    purpose: str,
    workers: Workers | None = None,
) -> pd.DataFrame:
    """Fine-tune a checkpoint on each document by itself; what was done before is taken from the store.

    Args:
        checkpoint: Folder of a model that can be trained.
        fingerprint: SHA-256 of its weights and configuration.
        corpus: Queries grouped by document; the first accepted answer is the target.
        purpose: Title of the progress display.
        workers: Other processes, which fine-tune on a document each; this one alone where not given.

    Returns:
        ``distance``, ``steps``, ``before`` and ``after`` as of `Travel`, indexed by document, sorted; documents whose
        page cannot be read, or whose loss is not finite, are left out.

    Raises:
        AuditError: The checkpoint cannot be opened, or cannot be trained.
    """
    groups = {unit: _asked(queries, settings.questions) for unit, queries in corpus.by_unit().items()}
    keys: dict[str, str] = {}
    for unit, queries in groups.items():
        try:
            keys[unit] = _key(fingerprint, queries, settings)
        except UnanswerableError:
            continue
    found = {unit: value for unit, key in keys.items() if (value := records.get(key)) is not None}
    pending = [unit for unit in keys if unit not in found]
    with progress.task(purpose, len(keys), len(found)) as task:
        if pending:
            calls = _calls(checkpoint, settings, device, workers)
            works = [travelling(groups[unit], settings) for unit in pending]
            for at, one in calls.each(works, task, [1] * len(works)):
                if isinstance(one, UnanswerableError):
                    continue
                require_given(isinstance(one, Travel))
                unit = pending[at]
                found[unit] = asdict(one)
                records.put(keys[unit], found[unit])
    table = pd.DataFrame.from_dict(found, orient="index", columns=list(COLUMNS)).astype(np.float64).sort_index()
    kept: pd.DataFrame = table[np.isfinite(table.to_numpy()).all(axis=1)]
    return kept


def _calls(checkpoint: Path, settings: DocmiaSettings, device: str, workers: Workers | None) -> Calls[Held]:
    """What holds the model."""
    if workers is None:
        return InTurn(hold(checkpoint, device, settings.matrices))
    return workers.calls(HeldOpening(str(checkpoint), device, settings.matrices, files_of(checkpoint)))


def _asked(queries: Sequence[Query], most: int) -> list[Query]:
    return sorted(queries, key=lambda query: query.id)[:most]


def _key(fingerprint: str, queries: Sequence[Query], settings: DocmiaSettings) -> str:
    used: Mapping[str, object] = settings.model_dump(include={"matrices", "rate", "steps", "tolerance"})
    asked = [[query.document.digest, query.question, query.answers[0]] for query in queries]
    return sha256_json(["docmia", __version__, fingerprint, asked, used])
