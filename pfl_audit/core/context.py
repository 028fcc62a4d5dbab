"""What every attack gets from the runner."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TypeVar

import numpy as np

from pfl_audit.core.evidence import EvidenceBox
from pfl_audit.core.redaction import Redactor
from pfl_audit.core.verdict import Budget
from pfl_audit.progress import Progress

C = TypeVar("C", bound="AuditContext")


@dataclass(frozen=True, kw_only=True)
class AuditContext:
    """What every attack may use; subjects add their own parts.

    Attributes:
        checks: Ids of the checks to run; their needs are met.
        named: Ids of the checks that were asked for by name.
        seed: Seed of all random draws of the audit.
        budget: Probability of a false alarm that one finding may spend.
        redactor: Masks every name and value.
        evidence: Keeps pictures and private files.
        progress: Progress display.
    """

    checks: frozenset[str]
    named: frozenset[str] = frozenset()
    seed: int
    budget: Budget
    redactor: Redactor
    evidence: EvidenceBox
    progress: Progress

    def rng(self, *purpose: str | int) -> np.random.Generator:
        """Random generator of one purpose, independent of those of all others."""
        words = [part if isinstance(part, int) else int.from_bytes(part.encode(), "little") for part in purpose]
        return np.random.default_rng(np.random.SeedSequence([self.seed, *words]))


def context_of(kind: type[C], common: AuditContext, opened: object) -> C:
    """The context of a subject: what every attack may use, and the subject's own parts from what it has opened."""
    given = vars(common)
    return kind(**given, **{one.name: getattr(opened, one.name) for one in fields(kind) if one.name not in given})
