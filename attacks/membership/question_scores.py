"""Scores of single questions from losses of their right answers, before any mean over a company: pure functions.

A question's confidence is p = exp(-loss), the geometric mean of the probabilities of the answer's tokens. That of the
whole answer is p to the power of its number of tokens, 1 to some 20: the few long answers that a model gets wrong would
outweigh all others, and LiRA's one deviation for all questions would be theirs. The geometric mean has one scale for
all lengths (it is the confidence that Zarifzadeh et al. take for texts).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
import pandas as pd
from sklearn.linear_model import Ridge
from sklearn.model_selection import GroupKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from pfl_audit.metrics.arrays import Floats

Losses = Sequence[tuple[float, ...] | None]
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


FOLDS: Final = 10
"""Of companies, each of which is compared with a fit on the others."""
PENALTY: Final = 1.0
"""Of the squared coefficients of standardised covariates; from 0.1 to 100, AUC on the demo corpus differs by .01."""
WINDOWS: Final = (1, 2, 4, 8)
"""Tokens of the windows that are compared; the paper's texts are longer, and its windows reach 40."""
HARD: Final = 1 / 3
"""Share of the tokens of an answer that count as hard, one at least."""


def log_odds(loss: Floats) -> Floats:
    """LiRA's statistic: log(p / (1 - p)) of a confidence p = exp(-loss) (Carlini et al. 2022, section VI.A).

    Args:
        loss: Mean loss of the right answer a token, nats, any shape; NaN stays NaN.
    """
    bounded = np.clip(loss, SMALLEST_LOSS, LARGEST_LOSS)
    return -bounded - np.log(-np.expm1(-bounded))


def residual_scores(odds: Floats, covariates: Floats, companies: Sequence[str]) -> Floats:
    """Log-odds of a question beyond what is expected from its covariates, fitted on other companies.

    After the quantile regression of Bertran et al. (2023), for scores that are averaged: a company needs how far its
    questions lie from what is expected, and no threshold, so the conditional mean takes the place of a quantile (on the
    demo corpus an AUC of .88, counts of five conditional quantiles .85). No label is used: members' questions are among
    those of the fit as well, and raise what is expected of all alike.

    Args:
        odds: Log-odds under the model, float (n,).
        covariates: What is known of each question, float (n, columns).
        companies: Company of each; the fit that a question is compared with has no question of the same tenth of the
            companies.

    Returns:
        float (n,); NaN where a value is, or where there is one company.
    """
    found = np.full(len(odds), np.nan)
    known = np.isfinite(odds) & np.isfinite(covariates).all(axis=1)
    groups = np.asarray(companies, dtype=str)[known]
    folds = min(FOLDS, len(set(groups)))
    if folds > 1:
        model = make_pipeline(StandardScaler(), Ridge(PENALTY))
        split = GroupKFold(folds)
        found[known] = odds[known] - cross_val_predict(model, covariates[known], odds[known], groups=groups, cv=split)
    return found


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


def window_scores(target: Losses, reference: Losses) -> Floats:
    """Share of the windows of an answer's tokens in which the model's losses sum to less than the reference's.

    Of every size the share of its windows, then the mean over the sizes (Window-Based Comparison, arXiv 2601.02751); a
    window that is longer than the answer is the whole answer.

    Args:
        target: Losses of the tokens of each answer under the model, nats.
        reference: The same under another model.

    Returns:
        float (n,), 0 to 1; NaN where one has none; NaN everywhere where an answer has other numbers of tokens under
        the two, whose tokenizers are unlike then.
    """

    def score(own: Floats, other: Floats) -> float:
        sums = [np.convolve(other - own, np.ones(min(size, len(own))), "valid") for size in WINDOWS]
        return float(np.mean([np.mean(each > 0) for each in sums]))

    return _by_token(target, reference, score)


def hard_token_scores(target: Losses, reference: Losses) -> Floats:
    """Mean of the probabilities of an answer's hard tokens under the model, minus those under the reference.

    Hard are the tokens that are the least probable under the model (HT-MIA, arXiv 2601.20885).

    Args:
        target: As of ``window_scores``, and so is what is returned.
        reference: Likewise.
    """

    def score(own: Floats, other: Floats) -> float:
        hard = np.argsort(-own, kind="stable")[: max(1, round(HARD * len(own)))]
        return float(np.mean(np.exp(-own[hard]) - np.exp(-other[hard])))

    return _by_token(target, reference, score)


def _by_token(target: Losses, reference: Losses, score: Callable[[Floats, Floats], float]) -> Floats:
    pairs = [(np.asarray(own or ()), np.asarray(other or ())) for own, other in zip(target, reference, strict=True)]
    if any(len(own) != len(other) for own, other in pairs if len(own) and len(other)):
        return np.full(len(pairs), np.nan)
    return np.array([score(own, other) if len(own) and len(other) else np.nan for own, other in pairs])
