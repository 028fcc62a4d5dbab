"""Losses of a model, a control and reference models, without a model."""

import numpy as np
import pandas as pd

from pfl_audit.attacks.membership.features import with_scores
from pfl_audit.attacks.membership.rows import ROWS

MODELS = 4
REFERENCES = tuple(row for row in ROWS if row.access == "RK")


def simulated(seed: int, leak: float = 0.0, size: int = 60) -> tuple[pd.DataFrame, pd.DataFrame, np.ndarray]:
    """Losses of providers who differ in difficulty, under the model, a control and the references."""
    rng = np.random.default_rng([23, seed])
    labels = rng.permutation(np.arange(2 * size) < size)
    questions = rng.integers(3, 20, 2 * size)
    hard = rng.gamma(4.0, 0.4, 2 * size)
    shape = (2 * size, MODELS + 2)
    loss = np.abs(hard[:, None] + rng.normal(size=shape) / np.sqrt(questions)[:, None])
    loss[:, 0] = np.maximum(loss[:, 0] - leak * labels / np.sqrt(questions), 0.0)
    index = pd.Index([f"p{number:03d}" for number in range(2 * size)])

    def table(model: int) -> pd.DataFrame:
        own = {"acc": 0.5, "nls": 0.5, "queries": questions, "loss": loss[:, model], "loglik": -3 * loss[:, model]}
        beside = {f"loss_ref_{number}": loss[:, 2 + number] for number in range(MODELS)}
        beside |= {f"loglik_ref_{number}": -3 * loss[:, 2 + number] for number in range(MODELS)}
        return with_scores(pd.DataFrame(own | beside, index=index), MODELS)

    return table(0), table(1), labels
