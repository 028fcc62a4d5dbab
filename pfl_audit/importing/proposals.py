"""Values that the text of a page proposes for well-defined keys, for a person to correct."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

from pfl_audit.errors import UsageError
from pfl_audit.importing.reading import ReadPage

Span = tuple[int, int, str]
"""First word, word after the last, value."""

_MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?"
_DATE = re.compile(
    rf"(?<![\w./-])(?:\d{{1,2}}[./-]\d{{1,2}}[./-](?:\d{{4}}|\d{{2}})|\d{{4}}[./-]\d{{1,2}}[./-]\d{{1,2}}"
    rf"|\d{{1,2}}[ -]{_MONTH},?[ -](?:\d{{4}}|\d{{2}})|{_MONTH} \d{{1,2}},? \d{{4}})(?![\w/-])",
    re.IGNORECASE,
)
_AMOUNT = re.compile(
    r"(?<![\w.,])[-(]?(?:[$€£]\s?)?\d{1,3}(?:[,.' ]?\d{3}){0,6}[.,]\d{2}(?!\d)(?:\s?[$€£](?!\s?\d))?\)?"
)
_EMAIL = re.compile(r"[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,5}")
_WEB = re.compile(r"(?:https?://|www\.)[\w-]{1,63}(?:\.[\w-]{1,63}){1,5}(?:/[^\s,;)]{0,200})?", re.IGNORECASE)
_IBAN = re.compile(r"(?<!\w)[A-Z]{2}\d{2}(?: ?[A-Z0-9]){11,30}(?!\w)")
_NUMBER = re.compile(r"(?<![\w-])(?:[A-Z]{2,3}[ .-]?)?\d(?:[ ./-]?[0-9A-Z]){6,14}(?![\w-])")
_TAX_LABEL = re.compile(r"tax|vat|ein\b|fiscal|ust|steuer|tva|siren|nif\b|iva\b|btw|mwst|code", re.IGNORECASE)
_DUE_LABEL = re.compile(r"due|payable|pay by|settle|last day|faellig|fällig|échéance", re.IGNORECASE)
_TOTAL_LABEL = re.compile(
    r"grand total|amount due|net due|balance|to transfer|freight charge|payable|total|summe|betrag", re.IGNORECASE
)
_NO_TOTAL = re.compile(r"sub-? ?total|net amount|due date|payable until", re.IGNORECASE)
_NEAR = 40
"""Letters before a value in which its label is looked for."""
_COUNTRIES: Final = {"US": ("us.ein", "us.ssn"), "GB": ("gb.vat", "gb.utr"), "CH": ("ch.vat", "ch.uid")}
_MOST_CANDIDATES = 200


@dataclass(frozen=True)
class Proposal:
    """A proposed value.

    Attributes:
        key: Key of the value.
        value: The words of the page.
        page: Index of the page in its document.
        words: First word and the word after the last.
    """

    key: str
    value: str
    page: int
    words: tuple[int, int]


def require_packages() -> None:
    """Check that the packages for numbers are installed.

    Raises:
        UsageError: One is missing.
    """
    for module in ("phonenumbers", "stdnum"):
        if find_spec(module) is None:
            raise UsageError(f"proposing values needs {module}", "Run: pip install 'pfl-audit[documents]'")


def propose(pages: Sequence[ReadPage], region: str) -> list[Proposal]:
    """Propose at most one value for each key of a document: the first that is found.

    Args:
        pages: Pages of the document in order.
        region: Country of phone and tax numbers without a country code, two capital letters.
    """
    found: dict[str, Proposal] = {}
    for at, page in enumerate(pages):
        line = _Line(page.words)
        for key, finder in _FINDERS.items():
            if key not in found and (span := next(finder(line, region), None)) is not None:
                first, last, value = span
                found[key] = Proposal(key, value, at, (first, last))
    return [found[key] for key in _FINDERS if key in found]


class _Line:
    """The words of a page as one line, in which a span of letters is a span of words."""

    def __init__(self, words: Sequence[str]) -> None:
        self.text = " ".join(words)
        self._word_at = [number for number, word in enumerate(words) for _ in range(len(word) + 1)]

    def span(self, start: int, stop: int) -> Span:
        """The span of words around letters, with these letters as value."""
        return self._word_at[start], self._word_at[stop - 1] + 1, self.text[start:stop].strip()

    def before(self, start: int) -> str:
        """What is printed directly before a letter."""
        return self.text[max(0, start - _NEAR) : start]

    def matches(self, pattern: re.Pattern[str]) -> list[re.Match[str]]:
        return [match for match, _ in zip(pattern.finditer(self.text), range(_MOST_CANDIDATES), strict=False)]


def _pattern(pattern: re.Pattern[str]) -> Callable[[_Line, str], Iterator[Span]]:
    return lambda line, _: (line.span(*match.span()) for match in line.matches(pattern))


def _phones(line: _Line, region: str) -> Iterator[Span]:
    import phonenumbers

    for match in phonenumbers.PhoneNumberMatcher(line.text[:50_000], region, max_tries=_MOST_CANDIDATES):
        yield line.span(match.start, match.end)


def _ibans(line: _Line, region: str) -> Iterator[Span]:
    from stdnum import iban

    for match in line.matches(_IBAN):
        text = match.group()
        ends = [end for end in range(len(text), 14, -1) if end == len(text) or text[end] == " "]
        for end in ends:  # words in capitals may follow
            if iban.is_valid(text[:end]):
                yield line.span(match.start(), match.start() + end)
                break


def _tax_numbers(line: _Line, region: str) -> Iterator[Span]:
    """Numbers whose check digits are right, after a label of a tax number."""
    for match in line.matches(_NUMBER):
        if _TAX_LABEL.search(line.before(match.start())[-25:]) and _is_tax_number(match.group(), region):
            yield line.span(*match.span())


def _is_tax_number(text: str, region: str) -> bool:
    from stdnum.eu import vat

    modules: list[Any] = [import_module(f"stdnum.{name}") for name in _COUNTRIES.get(region, ())]
    return vat.is_valid(text) or any(module.is_valid(text) for module in (*modules, *_national(region)))


def _national(region: str) -> tuple[Any, ...]:
    from stdnum import get_cc_module

    found = get_cc_module(region.lower(), "vat")
    return (found,) if found is not None else ()


def _dates(line: _Line, region: str) -> Iterator[Span]:
    """The first date that no label makes a due date."""
    for match in line.matches(_DATE):
        if not _DUE_LABEL.search(line.before(match.start())[-20:]):
            yield line.span(*match.span())


def _due_dates(line: _Line, region: str) -> Iterator[Span]:
    for match in line.matches(_DATE):
        if _DUE_LABEL.search(line.before(match.start())[-20:]):
            yield line.span(*match.span())


def _totals(line: _Line, region: str) -> Iterator[Span]:
    """The last amount directly after a label of a total, else the largest; one of zero or below where all are."""
    found = line.matches(_AMOUNT)
    amounts = [match for match in found if _size(match.group()) and match.group()[0] not in "-("] or found
    labelled = [match for match in amounts if _is_total(line.before(match.start())[-22:])]
    if labelled:
        yield line.span(*labelled[-1].span())
    elif amounts:
        yield line.span(*max(amounts, key=lambda match: _size(match.group())).span())


def _is_total(before: str) -> bool:
    return bool(_TOTAL_LABEL.search(before)) and not _NO_TOTAL.search(before)


def _size(text: str) -> int:
    return int(re.sub(r"\D", "", text))


_FINDERS: Final[dict[str, Callable[[_Line, str], Iterator[Span]]]] = {
    "provider_email": _pattern(_EMAIL),
    "provider_phone": _phones,
    "provider_website": _pattern(_WEB),
    "iban": _ibans,
    "tax_number": _tax_numbers,
    "invoice_date": _dates,
    "due_date": _due_dates,
    "total_amount": _totals,
}
KEYS: Final = tuple(_FINDERS)
"""Keys for which values are proposed."""
