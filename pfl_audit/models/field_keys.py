"""Keys of models that take no question: the key of a query is matched with the model's own."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Final

from pfl_audit.documents.document import Query
from pfl_audit.errors import UnanswerableError
from pfl_audit.metrics.answers import accuracy

LONGEST_KEY: Final = 128
"""Characters of a key of a model."""
_LISTED: Final = 12
_BETWEEN = re.compile(r"[\s-]+")


def normal_key(name: str) -> str:
    """A key in lower case, with ``_`` for blanks and hyphens; dots join the parts of a path."""
    return _BETWEEN.sub("_", name.strip().lower())


def is_key(name: object) -> bool:
    """Whether a name from a checkpoint can be a key: printable, not empty, and not too long."""
    return isinstance(name, str) and 0 < len(name) <= LONGEST_KEY and name.isprintable() and bool(name.strip())


def no_field(query: Query) -> UnanswerableError:
    """The error of a query for whose key a model has no field."""
    key = query.key[:LONGEST_KEY]
    reason = f"the model has no field of the key '{key}'"
    return UnanswerableError(f"{reason} (page {query.document.id})", "Name the keys of the corpus as the model", reason)


def listed(keys: Collection[str]) -> str:
    """The first keys and the number of the others, for people."""
    some = sorted(keys)
    more = f" and {len(some) - _LISTED} more" if len(some) > _LISTED else ""
    return ", ".join(some[:_LISTED]) + more


def occurrence(values: Sequence[str], accepted: str) -> int | None:
    """Which value of a repeated field a query is about: the first that is the accepted answer, else the first.

    Args:
        values: Values that the model gives to the field, in their order.
        accepted: First accepted answer of the query.

    Returns:
        Its index; None if there are no values.
    """
    right = (number for number, value in enumerate(values) if accuracy(value, (accepted,)))
    return next(right, 0 if values else None)
