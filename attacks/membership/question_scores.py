"""Scores of single questions from losses of their right answers, before any mean over a company: pure functions.

A question's confidence is p = exp(-loss), the geometric mean of the probabilities of the answer's tokens. That of the
whole answer is p to the power of its number of tokens, 1 to some 20: the few long answers that a model gets wrong would
outweigh all others, and LiRA's one deviation for all questions would be theirs. The geometric mean has one scale for
all lengths (it is the confidence that Zarifzadeh et al. take for texts).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pandas as pd

from pfl_audit.metrics.arrays import Floats

LARGEST_LOSS: Final = 50.0
"""Nats a token; what is less likely, or impossible, counts as this."""
SMALLEST_LOSS: Final = 1e-6
"""Nats a token; nearer to 1 a probability in single precision is rounding, and at 1 its log-odds are infinite."""
OFFSET: Final = 1.0
"""The a of RMIA's offline form: a model that was trained on a record is taken to give it the probability a p + (1 - a),
where one that was not gives it p. The paper chooses a by data set. With 0.3, AUC on the demo corpus is .06 higher, but
most of the denominator of a hard question does not depend on the references, so that pages which are easier for every
model would count as members'. With 1, what makes pages hard is taken off.
"""


def log_odds(loss: Floats) -> Floats:
    """LiRA's statistic: log(p / (1 - p)) of a confidence p = exp(-loss) (Carlini et al. 2022, section VI.A).

    Args:
        loss: Mean loss of the right answer a token, nats, any shape; NaN stays NaN.
    """
    bounded = np.clip(loss, SMALLEST_LOSS, LARGEST_LOSS)
    return -bounded - np.log(-np.expm1(-bounded))


def lira_scores(odds: Floats, references: Floats) -> Floats:
    """Standard deviations of the references by which a question's log-odds lie above their mean.

    One deviation serves all questions, as the paper has it for few reference models: the root of the mean of their
    variances. The paper's score of a record is the normal distribution function of this one; that of a company is the
    mean over its questions, in which the bounded function would cut off what single questions show.

    Args:
        odds: Log-odds under the model, float (n,).
        references: The same under each reference model, float (n, k); NaN where one has no loss.

    Returns:
        float (n,), NaN where a value is; not divided where there is one reference, or all are alike.
    """
    variances = references.var(axis=1, ddof=1) if references.shape[1] > 1 else np.zeros(len(odds))
    known = variances[np.isfinite(variances)]
    spread = float(np.sqrt(known.mean())) if len(known) else 0.0
    return (odds - references.mean(axis=1)) / (spread if spread > 1e-6 else 1.0)


def rmia_scores(loss: Floats, references: Floats, companies: Sequence[str]) -> Floats:
    """Share of the questions about other companies whose ratio is at most that of a question (RMIA).

    The ratio is the probability under the model to that under the mean of models that saw the record and did not,
    taken as half of (1 + a) p_out + (1 - a), with p_out the mean over the references (Zarifzadeh et al. 2024, section
    3, and appendix B for a). The paper's population are records that were not trained on. An attacker who knows no
    membership has none, and known non-members would put labels into the score. So the population are all questions
    about all other companies, members' too, without a label. Members in it lower every share.

    The paper's factor by which a ratio must exceed another (gamma) is 2 for training records, and 1 here: the attacker
    asks about new pages, whose answers training makes a little likelier. On the demo corpus 1.1 takes AUC from .78 to
    .64.

    Args:
        loss: Mean loss of the right answer a token under the model, float (n,), nats.
        references: The same under each reference model, float (n, k).
        companies: Company of each question.

    Returns:
        float (n,), 0 to 1; NaN where a loss is, or no other company has one.
    """
    expected = ((1 + OFFSET) * np.exp(-references).mean(axis=1) + (1 - OFFSET)) / 2
    ratios = pd.Series(np.exp(-loss) / expected)
    own = ratios.groupby(np.asarray(companies, dtype=str))
    others = ratios.count() - own.transform("count")
    shares = (ratios.rank(method="max") - own.rank(method="max")) / others.where(others > 0)
    return shares.to_numpy(dtype=np.float64)
