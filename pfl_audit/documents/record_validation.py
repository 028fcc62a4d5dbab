"""What is wrong with a record of a corpus, in sentences of ours: the field and the rule, never a value.

A ``Problem`` stands in reports. The text of an exception of Python or numpy may quote the record ("could not convert
string to float: 'Acme'"), so only a RecordError's text is kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

MAX_NAME = 1_000
"""Letters of an id, a provider's name, a split."""
MAX_QUESTION = 2_000
MAX_ANSWER = 1_000
"""Letters of an answer: losses are taken over it, and the memory that they need grows with it."""
MAX_ANSWERS = 100
"""Accepted answers a question."""
MAX_QUESTIONS = 10_000
"""Questions a page."""
MAX_WORD = 1_000
MAX_WORDS = 20_000
"""Words a page; a page of a newspaper has fewer than 10,000."""
MAX_PAGE = 500_000
"""Letters of all words of a page."""

RECORD_ERRORS = (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError, RecursionError)
"""What reading a damaged record raises, RecordError (a ValueError) included."""


class RecordError(ValueError):
    """A record cannot be used; the text names the field and the rule that it breaks, and quotes nothing."""


def reason_of(error: Exception) -> str:
    """Why a record cannot be used, fit for a Problem."""
    return str(error) if isinstance(error, RecordError) else "it is not of the right form"


def field_of(row: Mapping[str, Any], name: str) -> Any:
    """The value of a field that must be there.

    Raises:
        RecordError: It is missing.
    """
    if name not in row:
        raise RecordError(f"the field '{name}' is missing")
    return row[name]


def text(value: object, name: str, most: int) -> str:
    """A text that holds something.

    Args:
        value: What the field holds.
        name: The field, for the error.
        most: Letters that it may have.

    Raises:
        RecordError: It is not a text, blank, too long, or not valid Unicode.
    """
    if not isinstance(value, str):
        raise RecordError(f"{name} is not a text")
    if not value.strip():
        raise RecordError(f"{name} is empty")
    _check(value, name, most)
    return value


def identifier(value: object, name: str) -> str | None:
    """A text or number that names something, as a text; None where there is none.

    Raises:
        RecordError: It is of another kind, or too long.
    """
    if not isinstance(value, str | int | float | None):
        raise RecordError(f"{name} is not a text")
    return None if value is None else texts([value], name, MAX_NAME)[0]


def texts(values: Iterable[object], name: str, most: int) -> tuple[str, ...]:
    """Texts, some of which may be blank; numbers become texts.

    Args:
        values: What the field holds.
        name: The field, for the error.
        most: Letters that each may have.

    Raises:
        RecordError: One is neither a text nor a number, too long, or not valid Unicode.
    """
    found = tuple(value if isinstance(value, str) else _number(value, name) for value in values)
    if max(map(len, found), default=0) > most:
        raise RecordError(f"{name} holds a text of more than {most:,} letters")
    _check("".join(found), name, None)
    return found


def words(values: Sequence[object], name: str = "words") -> tuple[str, ...]:
    """The words of a page.

    Raises:
        RecordError: As ``texts`` does, or the page holds more than a page does.
    """
    if len(values) > MAX_WORDS:
        raise RecordError(f"{name} holds more than {MAX_WORDS:,} words")
    found = texts(values, name, MAX_WORD)
    if sum(map(len, found)) > MAX_PAGE:
        raise RecordError(f"{name} holds more than {MAX_PAGE:,} letters")
    return found


def answers(values: Sequence[object]) -> tuple[str, ...]:
    """The accepted answers of a question, without blank ones.

    Raises:
        RecordError: As ``texts`` does, there are too many, or none.
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
    try:
        return str(value)
    except ValueError as error:  # a number of thousands of digits
        raise RecordError(f"a number in {name} is too long") from error


def _check(value: str, name: str, most: int | None) -> None:
    if most is not None and len(value) > most:
        raise RecordError(f"{name} has more than {most:,} letters")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise RecordError("a text in it is not valid Unicode (a lone surrogate)") from error
