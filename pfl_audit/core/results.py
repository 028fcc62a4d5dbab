"""``results.json``: everything that a report may say (schema version 1).

``pfl-audit schema`` prints the JSON Schema. Names of companies, answers and values are pseudonyms
or masks unless the audit was run with ``--reveal``.
"""

from __future__ import annotations

import os
from math import isfinite
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, model_validator

from pfl_audit.core import limits
from pfl_audit.core.fields import (
    READ,
    Cell,
    Confidence,
    Count,
    Facts,
    Finite,
    Interval,
    Name,
    Notes,
    Record,
    Settings,
    Slice,
    Text,
    Texts,
    Whole,
    is_read,
    measure,
    thinned,
)
from pfl_audit.core.fields import SliceValue as SliceValue
from pfl_audit.errors import AuditError, UsageError
from pfl_audit.files import write_json
from pfl_audit.inputs import read_json
from pfl_audit.privacy.claim import ClaimedSampling, ClaimReview, PrivacyClaim

FILE_NAME = "results.json"

_VERSION = "1"
_REMEDY = "Audit again"
_FORM_PARTS = ("private", "public", "validation", "near_duplicates", "left_out")
_GRADIENT_PARTS = ("templates", "fields")

Level = Literal["leak", "weak", "none", "unresolved"]
"""How bad a finding is; ``leak`` and ``weak`` say that something was found."""


def _few(most: int) -> Any:
    """A list of up to ``most`` parts; the first that is wrong is enough."""
    return Field(max_length=most, fail_fast=True)


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Metric(_Part):
    """A number, with all that is needed to judge it."""

    name: Name
    value: Finite | None = Field(description="None where it cannot be computed or resolved; `note` says why")
    ci: Interval | None = None
    level: Confidence | None = Field(default=None, description="Confidence level of `ci`")
    method: Name | None = Field(default=None, description="How `ci` was found")
    n: Count | None = Field(default=None, description="Providers (or documents, by `unit`) behind the number")
    unit: Name = "providers"
    chance: Finite | None = Field(default=None, description="What an attacker without the model would get")
    seeds: Count | None = None
    std: Finite | None = Field(default=None, description="Spread over the seeds; apart from `ci`")
    slice: Slice = Field(default_factory=dict, description="What the number is about")
    note: Text | None = None


class Table(_Part):
    """Rows for people."""

    title: Name
    columns: Annotated[list[Name], _few(limits.COLUMNS)]
    rows: Annotated[list[Annotated[list[Cell], _few(limits.COLUMNS)]], _few(limits.ROWS)]
    note: Text | None = None

    @model_validator(mode="before")
    @classmethod
    def _own_fits(cls, parts: Any, info: ValidationInfo) -> Any:
        """Rows of our own beyond the limit become a sentence of the note."""
        if is_read(info) or not isinstance(parts, dict) or len(parts.get("rows", ())) <= limits.ROWS:
            return parts
        cut = f"{len(parts['rows']) - limits.ROWS} more rows are left out."
        return {**parts, "rows": parts["rows"][: limits.ROWS], "note": f"{parts.get('note') or ''} {cut}".strip()}


Numbers = Annotated[list[Finite], _few(limits.POINTS)]


class Series(_Part):
    """Points of a curve; our own are thinned evenly where there are more than can be drawn."""

    name: Name
    x: Numbers
    y: Numbers
    low: Numbers | None = Field(default=None, description="Lower ends of the intervals of `y`")
    high: Numbers | None = None

    @model_validator(mode="before")
    @classmethod
    def _own_fits(cls, parts: Any, info: ValidationInfo) -> Any:
        if is_read(info) or not isinstance(parts, dict):
            return parts
        names = [name for name in ("x", "y", "low", "high") if parts.get(name) is not None]
        points = [point for point in zip(*(parts[name] for name in names), strict=True) if all(map(isfinite, point))]
        kept = [points[place] for place in thinned(len(points), limits.POINTS)]
        return {**parts, **{name: [point[place] for point in kept] for place, name in enumerate(names)}}

    @model_validator(mode="after")
    def _of_one_length(self) -> Self:
        if (self.low is None) != (self.high is None):
            raise ValueError("'low' and 'high' belong together")
        if len({len(numbers) for numbers in (self.x, self.y, self.low, self.high) if numbers is not None}) > 1:
            raise ValueError("'x', 'y', 'low' and 'high' differ in length")
        return self


class Curve(_Part):
    """A line to draw."""

    title: Name
    kind: Literal["roc", "line", "step", "scatter"]
    x_label: Name
    y_label: Name
    series: Annotated[list[Series], _few(limits.SERIES)]


class Evidence(_Part):
    """One document, answer or page that shows the finding."""

    title: Name
    facts: Facts = Field(default_factory=dict)
    picture: Name | None = Field(default=None, description="PNG or JPEG in `evidence/` beside results.json, masked")


class Finding(_Part):
    """What a check found, in words."""

    level: Level
    text: Text
    remedy: Text
    metric: Name | None = Field(default=None, description="Name of the metric that it rests on")
    slice: Slice = Field(default_factory=dict, description="Which slice of that metric")
    smallest_effect: Finite | None = Field(
        default=None, description="Smallest true value of the metric that four of five such audits would have found"
    )


