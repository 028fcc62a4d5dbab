"""``training.json`` beside a checkpoint: what it says, what of that may travel, and what its claim is worth."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Final

from pydantic import JsonValue

from pfl_audit.core.redaction import visible
from pfl_audit.errors import AuditError
from pfl_audit.inputs import is_there, read_json
from pfl_audit.models.settings import nested
from pfl_audit.privacy.guarantee import GuaranteeReview
from pfl_audit.privacy.record_text import NO_PRIVACY, without_free_text
from pfl_audit.privacy.review import review_record

FILE_NAME = "training.json"
_LARGEST = 4 << 20
_DEEPEST = 12
_MOST_VALUES = 100_000
_LARGEST_NUMBER = 1e300
_LONGEST = 500
_WORDS: Final = {
    "mode": ("central", "fl", "central-dp", "fl-dp"),
    "task": ("mlm", "ee-bio", "ee-spade", "el"),
    "part": ("private", "public", "validation"),
}
_NUMBERS: Final = ("steps", "rounds", "clients", "epoch", "loss", "accuracy")
_COUNTS: Final = ("providers", "documents", "queries", "fields")


def read_training(path: Path) -> tuple[dict[str, JsonValue] | None, GuaranteeReview | None]:
    """Read a training record, which may come from anywhere and hold anything.

    Args:
        path: The file, which need not exist.

    Returns:
        The record, fit to be written as JSON again, and the review of its claim of privacy; None for what
        is not there. A file that cannot be read is a claim that cannot be read.
    """
    if not is_there(path):
        return None, None
    try:
        content = read_json(path, limit=_LARGEST)
        if sum(1 for _ in islice(nested(content), _MOST_VALUES + 1)) > _MOST_VALUES:
            raise AuditError(f"{path} holds more than {_MOST_VALUES:,} values", "Get it from its source again")
        record = _harmless(content)
        if not isinstance(record, dict):
            raise AuditError(f"{path} is not an object")
    except AuditError as error:
        text = f"cannot be read ({visible(error.problem.replace(str(path), path.name))})"
        return None, GuaranteeReview(claim=None, worth="unknown", text=text)
    return record, review_record(record)


def public_record(path: Path) -> tuple[dict[str, JsonValue] | None, GuaranteeReview | None]:
    """What of a training record may stand in results.json: facts that are numbers or words of ours.

    Names, paths, notes, free texts and counts by round stay in the file.

    Args:
        path: The file, which need not exist.

    Returns:
        The facts, and the review of its claim; None for what is not there.
    """
    record, review = read_training(path)
    if record is None:
        return None, review
    facts: dict[str, JsonValue] = {name: record[name] for name, known in _WORDS.items() if record.get(name) in known}
    facts |= {name: record[name] for name in _NUMBERS if _is_number(record.get(name))}
    data = record.get("data")
    if isinstance(data, dict):
        facts["data"] = {name: data[name] for name in _COUNTS if _is_number(data.get(name))}
    privacy = record.get("privacy")
    if isinstance(privacy, str):
        facts["privacy"] = NO_PRIVACY if privacy.casefold().startswith("none") else "in words that are not shown"
    return facts, review_record({**record, "privacy": without_free_text(privacy)})


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _harmless(value: JsonValue, depth: int = 0) -> JsonValue:
    """Without numbers that JSON lacks, lone surrogates, control characters, and endless depth."""
    if depth > _DEEPEST:
        return None
    if isinstance(value, dict):
        return {visible(name): _harmless(item, depth + 1) for name, item in value.items()}
    if isinstance(value, list):
        return [_harmless(item, depth + 1) for item in value]
    if isinstance(value, str):
        return visible(value, _LONGEST)
    if isinstance(value, int | float) and not -_LARGEST_NUMBER <= value <= _LARGEST_NUMBER:
        return None
    return value
