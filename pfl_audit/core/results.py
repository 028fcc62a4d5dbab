"""Results of an audit, and ``results.json``, which holds everything that a report prints (schema version 2.2).

``pfl-audit schema`` prints the JSON Schema. Names of companies, answers and values are pseudonyms
or masks unless the audit was run with ``--reveal``.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated, Final, Literal, Self

from pydantic import BaseModel, Field, ValidationError, ValidationInfo, field_validator, model_validator

from pfl_audit.core import limits
from pfl_audit.core.contradiction import held_against
from pfl_audit.core.curves import Curve as Curve
from pfl_audit.core.curves import Series as Series
from pfl_audit.core.fields import READ, Name, Part, few, is_read, measure
from pfl_audit.core.fields import SliceValue as SliceValue
from pfl_audit.core.migration import from_version_1, version_of
from pfl_audit.core.notebook import as_html
from pfl_audit.core.review import Release
from pfl_audit.core.schema import Check as Check
from pfl_audit.core.schema import Data as Data
from pfl_audit.core.schema import Evidence as Evidence
from pfl_audit.core.schema import Finding as Finding
from pfl_audit.core.schema import Format as Format
from pfl_audit.core.schema import Gate as Gate
from pfl_audit.core.schema import Level as Level
from pfl_audit.core.schema import Metric as Metric
from pfl_audit.core.schema import Provenance as Provenance
from pfl_audit.core.schema import PublishedNumber as PublishedNumber
from pfl_audit.core.schema import ReviewFacts as ReviewFacts
from pfl_audit.core.schema import Role as Role
from pfl_audit.core.schema import Table as Table
from pfl_audit.core.schema import Target as Target
from pfl_audit.core.schema import Verdict as Verdict
from pfl_audit.errors import AuditError, UsageError
from pfl_audit.files import write_text
from pfl_audit.inputs import read_json
from pfl_audit.privacy.guarantee import GuaranteeReview, GuaranteeSampling, PrivacyGuarantee

FILE_NAME = "results.json"

VERSION: Final = "2.2"
"""Version 2.x adds fields to 2 that have a default, and changes none; an earlier 2.x is read as it is."""
_READ: Final = ("1", "2", "2.1", VERSION)
_REMEDY = "Audit again"
_FEWEST: Final = 12
"""Points of a line that a file of very many curves keeps."""
_MIB: Final = 1 << 20


class Results(Part):
    """The whole of ``results.json``: 64 MiB, six million values and 20 levels of nesting at the most."""

    schema_version: Literal["2.2"] = Field(default=VERSION, description="Version of this schema")
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
        return as_html(self.verdict, self.checks)


def write_results(results: Results, folder: Path) -> Path:
    """Write ``results.json`` into a run's folder, readable by its owner only.

    Raises:
        AuditError: It would be larger than what a report reads.
    """
    path = folder / FILE_NAME
    write_text(path, results_text(results), private=True)
    return path


def results_text(results: Results) -> str:
    """Results as JSON; the curves of very many checks are thinned further.

    Raises:
        AuditError: It is larger than what ``read_results`` reads.
    """
    value = results.model_dump(mode="json", exclude={"checks"})
    checks = [check.model_dump(mode="json") for check in _within(results.checks)]
    order = list(type(results).model_fields)
    values = measure(value) + sum(measure(check) for check in checks)
    lines = {name: _dumped(part) for name, part in value.items()}
    lines["checks"] = "[\n" + ",\n".join(map(_dumped, checks)) + "\n]" if checks else "[]"
    text = "{\n" + ",\n".join(f'"{name}": {lines[name]}' for name in sorted(lines, key=order.index)) + "\n}\n"
    size = len(text.encode())
    if size > limits.FILE or values > limits.VALUES:
        raise AuditError(
            f"the results of {len(checks)} checks are {values:,} values in {size / _MIB:.0f} MiB, beyond the "
            f"{limits.VALUES:,} in {limits.FILE // _MIB} MiB that a report reads",
            "Audit fewer checks at once (--check); answers that are stored are not asked for again",
        )
    return text


def _within(checks: list[Check]) -> list[Check]:
    """Checks whose curves have no more numbers together than the file has room for."""
    every = [one for check in checks for curve in check.curves for one in curve.series]
    numbers = sum(one.numbers for one in every)
    if numbers <= limits.DRAWN_NUMBERS:
        return checks
    columns = sum(one.numbers // max(1, len(one.x)) for one in every)
    most = max(_FEWEST, limits.DRAWN_NUMBERS // columns)
    return [
        check.model_copy(update={"curves": [curve.thinned(most) for curve in check.curves]}) if check.curves else check
        for check in checks
    ]


def _dumped(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(", ", ": "))


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
        found = Results.model_validate(current, strict=True, context=READ)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"] if isinstance(part, int) or part in _FIELDS)
        at = f" at '{where}'" if where else ""
        raise AuditError(f"{path} does not fit schema {version}{at}: {first['msg']}", _REMEDY) from error
    except ValueError as error:
        raise AuditError(f"{path} does not fit schema {version}: {error}", _REMEDY) from error
    if found.provenance.smallest_group is not None:  # decided on the exact numbers
        return found
    # Files of before, and from elsewhere, state the worth by accounting alone.
    review = held_against(found.target.claim_review, found.checks, found.datasets)
    return found.model_copy(update={"target": found.target.model_copy(update={"claim_review": review})})


_PARTS: tuple[type[BaseModel], ...] = (*Part.__subclasses__(), GuaranteeReview, PrivacyGuarantee, GuaranteeSampling)
_FIELDS = frozenset(name for part in _PARTS for name in part.model_fields)
"""Names that an error may print; any other name in a file may be a document's."""
