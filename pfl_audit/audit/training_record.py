"""``training.json`` beside a checkpoint: what it says, made harmless, and what its claim is worth."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from pfl_audit.audit.redaction import visible
from pfl_audit.errors import AuditError
from pfl_audit.files import read_json
from pfl_audit.privacy.claim import ClaimReview
from pfl_audit.privacy.review import read_claim

FILE_NAME = "training.json"
_LARGEST = 4 << 20
_DEEPEST = 12
_LONGEST = 500


def read_training(path: Path) -> tuple[dict[str, Any] | None, ClaimReview | None]:
    """Read a training record, which may come from anywhere and hold anything.

    Args:
        path: The file, which need not exist.

    Returns:
        The record, fit to be written as JSON again, and the review of its claim of privacy; None for what
        is not there. A file that cannot be read is a claim that cannot be read.
    """
    if not path.is_file():
        return None, None
    try:
        record = _harmless(read_json(path, limit=_LARGEST))
    except AuditError as error:
        text = f"cannot be read ({visible(error.problem.replace(str(path), path.name))})"
        return None, ClaimReview(claim=None, worth="unknown", text=text)
    if not isinstance(record, dict):
        text = f"cannot be read ({path.name} is not an object)"
        return None, ClaimReview(claim=None, worth="unknown", text=text)
    return record, read_claim(record.get("privacy"))


def _harmless(value: Any, depth: int = 0) -> Any:
    """Without numbers that JSON lacks, lone surrogates, control characters, and endless depth."""
    if depth > _DEEPEST:
        return None
    if isinstance(value, dict):
        return {visible(name): _harmless(item, depth + 1) for name, item in value.items()}
    if isinstance(value, list):
        return [_harmless(item, depth + 1) for item in value]
    if isinstance(value, str):
        return visible(value, _LONGEST)
    return None if isinstance(value, float) and not math.isfinite(value) else value
