"""Schema of ``results.json`` (version 2.1), which holds everything that a report prints.

``pfl-audit schema`` prints the JSON Schema. Names of companies, answers and values are pseudonyms
or masks unless the audit was run with ``--reveal``.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, Literal, Self

import numpy as np
from pydantic import BaseModel, Field, PrivateAttr, ValidationError, ValidationInfo, field_validator, model_validator

from pfl_audit.core import limits
from pfl_audit.core.curves import Curve as Curve
from pfl_audit.core.curves import Series as Series
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
    Part,
    Record,
    Settings,
    Slice,
    Text,
    Texts,
    Whole,
    few,
    is_read,
    measure,
)
from pfl_audit.core.fields import SliceValue as SliceValue
from pfl_audit.core.gate_record import Format as Format
from pfl_audit.core.gate_record import Gate as Gate
from pfl_audit.core.migration import from_version_1, version_of
from pfl_audit.core.published_number import PublishedNumber as PublishedNumber
from pfl_audit.core.results_text import results_text
from pfl_audit.core.review import Access, AttackClass, Obtained, Release
from pfl_audit.errors import AuditError, UsageError
from pfl_audit.files import write_text
from pfl_audit.inputs import read_json
from pfl_audit.metrics.arrays import Floats
from pfl_audit.privacy.guarantee import GuaranteeReview, GuaranteeSampling, PrivacyGuarantee

FILE_NAME = "results.json"

VERSION: Final = "2.1"
"""Version 2.x adds fields to 2 that have a default, and changes none; an earlier 2.x is read as it is."""
_READ: Final = ("1", "2", VERSION)
_REMEDY = "Audit again"

Level = Literal["leak", "weak", "none", "unresolved"]
"""How bad a finding is; ``leak`` and ``weak`` say that something was found."""

Role = Literal["utility", "bounded", "epsilon", "put_back", "guessed"]
"""What a metric is used for beside its check: ``utility`` is how useful the model is, which comparisons print first;
``bounded`` is the balanced accuracy of an attack on the model under audit, which a privacy guarantee bounds;
``epsilon`` is a lower bound of epsilon by canaries; ``put_back`` is the share of secrets that the model under audit
gives back within so many guesses, and ``guessed`` that of a model without them, which a privacy guarantee bounds."""


@dataclass(frozen=True, eq=False)
class _Drawn:
    """Resamples of a number, which is the same number without them."""

    values: Floats

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Drawn)

    __hash__ = None  # type: ignore[assignment] # as that of a class with __eq__


class Metric(Part):
    """A number with its interval, chance level, unit and format."""

    name: Name = Field(description="Name of the number")
    value: Finite | None = Field(description="None where it cannot be computed or resolved; `note` says why")
    ci: Interval | None = Field(default=None, description="Interval of `value`, lower and upper end")
    level: Confidence | None = Field(default=None, description="Confidence level of `ci`")
    method: Name | None = Field(default=None, description="How `ci` was found")
    n: Count | None = Field(default=None, description="Providers (or documents, by `unit`) behind the number")
    unit: Name = Field(default="providers", description="What `n` counts")
    format: Format = Field(default="number", description="How `value`, `ci`, `chance` and `std` are printed")
    role: Role | None = Field(default=None, description="What the number is used for beside its check")
    chance: Finite | None = Field(default=None, description="What an attacker without the model would get")
    seeds: Count | None = Field(default=None, description="Repetitions that `std` is over")
    std: Finite | None = Field(default=None, description="Spread over the seeds; apart from `ci`")
    slice: Slice = Field(default_factory=dict, description="What the number is about")
    note: Text | None = Field(default=None, description="Why there is no value, or what limits it")
    _drawn: _Drawn = PrivateAttr(default_factory=lambda: _Drawn(np.empty(0)))

    @property
    def resamples(self) -> Floats:
        """Values of all resamples, float (resamples,), where the number was made from them; no part of results.json."""
        return self._drawn.values

    def with_resamples(self, values: Floats) -> Self:
        """The number with the values of its resamples."""
        made = self.model_copy()
        made._drawn = _Drawn(values)
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
    sha256: Name = Field(description="SHA-256 of their content")
    unit: Name = Field(default="providers", description="Unit of privacy of members and non-members, plural")
    providers: Count = Field(default=0, description="Number of units, such as providers")
    members: Count = Field(default=0, description="Units that were trained on")
    non_members: Count = Field(default=0, description="Units that were not trained on")
    documents: Count = Field(description="Number of documents")
    queries: Count = Field(description="What was asked about the documents, such as questions or fields")
    audited: Name | None = Field(default=None, description="What findings are about, such as `the form encoder`")
    caveat: Text | None = Field(default=None, description="What findings about it do not say")
    classes_random: bool = Field(
        default=False, description="The user declared that members and non-members were drawn at random"
    )
    parts: Annotated[dict[Name, Count], Field(max_length=limits.ENTRIES)] = Field(
        default_factory=dict, description="Further counts of the subject, by name"
    )
    facts: Facts = Field(default_factory=dict, description="Further lines of the report's scope, label to text")
    terms: Texts = Field(default_factory=dict, description="Further terms of the report's glossary")
    problems: Notes = Field(default_factory=list, description="Records that could not be used, the first of them")
    unusable: Annotated[dict[Name, Count], Field(max_length=limits.ENTRIES)] = Field(
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


class Results(Part):
    """The whole of ``results.json``: 64 MiB, six million values and 20 levels of nesting at the most."""

    schema_version: Literal["2.1"] = Field(default=VERSION, description="Version of this schema")
    title: Name = Field(description="Title of the report")
    verdict: Verdict = Field(description="Verdict over all checks, and the gate")
    release: Release | None = Field(
        default=None, description="Who can reach the model, as the user declares; None where it is not declared"
    )
    target: Target = Field(description="Model under audit")
    pretrained: Target | None = Field(default=None, description="Checkpoint that it was trained from")
    public: Target | None = Field(default=None, description="Model that the attacker trained on public data")
    control: Target | None = Field(default=None, description="A model that saw no provider of the corpus")
    references: Annotated[list[Target], few(limits.MODELS)] = Field(
        default_factory=list, description="Further models that saw no provider of the corpus"
    )
    datasets: Annotated[list[Data], few(limits.SUBJECTS)] = Field(description="What was asked about, by subject")
    checks: Annotated[list[Check], few(limits.CHECKS)] = Field(
        description="Every installed check that was chosen, also those that did not run"
    )
    published: Annotated[list[PublishedNumber], few(limits.PUBLISHED)] = Field(
        default_factory=list, description="What a paper prints, to stand beside our numbers"
    )
    provenance: Provenance = Field(description="What reproduces the numbers")

    @field_validator("checks", mode="before")
    @classmethod
    def _own_are_few(cls, checks: object, info: ValidationInfo[object]) -> object:
        if isinstance(checks, list) and len(checks) > limits.CHECKS and not is_read(info):
            raise AuditError(f"{len(checks)} checks are more than {limits.CHECKS:,}", "Audit fewer at once (--check)")
        return checks

    @model_validator(mode="after")
    def _names_are_unique(self) -> Self:
        if len({check.id for check in self.checks}) < len(self.checks):
            raise ValueError("two checks have one id")
        if len({data.subject for data in self.datasets}) < len(self.datasets):
            raise ValueError("two data sets have one subject")
        return self

    def _repr_html_(self) -> str:
        """The verdict and a line a finding, as a notebook cell shows them."""
        from pfl_audit.core.notebook import as_html

        return as_html(self)


def write_results(results: Results, folder: Path) -> Path:
    """Write ``results.json`` into a run's folder, readable by its owner only.

    Raises:
        AuditError: It would be larger than what a report reads.
    """
    path = folder / FILE_NAME
    write_text(path, results_text(results), private=True)
    return path


def results_path(place: Path) -> Path:
    """The ``results.json`` of a run's folder, or the file itself where a file is given."""
    return place if place.is_file() else place / FILE_NAME


