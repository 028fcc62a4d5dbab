"""Features of providers that differ where their documents were trained on: groups G1 to G4, and likelihood ratios.

Source: privacy-aware-docvqa, section 5.2.2. One row a provider, each value a mean over its queries. Not of
that paper: likelihood ratios of the right answers and, beside its G4, of the true name on pages that do not show it;
and scores with several reference models, which are like the one under audit and saw no provider of RED (out-models).
These are offline forms of LiRA (Carlini et al. 2022, section VI) and of RMIA (Zarifzadeh, Liu and Shokri 2024,
section 3), for providers instead of single records, and use no label.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import pandas as pd

from pfl_audit.attacks.membership.rows import G1, G2, G3, G4, LIKELIHOODS, SCRUBBED_RATIO
from pfl_audit.documents.document import Query
from pfl_audit.metrics.answers import accuracy, anls, similarity
from pfl_audit.metrics.arrays import Floats
from pfl_audit.models.protocol import Response

LARGEST_LOSS: Final = 50.0
"""Nats a token; what is less likely, or impossible, counts as this."""
OFFSET: Final = 1.0
"""The a of RMIA's offline form: a model that was trained on a record is taken to give it the probability a p + (1 - a),
where one that was not gives it p. The paper chooses a by data set. Here the attacker asks about new documents of a
company, which training on its other documents makes only a little more likely: a = 1. With 0.3, a model would have to
answer every member's page almost surely, and what makes pages hard would not be taken off.
"""


def query_features(
    queries: Sequence[Query],
    target: Mapping[str, Response],
    pretrained: Mapping[str, Response] | None,
    references: Sequence[Mapping[str, Response]] = (),
    dropped: Mapping[str, tuple[float, float]] | None = None,
) -> pd.DataFrame:
    """Features of every query that the target answered, and every model beside it.

    Args:
        target: Query id to response of the model under audit.
        pretrained: The same of the pre-trained model.
        references: The same of each reference model.
        dropped: Query id to the losses with dropout of the target and the pre-trained model (NaN without one), in the
            place of those in the responses for ``loss`` and ``delta_loss``; likelihoods, which are ours, stay.

    Returns:
        One row a query: ``unit``, G1, and as far as the responses carry them G2, G3, the log-likelihoods
        and those of the reference models.
    """
    rows = []
    for query in queries:
        response = target.get(query.id)
        before = pretrained.get(query.id) if pretrained is not None else None
        others = [found[query.id] for found in references if query.id in found]
        if response is None or (pretrained is not None and before is None) or len(others) < len(references):
            continue
        if dropped is not None and query.id not in dropped:
            continue
        loss, loss_before = dropped[query.id] if dropped is not None else (_loss(response), _loss(before))
        row = {
            "unit": query.document.unit,
            "acc": accuracy(response.answer, query.answers),
            "nls": anls(response.answer, query.answers),
            "loss": loss,
            "conf": _number(response.confidence),
            "loglik": _loglik(response),
        }
        if before is not None:
            row["delta_loss"] = loss_before - loss
            row["delta_conf"] = _number(response.confidence) - _number(before.confidence)
            row["loglik_before"] = _loglik(before)
            row["llr"] = _loglik(response) - _loglik(before)
        for number, other in enumerate(others):
            row |= dict(zip(names(number), (_loglik(other), _loss(other)), strict=True))
        rows.append(row)
    beside = [name for number in range(len(references)) for name in names(number)]
    frame = pd.DataFrame(rows, columns=["unit", *G1, *G2, *G3, *LIKELIHOODS, *beside])
    return frame.astype({column: np.float64 for column in frame.columns if column != "unit"})


def memory_features(
    scrubbed: Sequence[Query],
    scrubbed_answers: Mapping[str, Response],
    unasked: Sequence[tuple[Query, Query]],
    unasked_answers: Mapping[str, Response],
    scrubbed_before: Mapping[str, Response] | None = None,
) -> pd.DataFrame:
    """Features of the memorization test, per page (G4, and the scrubbed-value likelihood ratio).

    Args:
        scrubbed: Provider-name questions about pages without the name.
        scrubbed_answers: Their responses.
        unasked: For each page, the query without a question before and after the answer to it was
            taken off.
        unasked_answers: Responses to both.
        scrubbed_before: Responses of the pre-trained model to ``scrubbed``; None where the model is asked by itself.

    Returns:
        One row a page and feature: ``unit``, ``nls_mem``, ``delta_nls_mem``, and in nats a token ``llr_mem``, or
        ``loglik_mem`` where the model is asked by itself. NaN where not tested, or where one of the losses is missing.
    """
    likelihood = "loglik_mem" if scrubbed_before is None else SCRUBBED_RATIO
    rows: list[dict[str, object]] = []
    for query in scrubbed:
        if (response := scrubbed_answers.get(query.id)) is None:
            continue
        row: dict[str, object] = {"unit": query.document.unit, "nls_mem": anls(response.answer, query.answers)}
        control = _loss(scrubbed_before.get(query.id)) if scrubbed_before is not None else 0.0
        row[likelihood] = control - _loss(response)
        rows.append(row)
    for before, after in unasked:
        if before.id in unasked_answers and after.id in unasked_answers:
            said, still = unasked_answers[before.id].answer, unasked_answers[after.id].answer
            if not said.strip():  # nothing was said, so nothing could be taken off
                continue
            change = 0.0 if said == still else 1.0 - similarity(still, (said,))
            rows.append({"unit": before.document.unit, "delta_nls_mem": change})
    numbers = [*G4, likelihood]
    return pd.DataFrame(rows, columns=["unit", *numbers]).astype(dict.fromkeys(numbers, np.float64))


def aggregate(queries: pd.DataFrame, memory: pd.DataFrame | None = None) -> pd.DataFrame:
    """One row a provider, sorted by its name: means of the features, and ``queries``, their number.

    A provider whose name could not be taken off any page has nothing memorised to show: its
    ``nls_mem`` is 0. What else a provider lacks, such as an answer to no question, a loss, or a scrubbed page to take
    a likelihood ratio on, is the median. A column without any value is left out.
    """
    groups = queries.groupby("unit", sort=True)
    table = groups.mean(numeric_only=True)
    table["queries"] = groups.size()
    if memory is not None:
        means = memory.groupby("unit").mean(numeric_only=True).reindex(table.index)
        for column in (SCRUBBED_RATIO, "loglik_mem"):
            if column in means:
                table[column] = means[column]
        table["nls_mem"] = means["nls_mem"].fillna(0.0)
        change = means["delta_nls_mem"]
        table["delta_nls_mem"] = change if change.notna().any() else 1.0
    table = table.dropna(axis="columns", how="all")
    return table.fillna(table.median())


def without_signs(table: pd.DataFrame) -> pd.DataFrame:
    """The table with absolute differences of a provider's means (G3), as the reference code has them."""
    changes = [column for column in G3 if column in table]
    return table.assign(**{column: table[column].abs() for column in changes})


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
    return (loglik - references.mean(axis=1)) / (spread if spread > 1e-12 else 1.0)


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
    return np.exp(-loss) / (((1 + offset) * out + (1 - offset)) / 2)


def _number(value: float | None) -> float:
    return float("nan") if value is None else value


def _loss(response: Response | None) -> float:
    """Mean loss of the right answer; NaN where there is none, LARGEST_LOSS where it is infinite."""
    loss = _number(response.loss if response else None)
    return loss if np.isnan(loss) else min(loss, LARGEST_LOSS)


def _loglik(response: Response) -> float:
    return -_loss(response) * (response.tokens or 1)