class Check(_Part):
    """One question that was put to the model, and its answer."""

    id: Name
    family: Name
    title: Name
    status: Literal["ran", "skipped", "failed"]
    reason: Text | None = None
    required: bool = Field(default=True, description="Whether an audit in which it did not run is incomplete")
    subject: Name = Field(default="questions", description="What the model is audited by in this check")
    part_of: Name | None = Field(default=None, description="Check whose finding this one is part of")
    threat_model: Texts = Field(default_factory=dict, description="knows, sees, does")
    settings: Settings = Field(default_factory=dict)
    metrics: Annotated[list[Metric], _few(limits.METRICS)] = Field(default_factory=list)
    tables: Annotated[list[Table], _few(limits.TABLES)] = Field(default_factory=list)
    curves: Annotated[list[Curve], _few(limits.CURVES)] = Field(default_factory=list)
    evidence: Annotated[list[Evidence], _few(limits.EVIDENCE)] = Field(default_factory=list)
    finding: Finding | None = None


class Gate(_Part):
    """Which findings make the command fail (exit code 1)."""

    fail_on: Literal["leak", "weak", "never"]
    over: Annotated[list[Name], _few(limits.CHECKS)] = Field(description="Ids of the checks over the gate")


class Verdict(_Part):
    """The answer of the whole audit."""

    status: Literal["leaks", "no-evidence", "incomplete"]
    gate: Gate
    summary: Text


class Target(_Part):
    """The model under audit."""

    family: Name
    path: Text
    sha256: Name
    parameters: Count | None
    notes: Notes = Field(default_factory=list)
    training_claim: Record | None = None
    claim_review: ClaimReview | None = Field(default=None, description="What its claim of privacy is worth")


class Data(_Part):
    """The corpus that the model was asked about."""

    format: Name
    path: Text
    sha256: Name
    providers: Count = 0
    members: Count = 0
    non_members: Count = 0
    documents: Count
    queries: Count = Field(description="Questions, or fields of forms")
    classes_random: bool = Field(
        default=False, description="The user declared that members and non-members were drawn at random"
    )
    parts: Annotated[dict[Name, Count], Field(max_length=limits.ENTRIES)] = Field(
        default_factory=dict,
        description="Forms in each part, those that have a near-duplicate (near_duplicates), and those that stand in "
        "no part for it (left_out); empty where it was questions that were asked",
    )
    problems: Notes = Field(default_factory=list, description="Records that could not be used")

    @model_validator(mode="after")
    def _parts_are_complete(self, info: ValidationInfo) -> Self:
        """What a report prints of forms and of gradients is there."""
        if not is_read(info):
            return self
        needed = _GRADIENT_PARTS if self.format == "template" else _FORM_PARTS if self.parts else ()
        if missing := [name for name in needed if name not in self.parts]:
            raise ValueError(f"the parts lack '{missing[0]}'")
        if self.format == "template" and not self.documents:
            raise ValueError("gradients of no document")
        return self


class Provenance(_Part):
    """How to get the same numbers again."""

    command: Text
    version: Name
    packages: Texts
    seed: Whole
    started: Name
    seconds: Finite
    resumed: bool
    revealed: bool


class Results(_Part):
    """The whole of ``results.json``: 64 MiB, three million values and 20 levels of nesting at the most."""

    schema_version: Literal["1"] = "1"
    title: Name
    verdict: Verdict
    target: Target
    pretrained: Target | None = None
    control: Target | None = Field(default=None, description="A model that saw no provider of the corpus")
    references: Annotated[list[Target], _few(limits.MODELS)] = Field(
        default_factory=list, description="Further models that saw no provider of the corpus"
    )
    data: Data
    checks: Annotated[list[Check], _few(limits.CHECKS)]
    provenance: Provenance

    @model_validator(mode="after")
    def _checks_are_told_apart(self) -> Self:
        if len({check.id for check in self.checks}) < len(self.checks):
            raise ValueError("two checks have one id")
        return self


def write_results(results: Results, folder: Path) -> Path:
    """Write ``results.json`` into a run's folder, readable by its owner only."""
    path = folder / FILE_NAME
    write_json(path, results.model_dump(mode="json"))
    return path


def read_results(folder: Path) -> Results:
    """Read ``results.json`` of a run.

    Raises:
        UsageError: There is no such folder.
        AuditError: It holds no results, or none of this schema (the field is named).
    """
    path = folder / FILE_NAME
    if not os.path.lexists(folder):
        raise UsageError(f"{folder} does not exist", "Give the folder of a finished audit")
    if not os.path.lexists(path):
        raise AuditError(f"{folder} holds no {FILE_NAME}", "Give the folder of a finished audit")
    value = read_json(path, limit=limits.FILE, remedy=_REMEDY)
    if isinstance(value, dict) and value.get("schema_version", _VERSION) != _VERSION:
        raise AuditError(f"{path} is not of schema version {_VERSION}", "Use the pfl-audit that wrote it")
    try:
        if measure(value) > limits.VALUES:
            raise AuditError(f"{path} holds more than {limits.VALUES} values", _REMEDY)
        return Results.model_validate(value, strict=True, context=READ)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"] if isinstance(part, int) or part in _FIELDS)
        place = f" at '{where}'" if where else ""
        raise AuditError(f"{path} does not fit schema {_VERSION}{place}: {first['msg']}", _REMEDY) from error
    except ValueError as error:
        raise AuditError(f"{path} does not fit schema {_VERSION}: {error}", _REMEDY) from error


_PARTS: tuple[type[BaseModel], ...] = (*_Part.__subclasses__(), ClaimReview, PrivacyClaim, ClaimedSampling)
_FIELDS = frozenset(name for part in _PARTS for name in part.model_fields)
"""Names that an error may print; any other name in a file may be a document's."""
