"""What an attack is: checks with their needs, and one function that runs them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from importlib.metadata import entry_points
from typing import Any, Literal, Protocol

import numpy as np
from pydantic import BaseModel

from pfl_audit.audit.engine import QueryEngine
from pfl_audit.audit.evidence import EvidenceBox
from pfl_audit.audit.redaction import Redactor
from pfl_audit.audit.results import Check
from pfl_audit.documents.corpus import Corpus
from pfl_audit.errors import UsageError
from pfl_audit.models.protocol import Capability
from pfl_audit.progress import Progress

GROUP = "pfl_audit.attacks"


class Resource(StrEnum):
    """What an audit may have besides the target's own capabilities."""

    PRETRAINED = "pre-trained model (--pretrained)"
    BLUE = "training corpus (--blue)"


Need = Capability | Resource


@dataclass(frozen=True)
class CheckSpec:
    """A check that an attack offers.

    Attributes:
        id: Family, dot, name; stable.
        title: For people.
        needs: Without which it cannot run.
        threat_model: ``knows``, ``sees`` and ``does``, a sentence each.
    """

    id: str
    title: str
    needs: frozenset[Need]
    threat_model: Mapping[str, str] = field(default_factory=dict)

    @property
    def family(self) -> str:
        """Name of the attack that it belongs to."""
        return self.id.split(".", 1)[0]

    def ran(self, **parts: Any) -> Check:
        """The check's result: metrics, tables, curves, evidence, settings, finding."""
        return self._check(status="ran", **parts)

    def not_run(self, status: Literal["skipped", "failed"], reason: str) -> Check:
        """A row that says that the check did not run, and why."""
        return self._check(status=status, reason=reason)

    def _check(self, **parts: Any) -> Check:
        return Check(id=self.id, family=self.family, title=self.title, threat_model=dict(self.threat_model), **parts)


@dataclass(frozen=True)
class AuditContext:
    """Everything that an attack may use.

    Attributes:
        target: The model under audit.
        pretrained: The public model that it was trained from, or None.
        red: Queries of member and non-member providers.
        blue: The training corpus, or None.
        checks: Ids of the checks that shall run; their needs are met.
        seed: Of the whole audit.
        alpha: Chance of a false alarm that one check may spend.
        redactor: Through which every name and value goes.
        evidence: Takes pictures.
        reader: Reads pages' pictures by OCR, or None.
        progress: Told of the work.
    """

    target: QueryEngine
    pretrained: QueryEngine | None
    red: Corpus
    blue: Corpus | None
    checks: frozenset[str]
    seed: int
    alpha: float
    redactor: Redactor
    evidence: EvidenceBox
    progress: Progress
    reader: QueryEngine | None = None

    def rng(self, *purpose: str | int) -> np.random.Generator:
        """A generator for one purpose, seeded apart from all others."""
        words = [part if isinstance(part, int) else int.from_bytes(part.encode(), "little") for part in purpose]
        return np.random.default_rng(np.random.SeedSequence([self.seed, *words]))


class Attack(Protocol):
    """A family of checks, found by entry point ``pfl_audit.attacks``."""

    name: str
    specs: Sequence[CheckSpec]
    Settings: type[BaseModel]

    def run(self, context: AuditContext, settings: Any) -> list[Check]:
        """Run the checks of ``context.checks`` that are this family's."""
        ...


def installed_attacks() -> dict[str, Attack]:
    """Name to attack, sorted by name."""
    found: dict[str, Attack] = {point.name: point.load() for point in entry_points(group=GROUP)}
    return dict(sorted(found.items()))


def unmet_needs(spec: CheckSpec, have: frozenset[Need]) -> str | None:
    """One line that lists both sides where a check's needs are not met, else None."""
    missing = sorted(str(need) for need in spec.needs - have)
    if not missing:
        return None
    return f"needs {', '.join(missing)}; the audit has {', '.join(sorted(str(need) for need in have)) or 'nothing'}"


def choose_checks(attacks: Mapping[str, Attack], wanted: Sequence[str]) -> dict[str, CheckSpec]:
    """Check ids to specifications: those named, or all of the attacks.

    Raises:
        UsageError: A name is neither a check nor an attack.
    """
    every = {spec.id: spec for attack in attacks.values() for spec in attack.specs}
    if not wanted:
        return every
    chosen: dict[str, CheckSpec] = {}
    for name in wanted:
        matches = {key: spec for key, spec in every.items() if key == name or key.split(".")[0] == name}
        if not matches:
            raise UsageError(f"there is no check '{name}'", f"Choose among: {', '.join(every)}")
        chosen |= matches
    return chosen
