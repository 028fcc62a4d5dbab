"""Validation of the fields of a record. Messages name the field and the rule, never a value.

A ``Problem`` is shown in reports. The text of an exception of Python or numpy may quote the record ("could not convert
string to float: 'Acme'"), so only the text of a RecordError is kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import inf
from typing import Any

MAX_NAME = 1_000
"""Characters of an id, a provider's name or a split."""
MAX_QUESTION = 2_000
MAX_ANSWER = 1_000
"""Characters of an answer; the memory of its loss grows with them."""
MAX_ANSWERS = 100
"""Accepted answers per question."""
MAX_QUESTIONS = 10_000
"""Questions per page."""
MAX_WORD = 1_000
MAX_WORDS = 20_000
"""Words per page; a newspaper page has fewer than 10,000."""
MAX_PAGE = 500_000
"""Characters of all words of a page."""

RECORD_ERRORS = (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError, RecursionError)
"""Exceptions of reading a damaged record, RecordError (a ValueError) included."""


class RecordError(ValueError):
    """A record cannot be used; the message names the field and the violated rule, and quotes nothing."""


def reason_of(error: Exception) -> str:
    """Reason why a record cannot be used, for a Problem."""
    return str(error) if isinstance(error, RecordError) else "it is not of the right form"


def field_of(row: Mapping[str, Any], name: str) -> Any:
    """Value of a required field.

    Raises:
        RecordError: The field is missing.
    """
    if name not in row:
        raise RecordError(f"the field '{name}' is missing")
    return row[name]


def text(value: object, name: str, most: int) -> str:
    """Check a non-blank text.

    Args:
        name: Name of the field, for the error.
        most: Largest number of characters.

    Raises:
        RecordError: The value is not a text, blank, too long, or not valid Unicode.
    """
    if not isinstance(value, str):
        raise RecordError(f"{name} is not a text")
    if not value.strip():
        raise RecordError(f"{name} is empty")
    _check(value, name, most)
    return value


def identifier(value: object, name: str) -> str | None:
    """An identifier (text or number) as a text, or None.

    Raises:
        RecordError: The value is of another type, or too long.
    """
    if not isinstance(value, str | int | float | None):
        raise RecordError(f"{name} is not a text")
    return None if value is None else texts([value], name, MAX_NAME)[0]


def texts(values: Iterable[object], name: str, most: int) -> tuple[str, ...]:
    """Check a list of texts, which may be blank; numbers become texts.

    Args:
        name: Name of the field, for the error.
        most: Largest number of characters of each.

    Raises:
        RecordError: A value is neither a text nor a number, too long, or not valid Unicode.
    """
    found = tuple(value if isinstance(value, str) else _number(value, name) for value in values)
    if max(map(len, found), default=0) > most:
        raise RecordError(f"{name} holds a text of more than {most:,} letters")
    _check("".join(found), name, None)
    return found


def words(values: Sequence[object], name: str = "words") -> tuple[str, ...]:
    """Check the words of a page.

    Raises:
        RecordError: As for ``texts``, or there are more words or characters than allowed.
    """
    if len(values) > MAX_WORDS:
        raise RecordError(f"{name} holds more than {MAX_WORDS:,} words")
    found = texts(values, name, MAX_WORD)
    if sum(map(len, found)) > MAX_PAGE:
        raise RecordError(f"{name} holds more than {MAX_PAGE:,} letters")
    return found


def answers(values: Sequence[object]) -> tuple[str, ...]:
    """Check the accepted answers of a question, and drop blank ones.

    Raises:
        RecordError: As for ``texts``, or there are no or too many answers.
    """
    if len(values) > MAX_ANSWERS:
        raise RecordError(f"a question has more than {MAX_ANSWERS} answers")
    found = tuple(answer for answer in texts(values, "answers", MAX_ANSWER) if answer.strip())
    if not found:
        raise RecordError("it has no answer")
    return found


def _number(value: object, name: str) -> str:
    if not isinstance(value, int | float):
        raise RecordError(f"{name} is not a list of texts")
    if value == inf:  # of thousands of digits, or read by a child that cannot send so many
        raise RecordError(f"a number in {name} is too long")
    try:
        return str(value)
    except ValueError as error:
        raise RecordError(f"a number in {name} is too long") from error


def _check(value: str, name: str, most: int | None) -> None:
    if most is not None and len(value) > most:
        raise RecordError(f"{name} has more than {most:,} letters")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise RecordError("a text in it is not valid Unicode (a lone surrogate)") from error
