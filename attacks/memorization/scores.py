"""The table of pages that were asked about, and scores of the answers, as pure functions over it.

Source: privacy-aware-docvqa, section 5.1, Tables 2, 7 and 8.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from pfl_audit.documents.document import Query
from pfl_audit.metrics.answers import accuracy, anls
from pfl_audit.metrics.arrays import Floats, by_rows
from pfl_audit.metrics.intervals import Estimate, all_or_nothing, bootstrap_counts, estimate, group_mean
from pfl_audit.models.protocol import Response

COLUMNS = ("question", "page", "unit", "member", "key", "words", "acc", "anls", "conf", "loss")
BESIDE = ("acc", "anls", "loss", "exposure")
"""Columns that a control has too, as ``acc_control`` and so on."""
CONFIDENT = 0.9
"""Confidence from which the paper counts an answer separately (Table 2)."""


Items = Sequence[tuple[str, str]]
"""Pages or questions, each with its unit."""


@dataclass(frozen=True)
class GapEstimate:
    """A score on members and on non-members, and their gap.

    Attributes:
        members: Mean over members' pages, None where there are none.
        non_members: Mean over non-members' pages, None where there are none.
        gap: members minus non_members, None where one of them is.
        items: Pages of members and of non-members behind them, each with its unit.
    """

    members: Estimate | None
    non_members: Estimate | None
    gap: Estimate | None
    items: tuple[Items, Items]

    @property
    def pages(self) -> tuple[int, int]:
        """Number of pages of members and of non-members."""
        return len(self.items[0]), len(self.items[1])

    @property
    def both(self) -> tuple[Estimate, Estimate] | None:
        """Members and non-members, where there are pages of both."""
        return (self.members, self.non_members) if self.members and self.non_members else None


def answers_table(
    queries: Sequence[Query], members: Mapping[str, bool], responses: Mapping[str, Response]
) -> pd.DataFrame:
    """Scores of every question that was answered.

    Args:
        queries: Questions about pages.
        members: Unit of privacy to whether it was trained on; questions about others are left out.
        responses: Query id to response. A loss that is missing or not finite becomes NaN: the page then counts for
            the answers and not for the losses. An empty answer has ACC 0 and ANLS 0.

    Returns:
        COLUMNS; ``member`` bool, ``words`` (of the page) int, scores float with NaN where there is nothing.
    """
    rows = [
        (
            query.id,
            query.document.id,
            query.document.unit,
            members[query.document.unit],
            query.key,
            len(query.document.words),
            accuracy(response.answer, query.answers),
            anls(response.answer, query.answers),
            _number(response.confidence),
            _number(response.loss),
        )
        for query in queries
        if (response := responses.get(query.id)) is not None and query.document.unit in members
    ]
    return pd.DataFrame(rows, columns=list(COLUMNS))


def pages_table(
    queries: Sequence[Query],
    members: Mapping[str, bool],
    responses: Mapping[str, Response],
    clues: Mapping[str, int],
    exposures: Mapping[str, float],
) -> pd.DataFrame:
    """Scores of every page that could be asked about: one row a page.

    Args:
        queries: About scrubbed pages.
        members: As in ``answers_table``.
        responses: Likewise.
        clues: Query id to the number of residual clues.
        exposures: Query id to exposure in bits, where it was measured.

    Returns:
        Table from ``answers_table`` with ``clues`` (int) and ``exposure`` (float, NaN where there is none).
    """
    table = answers_table(queries, members, responses)
    return table.assign(
        clues=[clues.get(name, 0) for name in table["question"]],
        exposure=[exposures.get(name, np.nan) for name in table["question"]],
    )


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


def score_gap(pages: pd.DataFrame, score: str, rng: np.random.Generator) -> GapEstimate:
    """Compare members with non-members, with intervals over resampled units.

    Args:
        pages: One row a page: ``unit``, ``member`` (bool) and the score's column.
        score: Name of the column, values 0 to 1.
    """
    is_member = pages["member"].astype(bool)
    inside, outside = pages[is_member], pages[~is_member]
    members, non_members = (score_mean(rows, score, rng) if len(rows) else None for rows in (inside, outside))
    gap = members.minus(non_members) if members and non_members else None
    return GapEstimate(members, non_members, gap, (items_of(inside), items_of(outside)))


def items_of(pages: pd.DataFrame) -> Items:
    """Questions of a table, or pages where it has none, each with its unit."""
    return list(zip(pages["question" if "question" in pages else "page"], pages["unit"], strict=True))


def score_mean(pages: pd.DataFrame, score: str, rng: np.random.Generator) -> Estimate:
    """A score over all pages, with an interval over resampled units; exact where all score 0, or all 1.

    Args:
        pages: As in score_gap, one at least.
    """
    if pages.empty:
        raise ValueError("there is no page")
    groups = pages.groupby("unit", sort=True)[score]
    sums, counts = (column.to_numpy().astype(np.float64) for column in (groups.sum(), groups.size()))
    value = float(sums.sum() / counts.sum())
    if value in (0.0, 1.0):
        return _interval(value, np.empty(0), len(sums), rng)
    weights = bootstrap_counts(np.zeros(len(sums), dtype=bool), rng).T
    return estimate(value, by_rows(group_mean(sums, counts), weights))


def mean_over_sources(
    pages: pd.DataFrame, score: str, sources: pd.Series[str], rng: np.random.Generator
) -> tuple[Estimate, dict[str, Estimate]]:
    """Mean over sources of the mean over a source's questions (federated-docvqa-pilot, section 4, Tables 3 to 7).

    Args:
        pages: As in score_gap, one row a question.
        sources: Source of every row.

    Returns:
        The mean with its interval over resampled units, and the same of each source.
    """
    every = pages["unit"].unique()
    weights = bootstrap_counts(np.zeros(len(every), dtype=bool), rng).T
    found, samples = {}, []
    for source, held in pages.groupby(sources, sort=True):
        groups = held.groupby("unit")[score]
        columns = (groups.sum(), groups.size())
        sums, counts = (one.reindex(every, fill_value=0).to_numpy().astype(np.float64) for one in columns)
        samples.append(by_rows(group_mean(sums, counts), weights))
        found[str(source)] = _interval(float(sums.sum() / counts.sum()), samples[-1], int((counts > 0).sum()), rng)
    value = float(np.mean([one.value for one in found.values()]))
    return _interval(value, np.mean(samples, axis=0), len(every), rng), found


def _interval(value: float, samples: Floats, providers: int, rng: np.random.Generator) -> Estimate:
    """Percentile interval; exact where every page scores 0, or every page 1."""
    if value in (0.0, 1.0):
        return all_or_nothing(estimate(value, np.empty(0)), providers, rng)
    return estimate(value, samples)


def giveaway_units(pages: pd.DataFrame) -> pd.DataFrame:
    """Units whose every page, two at least, gave the value away: ``unit``, ``member``, ``pages``."""
    groups = pages.groupby("unit", sort=True)
    table = pd.DataFrame({"member": groups["member"].first(), "pages": groups.size(), "acc": groups["acc"].mean()})
    return table[(table["acc"] >= 1.0) & (table["pages"] >= 2)].reset_index()


def _number(value: float | None) -> float:
    return float(value) if value is not None and np.isfinite(value) else float("nan")
