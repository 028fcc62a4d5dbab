"""User errors: a one-line problem, a remedy, and an exit code."""

from __future__ import annotations

EXIT_OK = 0
EXIT_FINDING = 1
EXIT_ERROR = 2
EXIT_NOT_AUDITED = 3
EXIT_USAGE = 4
EXIT_INTERRUPTED = 130


class AuditError(Exception):
    """An error that the user can correct.

    Args:
        problem: Description that names the file, record or tensor; never contains text of a document.
        remedy: Imperative sentence without a full stop.
    """

    exit_code = EXIT_ERROR

    def __init__(self, problem: str, remedy: str = "") -> None:
        self.problem = " ".join(problem.split())
        self.remedy = " ".join(remedy.split())
        super().__init__(f"{self.problem}. {self.remedy}." if self.remedy else f"{self.problem}.")


class StorageError(AuditError):
    """The output of a run cannot be written or read back; the run ends."""


class EndpointError(AuditError):
    """The endpoint under audit answers no more; the run ends, and the same command goes on."""


class WorkersError(AuditError):
    """The processes that ask models keep dying, or are not ours; the run ends, and the same command goes on."""


class UnanswerableError(AuditError):
    """A single query cannot be answered.

    Args:
        problem: Description, as in AuditError.
        remedy: Imperative sentence, as in AuditError.
        reason: The problem without file names, for reports.
    """

    def __init__(self, problem: str, remedy: str, reason: str) -> None:
        super().__init__(problem, remedy)
        self.reason = reason


class NotAuditableError(AuditError):
    """There is too little to audit (exit code 3)."""

    exit_code = EXIT_NOT_AUDITED


class UsageError(AuditError):
    """The command or its configuration is invalid (exit code 4)."""

    exit_code = EXIT_USAGE


def another_run(folder: object) -> UsageError:
    """The error of a folder whose files belong to a run with other data or settings."""
    return UsageError(
        f"{folder} holds a run with other data or settings", "Name another --out, or repeat the command that began it"
    )


def is_interrupt(error: BaseException | None) -> bool:
    """Whether an error is an interrupt, or was raised while one was handled (e.g. by writing to a closed terminal)."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__context__
    return error is not None
