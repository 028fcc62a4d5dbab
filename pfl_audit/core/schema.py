"""Parts of ``results.json``: checks with their numbers and findings, gates, models, documents and provenance."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Literal, Self

import numpy as np
from pydantic import Field, PrivateAttr, ValidationInfo, model_validator

from pfl_audit.core import limits
from pfl_audit.core.curves import Curve
from pfl_audit.core.fields import (
    Cell,
    Confidence,
    Count,
    Facts,
    Finite,
    Interval,
    Name,
    Notes,
    Part,
    Record,
    Settings,
    Slice,
    Text,
    Texts,
    Whole,
    few,
    is_read,
)
from pfl_audit.core.review import Access, AttackClass, Obtained
from pfl_audit.metrics.arrays import Floats
from pfl_audit.privacy.guarantee import GuaranteeReview

Format = Literal["number", "percent", "points", "decimal", "integer", "decibel", "bits"]
"""How a metric's value is printed: ``number`` with up to four significant digits, ``percent`` and ``points`` as 100
times the value, ``decimal`` with three decimals, ``integer`` rounded, ``decibel`` and ``bits`` with their unit."""

Level = Literal["leak", "weak", "none", "unresolved"]
"""How bad a finding is; ``leak`` and ``weak`` say that something was found."""

Role = Literal["utility", "bounded", "epsilon", "put_back", "guessed"]
"""What a metric is used for beside its check: ``utility`` is how useful the model is, which comparisons print first;
``bounded`` is the balanced accuracy of an attack on the model under audit, which a privacy guarantee bounds;
``epsilon`` is a lower bound of epsilon by canaries; ``put_back`` is the share of secrets that the model under audit
gives back within so many guesses, and ``guessed`` that of a model without them, which a privacy guarantee bounds."""

FailOn = Literal["leak", "weak", "never"]
"""Findings that make the command fail."""

LimitStatus = Literal["passed", "failed", "not audited", "waived", "as before"]
"""``not audited`` is no pass; ``as before`` failed, and is no worse than in the baseline."""


class Band(Part):
    """A count that a masked report gives as a range."""

    low: Whole = Field(description="Smallest number of the range")
    high: Whole = Field(description="Largest number of the range")

    def __str__(self) -> str:
        return f"{self.low:,} to {self.high:,}" if self.low else f"fewer than {self.high + 1:,}"

    def __format__(self, specification: str) -> str:
        return str(self)


Size = Count | Band
"""A count, exact or as a range."""


def total_of(sizes: Iterable[Size]) -> Size:
    """Sum of counts; a range where one of them is."""
    ends = [(one, one) if isinstance(one, int) else (one.low, one.high) for one in sizes]
    low, high = sum(low for low, _ in ends), sum(high for _, high in ends)
    return low if low == high else Band(low=low, high=high)


@dataclass(frozen=True, eq=False)
class _Behind:
    """Resamples of a number and what it is about, without which it is the same number."""

    samples: Floats
    items: frozenset[tuple[str, str]] = frozenset()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Behind)

    __hash__ = None  # type: ignore[assignment] # as that of a class with __eq__


class Metric(Part):
    """A number with its interval, chance level, unit and format."""

    name: Name = Field(description="Name of the number")
    value: Finite | None = Field(description="None where it cannot be computed or resolved; `note` says why")
    ci: Interval | None = Field(default=None, description="Interval of `value`, lower and upper end")
    level: Confidence | None = Field(default=None, description="Confidence level of `ci`")
    method: Name | None = Field(default=None, description="How `ci` was found")
    step: Finite | None = Field(
        default=None, description="Step that `value` and `ci` are rounded to in a masked report; None where exact"
    )
    bound: Literal["at most", "at least"] | None = Field(
        default=None, description="`value` bounds a share of none or all, or a count of none"
    )
    n: Size | None = Field(default=None, description="Providers (or documents, by `unit`) behind the number")
    unit: Name = Field(default="providers", description="What `n` counts")
    format: Format = Field(default="number", description="How `value`, `ci`, `chance` and `std` are printed")
    role: Role | None = Field(default=None, description="What the number is used for beside its check")
    chance: Finite | None = Field(default=None, description="What an attacker without the model would get")
    seeds: Count | None = Field(default=None, description="Repetitions that `std` is over")
    std: Finite | None = Field(default=None, description="Spread over the seeds; apart from `ci`")
    slice: Slice = Field(default_factory=dict, description="What the number is about")
    note: Text | None = Field(default=None, description="Why there is no value, or what limits it")
    _behind: _Behind = PrivateAttr(default_factory=lambda: _Behind(np.empty(0)))

    @property
    def resamples(self) -> Floats:
        """Values of all resamples, float (resamples,), where the number was made from them; no part of results.json."""
        return self._behind.samples

    @property
    def items(self) -> frozenset[tuple[str, str]]:
        """Pages or questions behind the number, each with its unit of privacy, where known; no part of results.json."""
        return self._behind.items

    def with_behind(self, samples: Floats, items: Iterable[tuple[str, str]]) -> Self:
        """The number with the values of its resamples, and with what it is about."""
        made = self.model_copy()
        made._behind = _Behind(samples, frozenset(items))
        return made


class Table(Part):
    """A table of text and numbers."""

    title: Name = Field(description="Title of the table")
    columns: Annotated[list[Name], few(limits.COLUMNS)] = Field(description="Heads of the columns")
    rows: Annotated[list[Annotated[list[Cell], few(limits.COLUMNS)]], few(limits.ROWS)] = Field(
        description="Rows of cells"
    )
    note: Text | None = Field(default=None, description="Note below the table")

    @model_validator(mode="before")
    @classmethod
    def _own_fits(cls, parts: object, info: ValidationInfo[object]) -> object:
        """Rows of our own beyond the limit become a sentence of the note."""
        if is_read(info) or not isinstance(parts, dict) or len(parts.get("rows", ())) <= limits.ROWS:
            return parts
        cut = f"{len(parts['rows']) - limits.ROWS} more rows are left out."
        return {**parts, "rows": parts["rows"][: limits.ROWS], "note": f"{parts.get('note') or ''} {cut}".strip()}


class Evidence(Part):
    """One document, answer or page that shows the finding."""

    title: Name = Field(description="What it shows")
    facts: Facts = Field(default_factory=dict, description="Label to text or number")
    picture: Name | None = Field(default=None, description="PNG or JPEG in `evidence/` beside results.json, masked")


class Finding(Part):
    """Level of a check with its explanation and remedy."""

    level: Level = Field(description="`leak`, `weak` sign, `none`, or `unresolved` with these documents")
    text: Text = Field(description="What was found")
    remedy: Text = Field(description="What to do")
    plain: Text | None = Field(
        default=None, description="The same in one sentence without technical terms, in counts of 100"
    )
    remedies: Annotated[list[Text], few(limits.NOTES)] = Field(
        default_factory=list, description="`remedy` as single actions, most effective first"
    )
    success: Finite | None = Field(
        default=None, description="Share of cases in which the attack succeeds, at `false_alarms`"
    )
    false_alarms: Finite | None = Field(
        default=None, description="Share of cases without a leak that it takes for one, or that come out by guessing"
    )
    metric: Name | None = Field(default=None, description="Name of the metric that it rests on")
    slice: Slice = Field(default_factory=dict, description="Which slice of that metric")
    smallest_effect: Finite | None = Field(
        default=None, description="Smallest true value of the metric that four of five such audits would have found"
    )


class ReviewFacts(Part):
    """How a compliance review classifies a check; see `core.review.Review`."""

    question: Name = Field(description="Question of a reader that the check helps to answer")
    classes: Annotated[list[AttackClass], few(limits.NOTES)] = Field(
        description="Classes of EDPB Opinion 28/2024, paragraph 55"
    )
    access: Access = Field(description="What the attacker needs")
    obtains: Obtained = Field(description="Kind of data that a successful attack obtains")
    nist: Annotated[list[Name], few(limits.NOTES)] = Field(default_factory=list, description="NIST AI 100-2")
    atlas: Annotated[list[Name], few(limits.NOTES)] = Field(default_factory=list, description="MITRE ATLAS")


class Check(Part):
    """One check of the audit, with its results or the reason why it did not run."""

    id: Name = Field(description="Family, dot, name; stable")
    family: Name = Field(description="Attack that it belongs to")
    subject: Name | None = Field(
        default=None, description="Subject of the audit that it belongs to; `datasets` name it"
    )
    title: Name = Field(description="Title for people")
    status: Literal["ran", "skipped", "failed"] = Field(
        description="`skipped` could not be run, `failed` ended with an error"
    )
    reason: Text | None = Field(default=None, description="Why it did not run")
    required: bool = Field(default=True, description="Whether the user, a requirement or a gate named it or its attack")
    part_of: Name | None = Field(default=None, description="Check whose finding this one is part of")
    threat_model: Texts = Field(default_factory=dict, description="knows, sees, does")
    review: ReviewFacts | None = Field(default=None, description="None where the attack declares no class")
    settings: Settings = Field(default_factory=dict, description="Settings that it ran with")
    as_published: Text | None = Field(default=None, description="What `--as-published` took, and what the user stated")
    metrics: Annotated[list[Metric], few(limits.METRICS)] = Field(default_factory=list, description="Its numbers")
    tables: Annotated[list[Table], few(limits.TABLES)] = Field(default_factory=list, description="Its tables")
    curves: Annotated[list[Curve], few(limits.CURVES)] = Field(default_factory=list, description="Its figures")
    evidence: Annotated[list[Evidence], few(limits.EVIDENCE)] = Field(
        default_factory=list, description="Documents, answers or pages that show the finding"
    )
    finding: Finding | None = Field(default=None, description="None where it did not run, or is part of another check")


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
    same_documents: bool | None = Field(
        description="Whether both audits asked about the same documents; None where that is not known"
    )


class Gate(Part):
    """What decides the exit code: findings, requirements, and gates by number."""

    fail_on: FailOn = Field(description="Findings that make the command fail (exit code 1)")
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


class Verdict(Part):
    """Verdict over all checks."""

    status: Literal["leaks", "no-evidence", "incomplete"] = Field(
        description="`incomplete` where something required could not be audited"
    )
    gate: Gate = Field(description="What decides the exit code")
    summary: Text = Field(description="The verdict in one or two sentences")


class Target(Part):
    """The model under audit."""

    family: Name = Field(description="Model family")
    path: Text = Field(description="Path of the checkpoint, shortened")
    sha256: Name = Field(description="SHA-256 of all that determines an answer")
    parameters: Count | None = Field(description="Number of parameters")
    notes: Notes = Field(default_factory=list, description="How it was opened")
    demonstration: bool = Field(default=False, description="Whether it is a model that comes with pfl-audit")
    training_claim: Record | None = Field(default=None, description="Public training record of the checkpoint")
    claim_review: GuaranteeReview | None = Field(default=None, description="Review of its privacy guarantee")


class Data(Part):
    """What one subject of the audit asked about."""

    subject: Name = Field(description="Name of the subject of the audit")
    format: Name = Field(description="Format of the documents")
    path: Text = Field(description="Their path, shortened")
    sha256: Name = Field(description="SHA-256 of their content; keyed with a key of the run in a masked report")
    unit: Name = Field(default="providers", description="Unit of privacy of members and non-members, plural")
    providers: Size = Field(default=0, description="Number of units, such as providers")
    members: Size = Field(default=0, description="Units that were trained on")
    non_members: Size = Field(default=0, description="Units that were not trained on")
    documents: Size = Field(description="Number of documents")
    queries: Size = Field(description="What was asked about the documents, such as questions or fields")
    audited: Name | None = Field(default=None, description="What findings are about, such as `the form encoder`")
    caveat: Text | None = Field(default=None, description="What findings about it do not say")
    classes_random: bool = Field(
        default=False, description="The user declared that members and non-members were drawn at random"
    )
    groups_random: bool = Field(
        default=False, description="What was drawn are whole groups of units, so that one unit is no draw of its own"
    )
    parts: Annotated[dict[Name, Size], Field(max_length=limits.ENTRIES)] = Field(
        default_factory=dict, description="Further counts of the subject, by name"
    )
    facts: Facts = Field(default_factory=dict, description="Further lines of the report's scope, label to text")
    terms: Texts = Field(default_factory=dict, description="Further terms of the report's glossary")
    chosen: bool = Field(
        default=False, description="The pages were filled or chosen for the attack: no number is about a company"
    )
    problems: Notes = Field(default_factory=list, description="Records that could not be used, the first of them")
    unusable: Annotated[dict[Name, Size], Field(max_length=limits.ENTRIES)] = Field(
        default_factory=dict, description="Number of all records that could not be used, by reason"
    )


class Provenance(Part):
    """Facts that reproduce the numbers: command, versions, seed."""

    command: Text = Field(description="Command line, with paths shortened")
    config: Text | None = Field(default=None, description="Configuration file that the command took, shortened")
    version: Name = Field(description="Version of pfl-audit")
    packages: Texts = Field(description="Package to version")
    seed: Whole = Field(description="Seed of all random draws")
    started: Name = Field(description="Begin, in ISO 8601")
    seconds: Finite = Field(description="Duration in seconds")
    resumed: bool = Field(description="Whether it went on from a killed run")
    revealed: bool = Field(description="Whether names and values are shown instead of masks")
    smallest_group: Count | None = Field(
        default=None, description="Fewest units that a number of a masked report is about; None where numbers are exact"
    )


class PublishedNumber(Part):
    """A number of a paper's table, and the number of ours that it belongs to."""

    paper: Name = Field(description="Short title of the paper")
    table: Name = Field(description="Table of the paper, such as `Table 4`")
    row: Name = Field(description="Row of the table, and column where it has several")
    check: Name = Field(description="Id of the check that has our number")
    metric: Name = Field(description="Name of our number")
    slice: Slice = Field(default_factory=dict, description="Slice of our number; a part of it where one number fits")
    value: Finite = Field(description="As the paper prints it: 56.13 for a share of 56.13 %")
    spread: Finite | None = Field(default=None, description="What the paper prints after ±")
