"""``results.json``: everything that a report may say (schema version 1).

``pfl-audit schema`` prints the JSON Schema. Names of companies, answers and values are pseudonyms
or masks unless the audit was run with ``--reveal``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pfl_audit.errors import AuditError
from pfl_audit.files import read_json, write_json
from pfl_audit.privacy.claim import ClaimReview

FILE_NAME = "results.json"

Level = Literal["leak", "weak", "none", "unresolved"]
"""How bad a finding is; ``leak`` and ``weak`` say that something was found."""
SliceValue = str | int | float
Finite = Annotated[float, Field(allow_inf_nan=False)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Metric(_Part):
    """A number, with all that is needed to judge it."""

    name: str
    value: Finite | None = Field(description="None where it cannot be told; `note` says why")
    ci: tuple[Finite, Finite] | None = None
    level: Finite | None = Field(default=None, description="Confidence level of `ci`")
    method: str | None = Field(default=None, description="How `ci` was found")
    n: int | None = Field(default=None, description="Providers (or documents, by `unit`) behind the number")
    unit: str = "providers"
    chance: Finite | None = Field(default=None, description="What an attacker without the model would get")
    seeds: int | None = None
    std: Finite | None = Field(default=None, description="Spread over the seeds; apart from `ci`")
    slice: dict[str, SliceValue] = Field(default_factory=dict, description="What the number is about")
    note: str | None = None


class Table(_Part):
    """Rows for people."""

    title: str
    columns: list[str]
    rows: list[list[str | int | float | None]]
    note: str | None = None


class Curve(_Part):
    """A line to draw."""

    title: str
    kind: Literal["roc", "line", "step", "scatter"]
    x_label: str
    y_label: str
    series: list[dict[str, Any]] = Field(description="Each with `name`, `x`, `y`, and perhaps `low`, `high`")


class Evidence(_Part):
    """One document, answer or page that shows the finding."""

    title: str
    facts: dict[str, str | int | float | None] = Field(default_factory=dict)
    picture: str | None = Field(default=None, description="PNG or JPEG beside results.json, masked")


class Finding(_Part):
    """What a check found, in words."""

    level: Level
    text: str
    remedy: str
    metric: str | None = Field(default=None, description="Name of the metric that it rests on")
    slice: dict[str, SliceValue] = Field(default_factory=dict, description="Which slice of that metric")


class Check(_Part):
    """One question that was put to the model, and its answer."""

    id: str
    family: str
    title: str
    status: Literal["ran", "skipped", "failed"]
    reason: str | None = None
    threat_model: dict[str, str] = Field(default_factory=dict, description="knows, sees, does")
    settings: dict[str, Any] = Field(default_factory=dict)
    metrics: list[Metric] = Field(default_factory=list)
    tables: list[Table] = Field(default_factory=list)
    curves: list[Curve] = Field(default_factory=list)
    evidence: list[Evidence] = Field(default_factory=list)
    finding: Finding | None = None


class Gate(_Part):
    """Which findings make the command fail (exit code 1)."""

    fail_on: Literal["leak", "weak", "never"]
    over: list[str] = Field(description="Ids of the checks over the gate")


class Verdict(_Part):
    """The answer of the whole audit."""

    status: Literal["leaks", "no-evidence", "incomplete"]
    gate: Gate
    summary: str


class Target(_Part):
    """The model under audit."""

    family: str
    path: str
    sha256: str
    parameters: int | None
    notes: list[str] = Field(default_factory=list)
    training_claim: dict[str, Any] | None = None
    claim_review: ClaimReview | None = Field(default=None, description="What its claim of privacy is worth")


class Data(_Part):
    """The corpus that the model was asked about."""

    format: str
    path: str
    sha256: str
    providers: int = 0
    members: int = 0
    non_members: int = 0
    documents: int
    queries: int = Field(description="Questions, or fields of forms")
    parts: dict[str, int] = Field(
        default_factory=dict,
        description="Forms in each part, those that have a near-duplicate (near_duplicates), and those that stand in "
        "no part for it (left_out); empty where it was questions that were asked",
    )
    problems: list[str] = Field(default_factory=list, description="Records that could not be used")


class Provenance(_Part):
    """How to get the same numbers again."""

    command: str
    version: str
    packages: dict[str, str]
    seed: int
    started: str
    seconds: float
    resumed: bool
    revealed: bool


class Results(_Part):
    """The whole of ``results.json``."""

    schema_version: Literal["1"] = "1"
    title: str
    verdict: Verdict
    target: Target
    pretrained: Target | None = None
    data: Data
    checks: list[Check]
    provenance: Provenance


def write_results(results: Results, folder: Path) -> Path:
    """Write ``results.json`` into a run's folder, readable by its owner only."""
    path = folder / FILE_NAME
    write_json(path, results.model_dump(mode="json"))
    return path


def read_results(folder: Path) -> Results:
    """Read ``results.json`` of a run.

    Raises:
        AuditError: Missing, or not of this schema (the field is named).
    """
    path = folder / FILE_NAME
    if not path.is_file():
        raise AuditError(f"{folder} holds no {FILE_NAME}", "Give the folder of a finished audit")
    value = read_json(path)
    try:
        return Results.model_validate(value)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise AuditError(f"{path} does not fit schema 1 at '{where}': {first['msg']}", "Audit again") from error
