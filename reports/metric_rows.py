"""Metrics of results as rows, each with what a paper prints beside it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pfl_audit.core.published import beside
from pfl_audit.core.results import Check, Metric, Results
from pfl_audit.core.schema import PublishedNumber
from pfl_audit.reports.words import slice_name


@dataclass(frozen=True)
class MetricRow:
    """A number of a check, with one of a paper or None; a number with several has as many rows."""

    check: Check
    metric: Metric
    published: PublishedNumber | None = None

    @property
    def slice(self) -> str:
        """What the number is about."""
        return slice_name(self.metric.slice)


def metric_rows(results: Results) -> Iterator[MetricRow]:
    """Rows in the order of the results."""
    published: dict[int, list[PublishedNumber]] = {}
    for one in beside(results):
        if one.metric is not None:
            published.setdefault(id(one.metric), []).append(one.number)
    for check in results.checks:
        for metric in check.metrics:
            for number in published.get(id(metric), [None]):
                yield MetricRow(check, metric, number)
