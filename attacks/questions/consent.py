"""The question before the first request to an endpoint."""

from __future__ import annotations

import sys

from pfl_audit.core.redaction import visible
from pfl_audit.errors import UsageError
from pfl_audit.progress import Progress


def require_consent(text: str, progress: Progress, *, yes: bool) -> None:
    """Print what is to be sent, and ask for it in a terminal.

    Args:
        text: What is sent where, the estimate and the ceiling.
        yes: Whether the user has agreed on the command line.

    Raises:
        UsageError: There is no terminal to ask in, or the user declines.
    """
    if yes:
        progress.say(text)
        return
    if not (sys.stdin and sys.stdin.isatty() and sys.stderr and sys.stderr.isatty()):
        raise UsageError(f"{text} There is no terminal to ask in", "Give --yes to send it")
    sys.stderr.write(f"{visible(text, 2000)}\nSend it? [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise UsageError("nothing was sent to the endpoint", "Answer y, or give --yes")
