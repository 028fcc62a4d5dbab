"""Table of pages with the scores of a model and of a control."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from pfl_audit.documents.document import Query
from pfl_audit.metrics.answers import accuracy, anls
from pfl_audit.models.protocol import Response

COLUMNS = ("page", "provider", "member", "clues", "acc", "anls", "conf", "loss", "exposure")
BESIDE = ("acc", "anls", "loss", "exposure")
"""Columns that a control has too, as ``acc_control`` and so on."""


def pages_table(
    queries: Sequence[Query],
    members: Mapping[str, bool],
    responses: Mapping[str, Response],
    clues: Mapping[str, int],
    exposures: Mapping[str, float],
) -> pd.DataFrame:
    """Scores of every page that could be asked about.

    Args:
        queries: About scrubbed pages.
        members: Provider to whether it was trained on; pages of others are left out.
        responses: Query id to response. A loss that is missing or not finite becomes NaN: the page then counts for
            the answers and not for the losses. An empty answer has ACC 0 and ANLS 0.
        clues: Query id to the number of residual clues.
        exposures: Query id to exposure in bits, where it was measured.

    Returns:
        COLUMNS; ``member`` bool, ``clues`` int, the rest but names float with NaN where there is nothing.
    """
    rows = [
        {
            "page": query.document.id,
            "provider": query.document.provider,
            "member": members[query.document.provider],
            "clues": clues.get(query.id, 0),
            "acc": accuracy(responses[query.id].answer, query.answers),
            "anls": anls(responses[query.id].answer, query.answers),
            "conf": _number(responses[query.id].confidence),
            "loss": _number(responses[query.id].loss),
            "exposure": exposures.get(query.id, np.nan),
        }
        for query in queries
        if query.id in responses and query.document.provider in members
    ]
    return pd.DataFrame(rows, columns=list(COLUMNS))


def beside(pages: pd.DataFrame, control: pd.DataFrame | None) -> pd.DataFrame:
    """The table with the control's columns beside it, NaN where the control said nothing.

    Returns:
        The columns of ``pages``, those of BESIDE with the suffix ``_control``, and ``ratio``: the mean log-likelihood
        of a token of the true value minus that under the control, in nats.
    """
    found = pages.copy()
    other = control.set_index("page") if control is not None else None
    for name in BESIDE:
        found[f"{name}_control"] = np.nan if other is None else found["page"].map(other[name])
    found["ratio"] = found["loss_control"] - found["loss"]
    return found


def _number(value: float | None) -> float:
    return float(value) if value is not None and np.isfinite(value) else float("nan")
