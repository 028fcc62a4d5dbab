"""Scores of membership from the optimisation on documents, as pure functions over a table.

Everywhere a row is a document, and a higher score means "member".
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from pfl_audit.attacks.membership import classifiers
from pfl_audit.attacks.membership.evaluation import Trial
from pfl_audit.attacks.membership.rows import AttackRow
from pfl_audit.metrics.arrays import Floats

ROWS = (
    AttackRow("distance", "Distance of the weights", "ratio", (), "WB+U"),
    AttackRow("steps", "Number of steps", "ratio", (), "WB+U"),
    AttackRow("fall", "Fall of the loss", "ratio", (), "WB+U"),
    AttackRow("loss", "Loss before optimisation", "ratio", (), "PK+U"),
    AttackRow("clusters", "Clusters of distance, steps and loss", "clusters", (), "WB+U"),
)
PROXY_ROW = AttackRow("proxy", "Distance of the weights of a proxy model", "ratio", (), "ZK+U")


def score(row: AttackRow, table: pd.DataFrame, seed: int) -> Trial:
    """Scores and calls of one attack on all documents; no label is used.

    Args:
        table: ``distance``, ``steps``, ``before`` and ``after`` of every document, float64.
        seed: Seed of the clusters.
    """
    if row.id == "clusters":
        features = table[["distance", "steps", "before", "after"]].to_numpy(dtype=np.float64)
        called = classifiers.predict_kmeans(features, -table["distance"].to_numpy(dtype=np.float64), seed)
        return Trial(np.arange(len(table)), called, called.astype(np.float64))
    scores = -_values(row, table)
    return Trial(np.arange(len(table)), classifiers.predict_kmeans(scores[:, None], scores, seed), scores)


def _values(row: AttackRow, table: pd.DataFrame) -> Floats:
    column = {"steps": "steps", "loss": "before"}.get(row.id, "distance")
    values = table["before"] - table["after"] if row.id == "fall" else table[column]
    return np.asarray(values, dtype=np.float64)
