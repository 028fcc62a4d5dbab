"""Attacks with several reference models: models like the one under audit that saw no provider of RED (out-models).

Offline forms of LiRA (Carlini et al. 2022, section VI) and of RMIA (Zarifzadeh, Liu and Shokri 2024, section 3), for
providers instead of single records. No label is used. Everywhere a row is a provider and a column a reference model.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pandas as pd

from pfl_audit.metrics.arrays import Floats

FEWEST: Final = 2
"""Reference models that a spread takes."""
OFFSET: Final = 1.0
"""The a of RMIA's offline form: a model that was trained on a record is taken to give it the probability a p + (1 - a),
where one that was not gives it p. The paper chooses a by data set. Here the attacker asks about new documents of a
company, which training on its other documents makes only a little more likely: a = 1. With 0.3, a model would have to
answer every member's page almost surely, and what makes pages hard would not be taken off.
"""


def names(number: int) -> tuple[str, str]:
    """Columns of one reference model: log-likelihood of the right answers, and mean loss a token."""
    return f"loglik_ref_{number}", f"loss_ref_{number}"


def with_scores(table: pd.DataFrame, models: int) -> pd.DataFrame:
    """The table with the columns ``lira`` and ``rmia``.

    Args:
        table: One row a provider, with ``loglik`` and ``loss`` and those of each reference model.
    """
    columns = zip(*map(names, range(models)), strict=True)
    loglik, loss = (table[list(every)].to_numpy(dtype=np.float64) for every in columns)
    lira = lira_scores(table["loglik"].to_numpy(dtype=np.float64), loglik)
    rmia = rmia_scores(table["loss"].to_numpy(dtype=np.float64), loss)
    return table.assign(lira=lira, rmia=rmia)


def lira_scores(loglik: Floats, references: Floats) -> Floats:
    """Standard deviations of the references by which the model's log-likelihood lies above their mean.

    One spread serves all providers, as the paper has it for few reference models: pooled over the providers. The
    paper's score is the normal distribution function of this one, which gives the same order.

    Args:
        loglik: Mean log-likelihood of the right answers under the model, float (n,).
        references: The same under each reference model, float (n, k), k of two at least.

    Returns:
        float (n,); not divided where the references are all alike.
    """
    spread = float(np.sqrt(references.var(axis=1, ddof=1).mean()))
    scores: Floats = (loglik - references.mean(axis=1)) / (spread if spread > 1e-12 else 1.0)
    return scores


def rmia_scores(loss: Floats, references: Floats, offset: float = OFFSET) -> Floats:
    """RMIA's ratio: probability under the model to that under the mean of models that saw the provider and did not.

    The probability is the geometric mean a token, exp(-loss). Its mean over all models is taken as half of
    (1 + a) p_out + (1 - a), with p_out the mean over the references; with a = 1 it is p_out. The paper goes on to the
    share of a population whose ratio is smaller by a factor gamma. With one population for all providers that share
    rises with the ratio and only makes some of them equal: the order is that of the ratio, which is the score here.

    Args:
        loss: Mean loss of the right answers a token under the model, float (n,), nats.
        references: The same under each reference model, float (n, k).
        offset: a, 0 to 1.

    Returns:
        float (n,), above 0.
    """
    out = np.exp(-references).mean(axis=1)
    scores: Floats = np.exp(-loss) / (((1 + offset) * out + (1 - offset)) / 2)
    return scores
