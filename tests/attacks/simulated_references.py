"""Losses of a model, a control and reference models on questions of companies, without a model."""

import numpy as np
import pandas as pd

from pfl_audit.attacks.membership.question_scores import LARGEST_LOSS, lira_scores, log_odds, rmia_scores
from pfl_audit.attacks.membership.rows import ROWS, SCORES

MODELS = 4
REFERENCES = tuple(row for row in ROWS if set(row.features) <= set(SCORES))


def simulated(seed: int, leak: float = 0.0, size: int = 60) -> tuple[pd.DataFrame, pd.DataFrame, np.ndarray]:
    """Companies that differ in difficulty, under the model and a control, one row each, with their membership.

    Args:
        seed: Of all that is drawn.
        leak: By which the logarithm of the loss of members' questions is smaller.
        size: Companies of each class.
    """
    rng = np.random.default_rng([23, seed])
    labels = rng.permutation(np.arange(2 * size) < size)
    counts = rng.integers(3, 20, 2 * size)
    names = np.array([f"p{number:03d}" for number in range(2 * size)])
    company = np.repeat(np.arange(2 * size), counts)
    hard = rng.normal(0, 1, 2 * size)[company] + rng.normal(0, 2, len(company))
    logarithms = hard[:, None] + rng.normal(size=(len(company), MODELS + 2))
    logarithms[:, 0] -= leak * labels[company]
    loss = np.minimum(np.exp(logarithms), LARGEST_LOSS)
    references = loss[:, 2:]

    def table(model: int) -> pd.DataFrame:
        found = pd.DataFrame(
            {
                "loss": loss[:, model],
                "lira": lira_scores(log_odds(loss[:, model]), log_odds(references)),
                "rmia": rmia_scores(loss[:, model], references, names[company]),
            }
        )
        return found.groupby(names[company]).mean().assign(acc=0.5, nls=0.5, queries=counts)

    return table(0), table(1), labels
