"""How much an audit is going to ask, and what it needs for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from pfl_audit.core.settings import Settings
from pfl_audit.core.subject import AuditJob


@dataclass(frozen=True)
class Estimate:
    """What a subject is going to ask and need.

    Attributes:
        questions: Questions to the model under audit, or fields that are attacked, at most.
        models: Models that are asked, the one under audit among them.
        seconds: Time for all of them, measured on a sample; None where nothing was measured.
        sample: How many of them were timed.
        memory: Peak memory of the process in bytes, with all models loaded; None where nothing was loaded.
        note: What the numbers do not cover.
        unit: What is counted, ``questions`` or ``fields``.
    """

    questions: int
    models: int
    seconds: float | None
    sample: int
    memory: int | None
    note: str
    unit: str = "questions"


@runtime_checkable
class EstimatedSubject(Protocol):
    """A subject that says beforehand what an audit is going to take."""

    def estimate(self, inputs: Settings, job: AuditJob) -> Estimate:
        """Count the questions, and time a few of them.

        Raises:
            AuditError: As ``open``.
        """
        ...
