"""Replies of a process that holds models: the result of a call, or how it failed."""

from __future__ import annotations

from typing import Any

from pfl_audit.errors import AuditError, UnanswerableError
from pfl_audit.models.calls import Call, InTurn, M, Opening, Reply, T
from pfl_audit.models.device import is_out_of_memory
from pfl_audit.models.placement import tokens_found
from pfl_audit.progress import Task
from pfl_audit.version import __version__


def reply(
    models: dict[Opening[Any], Any], opening: Opening[M], call: Call[M, T], fewer: str, task: Task | None = None
) -> Reply[T]:
    """Call a model, in the process that holds it.

    Args:
        models: The opened ones; the one that is called is added.
        fewer: As of ``Holders``.
        task: As of ``Calls.each``, of this call.
    """
    try:
        if opening.version != __version__:
            raise AuditError("a machine has another version of pfl-audit", "Install the same one everywhere")
        if opening not in models:
            models[opening] = opening.open()
        ((_, given),) = InTurn(models[opening]).each([call], task)
        if not isinstance(given, UnanswerableError):
            return Reply(given, tokens=tokens_found(models[opening]))
        return Reply(unanswerable=(given.problem, given.remedy, given.reason))
    except UnanswerableError as error:  # of the opening
        return Reply(unanswerable=(error.problem, error.remedy, error.reason))
    except AuditError as error:
        return Reply(failed=(error.problem, error.remedy, type(error).__name__))
    except Exception as error:
        return failed(error, fewer)


def failed(error: Exception, fewer: str) -> Reply[Any]:
    """The reply of an unforeseen error, without its text, which may contain a value."""
    kind = type(error).__name__
    if is_out_of_memory(error):
        return Reply(failed=("out of memory", f"Repeat the command with {fewer}: it goes on", ""))
    return Reply(failed=(f"internal error: {kind}", "Repeat the command with one process, and report it", ""))
