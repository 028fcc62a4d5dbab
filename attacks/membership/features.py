"""Features of providers that differ where their documents were trained on: groups G1 to G4, and likelihood ratios.

Source: privacy-aware-docvqa, section 5.2.2. One row a provider, each value a mean over its queries. Not of
that paper: log-odds ratios of the right answers to the pre-trained model and to models like the one under audit that
saw no provider of RED (out-models); and, beside its G4, likelihood ratios of the true name on pages that do not show
it. With several out-models these are offline forms of LiRA (Carlini et al. 2022, section VI) and of RMIA (Zarifzadeh,
Liu and Shokri 2024, section 3). All are scores of single questions, whose mean a provider has, and use no label.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from pfl_audit.attacks.membership.question_scores import (
    LARGEST_LOSS,
    hard_token_scores,
    lira_scores,
    log_odds,
    residual_scores,
    rmia_scores,
    window_scores,
)
from pfl_audit.attacks.membership.rows import G3, G4, SCRUBBED_OUT, SCRUBBED_RATIO
from pfl_audit.documents.document import Query
from pfl_audit.metrics.answers import accuracy, anls, similarity
from pfl_audit.metrics.arrays import Floats
from pfl_audit.models.protocol import Response


def query_features(
    queries: Sequence[Query],
    target: Mapping[str, Response],
    pretrained: Mapping[str, Response] | None,
    references: Sequence[Mapping[str, Response]] = (),
    dropped: Mapping[str, tuple[float, float]] | None = None,
    out: Mapping[str, Response] | None = None,
) -> pd.DataFrame:
    """Features of every query that the target and the pre-trained model answered.

    Args:
        target: Query id to response of the model under audit.
        pretrained: The same of the pre-trained model.
        references: The same of each reference model.
        dropped: Query id to the losses with dropout of the target and the pre-trained model (NaN without one), in the
            place of those in the responses for ``loss`` and ``delta_loss``; log-odds, which are ours, stay.
        out: The same of the control, an out-model.

    Returns:
        One row a query: ``unit``, G1, G2, G3, the log-odds and scores beside the models that are given; NaN where a
        response carries no loss or confidence.
    """
    needed = [answers for answers in (target, pretrained, dropped) if answers is not None]
    kept = [query for query in queries if all(query.id in answers for answers in needed)]
    models, companies = (target, pretrained or {}), [query.document.unit for query in kept]
    (losses, losses_before), (sure, sure_before) = (
        [_numbers(kept, answers, name) for answers in models] for name in ("loss", "confidence")
    )
    loss, before = np.transpose([dropped[query.id] for query in kept]) if dropped and kept else (losses, losses_before)
    frame = pd.DataFrame(
        {
            "unit": companies,
            "acc": [accuracy(target[query.id].answer, query.answers) for query in kept],
            "nls": [anls(target[query.id].answer, query.answers) for query in kept],
            "loss": loss,
            "conf": sure,
            "delta_loss": before - loss,
            "delta_conf": sure - sure_before,
        }
    )
    frame["log_odds"] = odds = log_odds(losses)
    public = np.empty((len(kept), 0))
    if pretrained is not None:
        odds_before = log_odds(losses_before)
        frame["log_odds_before"], frame["log_odds_ratio"] = odds_before, odds - odds_before
        public = np.column_stack([odds_before, np.abs(odds_before)])
        tokens = [[answers[query.id].token_losses for query in kept] for answers in (target, pretrained)]
        frame["windows"], frame["hard_tokens"] = window_scores(*tokens), hard_token_scores(*tokens)
    keys = pd.get_dummies(pd.Series([query.key for query in kept], dtype=str), dtype=np.float64).to_numpy()
    lengths = [(float(np.log(target[query.id].tokens or 1)), len(query.document.words)) for query in kept]
    known = np.hstack([keys, np.array(lengths).reshape(-1, 2), public])
    frame["residual"] = residual_scores(odds, known, companies)
    if out is not None:
        frame["log_odds_ratio_out"] = odds - log_odds(_numbers(kept, out, "loss"))
    if references:
        beside = np.column_stack([_numbers(kept, found, "loss") for found in references])
        frame["lira"] = lira_scores(odds, log_odds(beside))
        frame["rmia"] = rmia_scores(losses, beside, companies)
    return frame.astype({column: np.float64 for column in frame.columns if column != "unit"})


def memory_features(
    scrubbed: Sequence[Query],
    scrubbed_answers: Mapping[str, Response],
    unasked: Sequence[tuple[Query, Query]],
    unasked_answers: Mapping[str, Response],
    scrubbed_before: Mapping[str, Response] | None = None,
    scrubbed_out: Mapping[str, Response] | None = None,
) -> pd.DataFrame:
    """Features of the memorization test, per page (G4, and the scrubbed-value likelihood ratios).

    Args:
        scrubbed: Provider-name questions about pages without the name.
        scrubbed_answers: Their responses.
        unasked: For each page, the query without a question before and after the answer to it was
            taken off.
        unasked_answers: Responses to both.
        scrubbed_before: Responses of the pre-trained model to ``scrubbed``; None where the model is asked by itself.
        scrubbed_out: Responses of the control, an out-model, to ``scrubbed``.

    Returns:
        One row a page and feature: ``unit``, ``nls_mem``, ``delta_nls_mem``, and in nats a token ``llr_mem``, or
        ``loglik_mem`` where the model is asked by itself, and ``llr_mem_out``. NaN where not tested, or where one of
        the losses is missing.
    """
    likelihood = "loglik_mem" if scrubbed_before is None else SCRUBBED_RATIO
    asked = [query for query in scrubbed if query.id in scrubbed_answers]
    loss = _numbers(asked, scrubbed_answers, "loss")
    before_loss = 0.0 if scrubbed_before is None else _numbers(asked, scrubbed_before, "loss")
    ratios, out = before_loss - loss, _numbers(asked, scrubbed_out or {}, "loss") - loss
    rows: list[dict[str, object]] = [
        {
            "unit": query.document.unit,
            "nls_mem": anls(scrubbed_answers[query.id].answer, query.answers),
            likelihood: ratio,
            SCRUBBED_OUT: beyond,
        }
        for query, ratio, beyond in zip(asked, ratios, out, strict=True)
    ]
    for before, after in unasked:
        if before.id in unasked_answers and after.id in unasked_answers:
            said, still = unasked_answers[before.id].answer, unasked_answers[after.id].answer
            if not said.strip():  # nothing was said, so nothing could be taken off
                continue
            change = 0.0 if said == still else 1.0 - similarity(still, (said,))
            rows.append({"unit": before.document.unit, "delta_nls_mem": change})
    numbers = [*G4, likelihood, SCRUBBED_OUT]
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
        for column in (SCRUBBED_RATIO, SCRUBBED_OUT, "loglik_mem"):
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


def _numbers(queries: Sequence[Query], responses: Mapping[str, Response], name: str) -> Floats:
    """Losses or confidences, float (queries,): NaN where there is none, at most LARGEST_LOSS where it is infinite."""
    found = [getattr(responses.get(query.id), name, None) for query in queries]
    return np.minimum(np.array(found, dtype=np.float64), LARGEST_LOSS)