def read_results(place: Path) -> Results:
    """Read ``results.json`` of a run, of this or an earlier schema version.

    Args:
        place: Folder of the run, or the file.

    Raises:
        UsageError: There is no such folder.
        AuditError: It holds no results, or none of a known schema (the field is named).
    """
    path = results_path(place)
    if not place.exists():
        raise UsageError(f"{place} does not exist", "Give the folder of a finished audit")
    if not os.path.lexists(path):
        raise AuditError(f"{place} holds no {FILE_NAME}", "Give the folder of a finished audit")
    value = read_json(path, limit=limits.FILE, remedy=_REMEDY)
    version = version_of(value)
    if version not in _READ:
        raise AuditError(f"{path} is not of schema version 1 to {VERSION}", "Use the pfl-audit that wrote it")
    try:
        if measure(value) > limits.VALUES:
            raise AuditError(f"{path} holds more than {limits.VALUES} values", _REMEDY)
        current = from_version_1(value) if version == "1" else value
        if isinstance(current, dict):
            current = {**current, "schema_version": VERSION}
        return Results.model_validate(current, strict=True, context=READ)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"] if isinstance(part, int) or part in _FIELDS)
        at = f" at '{where}'" if where else ""
        raise AuditError(f"{path} does not fit schema {version}{at}: {first['msg']}", _REMEDY) from error
    except ValueError as error:
        raise AuditError(f"{path} does not fit schema {version}: {error}", _REMEDY) from error


_PARTS: tuple[type[BaseModel], ...] = (*Part.__subclasses__(), GuaranteeReview, PrivacyGuarantee, GuaranteeSampling)
_FIELDS = frozenset(name for part in _PARTS for name in part.model_fields)
"""Names that an error may print; any other name in a file may be a document's."""
