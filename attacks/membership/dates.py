"""Years and months of the dates in a text, found by their usual spellings."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

_ENGLISH: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTHS: Final = {name: number for number, name in enumerate(_ENGLISH, 1)} | {"mär": 3, "mai": 5, "okt": 10, "dez": 12}
"""First three letters, English and German."""
_NAME: Final = r"(?P<name>[^\W\d_]{3,9})\.?"
_YEAR: Final = r"(?P<year>(?:19|20)\d\d)"
_END: Final = r"(?![\w]|[./-]\d)"
_FORMS: Final = tuple(
    re.compile(form, re.IGNORECASE)
    for form in (
        rf"(?<![\w./-]){_YEAR}[-/.](?P<a>\d{{1,2}})[-/.]\d{{1,2}}{_END}",
        rf"(?<![\w./-])(?P<a>\d{{1,2}})(?P<sign>[-/.])(?P<b>\d{{1,2}})(?P=sign)(?P<year>(?:19|20)?\d\d){_END}",
        rf"(?<!\w)\d{{1,2}}(?P<dash>[-/\s]){_NAME}(?P=dash)(?P<year>\d\d){_END}",
        rf"(?<![^\W\d_]){_NAME}[\s,-]{{1,3}}(?:\d{{1,2}}(?:st|nd|rd|th)?,?\s{{1,2}})?{_YEAR}(?!\w)",
    )
)
_PIVOT: Final = 50
"""Two-digit years below are of this century."""


def dates_in(text: str) -> list[tuple[int, int]]:
    """Year and month of every date that a text prints: 2022-09-07, 09/07/22, 7.9.2022, 7-Sep-22, September 2022.

    With slashes and hyphens the month comes first, unless it cannot; with points the day does. What has no month
    within 1 to 12 is no date.

    Returns:
        Year (1900 to 2099) and month (1 to 12), by form and place.
    """
    return [date for form in _FORMS for match in form.finditer(text) if (date := _date(match)) is not None]


def _date(match: re.Match[str]) -> tuple[int, int] | None:
    parts = match.groupdict()
    year = int(parts["year"])
    if len(parts["year"]) == 2:
        year += 2000 if year < _PIVOT else 1900
    return next(((year, month) for month in _months(parts) if 1 <= month <= 12), None)


def _months(parts: dict[str, str | None]) -> Iterator[int]:
    """What may be the month, the likeliest first."""
    if name := parts.get("name"):
        yield _MONTHS.get(name[:3].casefold(), 0)
    elif parts.get("sign") == ".":
        yield int(parts["b"] or 0)
    elif parts.get("a"):
        yield int(parts["a"] or 0)
        yield int(parts.get("b") or 0)
