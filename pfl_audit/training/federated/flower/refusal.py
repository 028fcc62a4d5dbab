"""A client says no: one line that the server may read, and nothing of its data in it."""

from __future__ import annotations

import sys
import traceback

from flwr.app import Context, Error, Message
from flwr.clientapp.typing import ClientAppCallable

from pfl_audit.errors import AuditError

_CODE = 2
"""Flower's: the app raised an exception."""
_MARK = "pfl-audit"
_LONGEST = 400


class RefusalError(AuditError):
    """Something is not as agreed. Problem and remedy are sent to the server, so they name no file and no provider."""


def answering(message: Message, context: Context, call_next: ClientAppCallable) -> Message:
    """Turn what goes wrong into an answer: a refusal in its own words, all else without any.

    The whole story goes to the SuperNode's own log. Flower would send the text of any exception, and
    with it perhaps a name.
    """
    try:
        return call_next(message, context)
    except RefusalError as error:
        problem, remedy = error.problem, error.remedy
        sys.stderr.writelines(f"pfl-audit: {said}\n" for said in (error, error.__cause__) if said)
    except Exception as error:
        problem, remedy = f"it stopped with {type(error).__name__}", "Its SuperNode's log says where"
        traceback.print_exception(error)
    number = context.node_config.get("partition-id", "without a number")
    reason = "\n".join([_MARK, f"client {number}: {problem}", remedy])
    return Message(Error(code=_CODE, reason=reason), reply_to=message)


def as_error(error: Error, who: str) -> AuditError:
    """What a client, or Flower in its place, says of a failure.

    Args:
        error: From a reply, so it may hold anything.
        who: The client, where it does not say so itself.
    """
    lines = ["".join(c for c in line if c.isprintable())[:_LONGEST] for line in (error.reason or "").splitlines()]
    if len(lines) == 3 and lines[0] == _MARK:
        return AuditError(lines[1], f"{lines[2]}. Then start the run again: it goes on")
    what = " ".join(lines)[:_LONGEST] or f"error {error.code}"
    return AuditError(f"{who} cannot be reached: {what}", "Start its SuperNode, then the run again: it goes on")
