"""What a gate decided, as results.json holds it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from pfl_audit.core import limits
from pfl_audit.core.fields import Finite, Name, Part, Slice, Text, few

Format = Literal["number", "percent", "points", "decimal", "integer", "decibel", "bits"]
"""How a metric's value is printed: ``number`` with up to four significant digits, ``percent`` and ``points`` as 100
times the value, ``decimal`` with three decimals, ``integer`` rounded, ``decibel`` and ``bits`` with their unit."""

LimitStatus = Literal["passed", "failed", "not audited", "waived", "as before"]
"""``not audited`` is no pass; ``as before`` failed, and is no worse than in the baseline."""


class LimitResult(Part):
    """What a gate by number says of one check."""

    gate: Name = Field(description="The gate as the user wrote it")
    check: Name = Field(description="Id of the check, `guarantee`, or the pattern where no check has the number")
    status: LimitStatus = Field(description="Only `passed`, `waived` and `as before` let the command succeed")
    metric: Name | None = Field(default=None, description="Name of the metric that was compared")
    slice: Slice = Field(default_factory=dict, description="Slice of that metric")
    compared: Finite | None = Field(default=None, description="The number that was compared")
    end: Literal["upper", "lower", "estimate"] = Field(description="Which number: an end of the interval, or the value")
    limit: Finite = Field(description="The limit, as a share where it is given in percent or points")
    format: Format = Field(default="number", description="How `compared` and `limit` are printed")
    reason: Text | None = Field(default=None, description="Why it could not be audited, or does not count")


class WaiverRecord(Part):
    """A finding or a gate that the user has accepted until a day."""

    check: Name = Field(description="Id of a check, or a pattern")
    metric: Name | None = Field(default=None, description="Metric of a gate by number; all of the check if None")
    reason: Text = Field(description="Why it is accepted")
    name: Name = Field(description="Who accepted it")
    expires: Name = Field(description="Last day of the waiver, YYYY-MM-DD")
    status: Literal["used", "unused", "expired"] = Field(description="An expired waiver accepts nothing")


class Baseline(Part):
    """Earlier results that these are held against."""

    path: Text = Field(description="Path of its results.json, shortened")
    sha256: Name = Field(description="SHA-256 of its results.json")
    started: Name = Field(description="When that audit began")
    same_documents: bool = Field(description="Whether both audits asked about the same documents")


class Gate(Part):
    """What decides the exit code: findings, requirements, and gates by number."""

    fail_on: Literal["leak", "weak", "never"] = Field(description="Findings that make the command fail (exit code 1)")
    over: Annotated[list[Name], few(limits.CHECKS)] = Field(
        description="Ids of the checks whose finding makes the command fail"
    )
    lacking: Annotated[list[Name], few(limits.GATE_ROWS)] = Field(
        default_factory=list,
        description="What was required and could not be audited (exit code 3): checks, attacks, or `any check`",
    )
    numbers: Annotated[list[LimitResult], few(limits.GATE_ROWS)] = Field(
        default_factory=list, description="Gates by number: `failed` is exit code 1, `not audited` is 3"
    )
    waivers: Annotated[list[WaiverRecord], few(limits.GATES)] = Field(
        default_factory=list, description="Waivers that the user gave"
    )
    waived: Annotated[list[Name], few(limits.CHECKS)] = Field(
        default_factory=list, description="Ids of the checks whose finding is waived"
    )
    as_before: Annotated[list[Name], few(limits.CHECKS)] = Field(
        default_factory=list, description="Ids of the checks whose finding is no worse than in the baseline"
    )
    baseline: Baseline | None = Field(default=None, description="Earlier results: only what got worse fails")
