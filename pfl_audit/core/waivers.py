"""Waivers: a finding or a gate that the user accepts until a day, with a reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Annotated

from pydantic import BeforeValidator, Field

from pfl_audit.core import limits
from pfl_audit.core.gates import matches, slug
from pfl_audit.core.redaction import visible
from pfl_audit.core.schema import WaiverRecord
from pfl_audit.core.settings import Settings, read_tables
from pfl_audit.errors import UsageError

_KEYS = "check, reason, name, expires, and metric if it is about one gate"


def _day(value: object) -> object:
    """A day as TOML has it, or as text."""
    return date.fromisoformat(value) if isinstance(value, str) else value


Line = Annotated[str, Field(min_length=3, max_length=1_000)]


class Waiver(Settings):
    """A finding or a gate that is accepted."""

    check: str = Field(min_length=1, max_length=limits.NAME, description="Id of a check, an attack, or a pattern.")
    metric: str | None = Field(
        default=None, max_length=limits.NAME, description="Metric of a gate by number; finding and gates if not given."
    )
    reason: Line = Field(description="Why it is accepted.")
    name: Line = Field(description="Who accepts it.")
    expires: Annotated[date, BeforeValidator(_day)] = Field(description="Last day, YYYY-MM-DD.")

    def covers(self, check: str, metric: str | None = None) -> bool:
        """Whether it accepts the finding of a check, or its gate on a metric."""
        if not matches(self.check, check):
            return False
        return self.metric is None or (metric is not None and slug(self.metric) in (metric, slug(metric)))

    def record(self, today: date, *, used: bool) -> WaiverRecord:
        """What results.json holds of it."""
        status = "expired" if self.expires < today else "used" if used else "unused"
        return WaiverRecord(
            check=visible(self.check),
            metric=visible(self.metric) if self.metric is not None else None,
            reason=visible(self.reason, 1_000),
            name=visible(self.name),
            expires=self.expires.isoformat(),
            status=status,
        )


def read_waivers(tables: Sequence[Mapping[str, object]]) -> tuple[Waiver, ...]:
    """Waivers of a configuration file.

    Raises:
        UsageError: A key is missing, unknown or wrong; the waiver is named by its position.
    """
    if len(tables) > limits.GATES:
        raise UsageError(f"there are more than {limits.GATES} waivers", "Keep those that are needed")
    return tuple(read_tables(Waiver, tables, "waiver", _KEYS))
