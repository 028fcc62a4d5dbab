"""Resamples of an audit's numbers, kept in its private folder so that a later audit can be compared pair by pair.

Two audits with the same seed that ask about the same documents draw the same resamples of providers. The difference of
a number, resample by resample, is then the paired bootstrap of its change. They are private: with the seed, the
resamples of a mean give the value of every provider.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pfl_audit.core.evidence import PRIVATE
from pfl_audit.core.fields import Finite, Name, Slice, few
from pfl_audit.core.metric import bootstrap_over
from pfl_audit.core.results import Check, Metric, Provenance, Results
from pfl_audit.errors import AuditError
from pfl_audit.files import write_json
from pfl_audit.inputs import is_regular, read_json
from pfl_audit.metrics.arrays import Floats
from pfl_audit.metrics.intervals import RESAMPLES

FILE: Final = "resamples.json"
_DIGITS: Final = 6
_MOST: Final = 2000
"""Numbers of an audit that are kept at most."""


class _Kept(BaseModel):
    """Resamples of one number."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    check: Name
    metric: Name
    slice: Slice
    values: Annotated[list[Finite], few(RESAMPLES)]


class _File(BaseModel):
    """Content of the file; ``started`` and ``seed`` are those of the results that it belongs to."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    started: Name
    seed: int
    numbers: Annotated[list[_Kept], Field(max_length=_MOST)]


class Resamples:
    """Resamples of the numbers of an audit.

    Args:
        kept: Those of a file; none where there is no file.
    """

    def __init__(self, kept: list[_Kept]) -> None:
        self._known = {_key(one.check, one.metric, one.slice): np.array(one.values) for one in kept}

    def of(self, check: Check, metric: Metric) -> Floats | None:
        """Values of a number in all resamples, float (RESAMPLES,), or None."""
        found = self._known.get(_key(check.id, metric.name, metric.slice))
        return found if found is not None and len(found) == RESAMPLES else None


def keep_resamples(checks: Sequence[Check], provenance: Provenance, folder: Path) -> None:
    """Write the resamples of the audited model's numbers into the private folder of a run, where there are any.

    Args:
        checks: As the attacks returned them; what is read from results.json has no resamples.
        provenance: That of the results.
        folder: Of the run.
    """
    kept = [
        {
            "check": check.id,
            "metric": metric.name,
            "slice": metric.slice,
            "values": [float(f"{value:.{_DIGITS}g}") for value in metric.resamples],
        }
        for check in checks
        if check.finding is not None
        for metric in check.metrics
        if metric.slice.get("model") == "target" and _is_paired(metric)
    ][:_MOST]
    if kept:
        about = {"started": provenance.started, "seed": provenance.seed}
        write_json(folder / PRIVATE / FILE, {**about, "numbers": kept})


def read_resamples(results: Results, folder: Path) -> Resamples:
    """Resamples of an audit; none where its folder has none, or those of other results."""
    path = folder / PRIVATE / FILE
    if not is_regular(path):
        return Resamples([])
    try:
        found = _File.model_validate(read_json(path))
    except (ValidationError, AuditError):
        return Resamples([])
    own = (results.provenance.started, results.provenance.seed)
    return Resamples(found.numbers if (found.started, found.seed) == own else [])


def _is_paired(metric: Metric) -> bool:
    """Whether the interval is of resamples alone: an exact one has drawn no providers."""
    method = metric.method or ""
    return method.startswith(bootstrap_over("")) and "exact" not in method and len(metric.resamples) == RESAMPLES


def _key(check: str, metric: str, about: Slice) -> tuple[object, ...]:
    return check, metric, tuple(sorted((name, str(value)) for name, value in about.items()))
