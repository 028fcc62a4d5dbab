"""What becomes of a check whose attack, or one method of it, ends with an exception."""

from __future__ import annotations

import traceback
from typing import Literal

from pfl_audit.core.context import AuditContext
from pfl_audit.core.evidence import PRIVATE
from pfl_audit.errors import (
    AuditError,
    EndpointError,
    NotAuditableError,
    StorageError,
    UnanswerableError,
    UsageError,
    WorkersError,
    is_interrupt,
)

Status = Literal["skipped", "failed"]


def failure(error: Exception, name: str, context: AuditContext) -> tuple[Status, str]:
    """Status and reason of checks that ended with an exception, so that others go on.

    Args:
        name: Of the attack or of its method, for the reason and for the traceback, which is kept in the private folder.

    Raises:
        Exception: The given one, where it ends the whole run: the command is wrong, the run cannot be stored, an
            endpoint answers no more, processes keep dying, or the user interrupted.
    """
    if isinstance(error, (UsageError, StorageError, EndpointError, WorkersError)):
        raise error
    if isinstance(error, NotAuditableError):
        return "skipped", str(error)
    if isinstance(error, UnanswerableError):  # which names a page's file, while its reason does not
        return "failed", f"a page cannot be used: {error.reason}"
    if isinstance(error, AuditError):
        return "failed", str(error)
    if is_interrupt(error):
        raise error
    kept = f"traceback-{name}"  # the text of the exception may hold a value
    context.evidence.keep_text(kept, "".join(traceback.format_exception(error)))
    reason = f"the attack {name} ended with {type(error).__name__}; see {PRIVATE}/{kept}.txt"
    context.progress.say(reason)
    return "failed", reason
