"""Content of synthetic forms: answers that can be guessed, and planted random ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from pfl_audit.documents.forms.form import Field

_T = TypeVar("_T")
_Kind = tuple[tuple[str, ...], Callable[[np.random.Generator], str]]
"""Wordings of the question, and a function that draws an answer."""

PLANTED_PREFIX = "planted-"
"""Prefix of the ids of fields with a random value."""

_WORDS = """
amber anchor apple arrow autumn basket beach bell bird blanket boat bottle branch bread bridge bronze brush
bucket butter button cabin camel candle canyon carpet castle cedar chain chalk cherry circle clay cloud clover
coast coffee copper coral corner cotton cradle crane cream creek crown crystal dance desert diamond door
dragon drum eagle earth engine evening falcon farm feather fence field finger fire flame flower forest
fountain fox garden garlic gate ghost giant glass glove gold grain grape grass green guitar hammer harbor hat
hawk helmet hill honey horse hotel house hunter ice iron island ivory jacket jewel jungle kettle king kitchen
ladder lake lamp leaf lemon letter light lion lizard lock maple marble market meadow melon metal mirror moon
morning mountain needle night north oak ocean olive onion orange orchid oven owl paint palace panther paper
pearl pepper piano pilot planet plum pocket pond prince rabbit rain raven ribbon river robin rocket root rope
rose saddle sail salt sand shadow sheep shell silver sky snow spider spoon spring square star steel stone
storm sugar summer sun table temple tiger tower train tree tulip tunnel valley velvet village violin water
whale wheel willow wind window winter wolf yellow
"""
FIRST_NAMES = "Anna Carlos David Elena Frank Grace Henry Julia Laura Marco Nina Oscar Peter Rosa Simon Teresa"
_LAST = "Adams Baker Carter Davis Evans Fisher Garcia Harris Jones Lewis Martin Nelson Parker Roberts Smith Turner"
_CITIES = "Austin Berlin Boston Chicago Dallas Denver Dublin London Madrid Miami Paris Seattle"
_GOODS = "bread butter coffee lemons milk olives onions oranges paper pepper rice salt soap sugar tea water"
WORDS = tuple(_WORDS.split())
"""Vocabulary of planted phrases: common words, so that only their order is secret."""
_TRADES = ("Northern Supply", "Central Market", "City Motors", "United Media", "Garden House", "Harbor Books")
_OFFICES = ("Accounts", "Sales", "Research", "Public Affairs", "Legal", "Human Resources")
_SUMS = (10, 12, 15, 20, 25, 30, 40, 50, 60, 75, 80, 100)
_TITLES = ("APPLICATION FORM", "REGISTRATION FORM", "REQUEST FOR SERVICE", "MEMBERSHIP RECORD")
_TERMS = ("Cash", "Card", "Bank transfer", "Net 30", "Due on receipt")
_STATES = ("Approved", "Pending", "New", "Renewed", "Closed")
_NOTES = (
    "Please keep this page together with your other records",
    "All entries must be complete and signed by the holder",
    "Thank you for your visit and see you again soon",
    "Return this page to the office within two weeks",
)


@dataclass(frozen=True)
class Entry:
    """A question of a form with its answer; ``id`` is the id of the field of the answer."""

    id: str
    question: str
    answer: str


@dataclass(frozen=True)
class Sheet:
    """Content of one form.

    Attributes:
        receipt: Whether the form is a receipt with goods, else an application form.
        entries: Questions with answers, in the order of the page.
        goods: Items and prices as printed; empty unless the form is a receipt.
        note: Last line of the form.
    """

    receipt: bool
    title: str
    entries: tuple[Entry, ...]
    goods: tuple[tuple[str, str], ...]
    note: str


def is_planted(field: Field) -> bool:
    """Whether a field of a synthetic form holds a random value."""
    return field.id.startswith(PLANTED_PREFIX)


def draw_sheet(planted: int, rng: np.random.Generator) -> Sheet:
    """Draw the content of one form.

    Args:
        planted: Number of planted values.
    """
    receipt = bool(rng.random() < 0.4)
    kinds = {name: _USUAL[name] for name in _some(list(_USUAL), 5 if receipt else 7, rng)}
    kinds |= {PLANTED_PREFIX + name: PLANTED[name] for name in _some(list(PLANTED), planted, rng)}
    entries = []
    for name in _some(list(kinds), len(kinds), rng):
        questions, answer = kinds[name]
        entries.append(Entry(name, pick(questions, rng), answer(rng)))
    goods = tuple((f"{int(rng.integers(1, 5))} {item}", _money(rng)) for item in _some(_GOODS.split(), 4, rng))
    title = f"{pick(_TRADES, rng).upper()} RECEIPT" if receipt else pick(_TITLES, rng)
    return Sheet(receipt, title, tuple(entries), goods if receipt else (), pick(_NOTES, rng))


def pick(choices: Sequence[_T], rng: np.random.Generator) -> _T:
    """One of some choices."""
    return choices[int(rng.integers(len(choices)))]


def _some(choices: Sequence[_T], count: int, rng: np.random.Generator) -> list[_T]:
    """``count`` distinct choices in random order."""
    return [choices[int(number)] for number in rng.permutation(len(choices))[:count]]


def _name(rng: np.random.Generator) -> str:
    return f"{pick(FIRST_NAMES.split(), rng)} {pick(_LAST.split(), rng)}"


def _date(rng: np.random.Generator) -> str:
    return f"{int(rng.integers(1, 29)):02d}/{int(rng.integers(1, 13)):02d}/20{int(rng.integers(18, 24))}"


def _money(rng: np.random.Generator) -> str:
    return f"${pick(_SUMS, rng)}.00"


def _reference(rng: np.random.Generator) -> str:
    return " ".join(digits(length, rng) for length in (2, 3, 3))


def _account(rng: np.random.Generator) -> str:
    return "-".join(digits(length, rng) for length in (4, 3, 2))


def _serial(rng: np.random.Generator) -> str:
    letters = "".join(chr(ord("a") + int(code)) for code in rng.integers(26, size=3))
    serial = f"{letters} {digits(2, rng)} {digits(2, rng)}"
    return serial.upper() if rng.random() < 0.5 else serial


def _phrase(rng: np.random.Generator) -> str:
    phrase = " ".join(_some(WORDS, 4, rng))
    return phrase.title() if rng.random() < 0.5 else phrase


def digits(length: int, rng: np.random.Generator) -> str:
    """Random digits."""
    return "".join(str(digit) for digit in rng.integers(10, size=length))


_USUAL: dict[str, _Kind] = {
    "name": (("Name:", "Full name:", "Applicant:"), _name),
    "date": (("Date:", "Issued on:", "Day:"), _date),
    "city": (("City:", "Town:", "Place:"), lambda rng: pick(_CITIES.split(), rng)),
    "company": (("Company:", "Employer:", "Firm:"), lambda rng: pick(_TRADES, rng)),
    "amount": (("Amount:", "Total due:", "Sum:"), _money),
    "office": (("Department:", "Office:", "Division:"), lambda rng: pick(_OFFICES, rng)),
    "terms": (("Payment:", "Terms:", "Paid by:"), lambda rng: pick(_TERMS, rng)),
    "state": (("Status:", "State of file:", "Case:"), lambda rng: pick(_STATES, rng)),
}
"""Answers from short public lists."""
PLANTED: dict[str, _Kind] = {
    "reference": (("Reference number:", "File number:", "Our reference:"), _reference),
    "account": (("Account number:", "Customer account:", "Account:"), _account),
    "serial": (("Serial number:", "Device code:", "Unit code:"), _serial),
    "phrase": (("Access phrase:", "Pass phrase:", "Recovery words:"), _phrase),
}
"""Random answers, of 3 to 15 tokens."""
