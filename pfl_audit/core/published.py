"""Numbers that papers print, beside those of an audit: ``[[published]]`` of a configuration file."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from pfl_audit.core import limits
from pfl_audit.core.fields import READ
from pfl_audit.core.numbers import in_print
from pfl_audit.core.redaction import visible
from pfl_audit.core.results import Check, Metric, PublishedNumber, Results
from pfl_audit.core.settings import read_tables
from pfl_audit.errors import UsageError

_KEYS = "paper, table, row, check, metric, value, and as needed slice and spread"


@dataclass(frozen=True)
class Beside:
    """A number of a paper with ours.

    Attributes:
        metric: Our number, or None.
        settings: Whose settings ours has.
        reason: Why there is none.
    """

    number: PublishedNumber
    metric: Metric | None
    settings: str = ""
    reason: str = ""

    @property
    def difference(self) -> float | None:
        """Ours minus the paper's, in the unit that the paper prints."""
        if self.metric is None or self.metric.value is None:
            return None
        return in_print(self.metric.value, self.metric.format) - self.number.value

    @property
    def apart(self) -> str:
        """The difference with its sign, or nothing."""
        return "" if self.difference is None else f"{self.difference:+.4g}"

    @property
    def printed(self) -> str:
        """What the paper prints, with its spread."""
        spread = "" if self.number.spread is None else f" ± {self.number.spread:g}"
        return f"{self.number.value:g}{spread}"


def read_published(tables: Sequence[Mapping[str, object]]) -> tuple[PublishedNumber, ...]:
    """Numbers of a configuration file.

    Raises:
        UsageError: A key is missing, unknown or wrong, or two entries are the same; the entry is named by its position.
    """
    if len(tables) > limits.PUBLISHED:
        raise UsageError(f"there are more than {limits.PUBLISHED} published numbers", "Keep those of one table")
    found: list[PublishedNumber] = []
    for place, one in enumerate(read_tables(PublishedNumber, tables, "published number", _KEYS, READ), 1):
        if any(_place(one) == _place(other) for other in found):
            raise UsageError(f"published number {place}: an earlier one has its place and number of ours", "Keep one")
        texts = {name: visible(getattr(one, name)) for name in ("paper", "table", "row")}
        found.append(one.model_copy(update=texts))
    return tuple(found)


def _place(one: PublishedNumber) -> tuple[object, ...]:
    """Where a paper prints a number, and which of ours it belongs to."""
    return visible(one.paper), visible(one.table), visible(one.row), one.check, one.metric, one.slice


def require_checks(numbers: Sequence[PublishedNumber], known: Collection[str]) -> None:
    """Refuse numbers of checks that there are not.

    Raises:
        UsageError: A number names a check that is not installed.
    """
    for place, one in enumerate(numbers, 1):
        if one.check not in known:
            raise UsageError(
                f"published number {place}: there is no check '{visible(one.check)}'", "'pfl-audit list' names them"
            )


def labels(results: Results) -> tuple[str, ...]:
    """Which settings are the papers', a line an attack that ran with ``--as-published``."""
    found = (f"{check.family}: {check.as_published}" for check in results.checks if check.as_published)
    return tuple(dict.fromkeys(found))


def beside(results: Results) -> tuple[Beside, ...]:
    """Every number of a paper with ours, in the order of the configuration file."""
    checks = {check.id: check for check in results.checks}
    return tuple(_joined(one, checks.get(one.check)) for one in results.published)


def _joined(number: PublishedNumber, check: Check | None) -> Beside:
    if check is None:
        return Beside(number, None, reason="the check was not chosen")
    if check.status != "ran":
        return Beside(number, None, reason=f"the check did not run: {check.reason or check.status}")
    named = [metric for metric in check.metrics if metric.name == number.metric]
    fits = [metric for metric in named if number.slice.items() <= metric.slice.items()]
    exact = [metric for metric in fits if metric.slice == number.slice]
    if exact or len(fits) == 1:
        return Beside(number, (exact or fits)[0], check.as_published or "ours")
    return Beside(
        number, None, reason="several numbers fit: state the slice" if fits else "the check has no such number"
    )
