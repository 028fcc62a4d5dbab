"""Errors that a user can act on: one line that names the thing and the remedy, and an exit code."""

from __future__ import annotations

EXIT_OK = 0
EXIT_FINDING = 1
EXIT_ERROR = 2
EXIT_NOT_AUDITED = 3
EXIT_USAGE = 4
EXIT_INTERRUPTED = 130


class AuditError(Exception):
    """Something went wrong that the user can mend.

    Args:
        problem: What is wrong, naming the file, record or tensor. Never holds a document's text.
        remedy: What to do about it, as an imperative sentence without a full stop.
    """

    exit_code = EXIT_ERROR

    def __init__(self, problem: str, remedy: str = "") -> None:
        self.problem = " ".join(problem.split())
        self.remedy = " ".join(remedy.split())
        super().__init__(f"{self.problem}. {self.remedy}." if self.remedy else f"{self.problem}.")


class StorageError(AuditError):
    """What the run itself writes cannot be written or read back: the run ends, whatever it was at."""


class UnanswerableError(AuditError):
    """One query cannot be answered, and others can.

    Args:
        problem: As in AuditError.
        remedy: As in AuditError.
        reason: The problem without names of files, fit for a report.
    """

    def __init__(self, problem: str, remedy: str, reason: str) -> None:
        super().__init__(problem, remedy)
        self.reason = reason


class NotAuditableError(AuditError):
    """There is nothing, or not enough, to audit (exit code 3)."""

    exit_code = EXIT_NOT_AUDITED


class UsageError(AuditError):
    """The command or its configuration asks for something that cannot be (exit code 4)."""

    exit_code = EXIT_USAGE


def is_interrupt(error: BaseException | None) -> bool:
    """Whether an error is an interrupt, or came up while one was on its way: a terminal that is gone takes no line."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__context__
    return error is not None
