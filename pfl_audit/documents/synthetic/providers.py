"""Fictitious companies: name, contact data and page style."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


def words(text: str) -> list[str]:
    """Words separated by spaces."""
    return text.split()


_ONSETS = words("b br c cl cr d dr f fl g gr h j k kl l m n p pr r s st t th tr v w")
_VOWELS = ["a", "e", "i", "o", "u", "ai", "ea", "oa"]
_CODAS = ["l", "n", "r", "s", "t", "nd", "rn", "ld", "ck", "m", "x", "lt"]
_TRADES = words("media group supply partners logistics studio systems print labs foods energy works")
_SUFFIXES = words("Inc LLC Ltd GmbH Co")
_STREETS = ["Street", "Avenue", "Road", "Lane", "Drive", "Boulevard", "Court", "Way"]
_STATES = words("AL AZ CA CO CT FL GA IA IL IN KS KY MA MD MI MN MO NC NE NJ NM NV NY OH OR PA TN TX UT VA WA WI")
_STATION_TAILS = ("-TV", "-FM", "-AM", "")
_DOMAINS = ["com", "net", "org", "tv", "co"]
_MAILBOXES = ["billing", "accounts", "invoice", "office", "info", "traffic"]

FONT_FAMILIES = ("DejaVuSans", "DejaVuSerif", "DejaVuSansMono", "STIXGeneral")
LOGOS = ("disc", "square", "diamond", "triangle", "bars", "ring", "chevron", "hexagon")
WORDINGS = {"general": (0, 1, 2), "broadcast": (3, 4, 5), "freight": (6,), "utility": (7,)}
"""Wordings of general invoices, and of three industries; all companies of freight share one, those of utility too."""
LAYOUTS = ("logo-left", "logo-right", "banner", "centred", "sidebar")


@dataclass(frozen=True)
class Style:
    """Page style of a provider: visual features that a model may memorize.

    Attributes:
        layout: One of LAYOUTS.
        logo: One of LOGOS.
        font: One of FONT_FAMILIES.
        primary: Main colour, RGB 0 to 255.
        ruled: Whether there are lines between the rows of the table.
        wording: Index of the field labels and the date format, counted over all WORDINGS.
    """

    layout: str
    logo: str
    font: str
    primary: tuple[int, int, int]
    accent: tuple[int, int, int]
    ruled: bool
    wording: int


@dataclass(frozen=True)
class Provider:
    """A company, and the values that all of its documents share."""

    name: str
    email: str
    phone: str
    address: tuple[str, str]
    website: str
    tax_number: str
    registration_id: str
    style: Style

    def values(self) -> dict[str, str]:
        """Key to value, for the keys that are the same on every document."""
        return {
            "provider_name": self.name,
            "provider_email": self.email,
            "provider_phone": self.phone,
            "provider_address": " ".join(self.address),
            "provider_website": self.website,
            "tax_number": self.tax_number,
            "registration_id": self.registration_id,
        }


def draw_providers(
    count: int, rng: np.random.Generator, *, taken: frozenset[str] = frozenset(), wordings: str = "general"
) -> list[Provider]:
    """Draw companies with different names.

    Args:
        count: Number of companies.
        taken: Lower-cased names that are excluded.
        wordings: A key of WORDINGS.
    """
    providers: list[Provider] = []
    seen = set(taken)
    while len(providers) < count:
        provider = _draw(rng, WORDINGS[wordings])
        if provider.name.lower() not in seen:
            seen.add(provider.name.lower())
            providers.append(provider)
    return providers


def surname(rng: np.random.Generator) -> str:
    """An invented surname of one or two syllables, capitalised."""
    syllables = "".join(_pick(rng, _ONSETS) + _pick(rng, _VOWELS) for _ in range(int(rng.integers(1, 3))))
    return (syllables + _pick(rng, _CODAS)).capitalize()


def company(rng: np.random.Generator) -> str:
    """An invented company name."""
    parts = [surname(rng)]
    if rng.random() < 0.25:
        parts += ["&", surname(rng)]
    parts.append(_pick(rng, _TRADES).capitalize())
    if rng.random() < 0.5:
        parts.append(_pick(rng, _SUFFIXES))
    return " ".join(parts)


def street_address(rng: np.random.Generator) -> tuple[str, str]:
    """Address in two lines: number and street; town, state and postal code."""
    street = f"{int(rng.integers(10, 9900))} {surname(rng)} {_pick(rng, _STREETS)}"
    return street, f"{surname(rng)}ville {_pick(rng, _STATES)} {int(rng.integers(10000, 99999))}"


def _draw(rng: np.random.Generator, wordings: tuple[int, ...]) -> Provider:
    name = _station(rng) if rng.random() < 0.4 else company(rng)
    stem = "".join(letter for letter in name.lower().split()[0] if letter.isalnum())
    # Only some domains contain the name; scrubbing has to find it there.
    host = stem if rng.random() < 0.6 else surname(rng).lower() + _pick(rng, _TRADES)
    domain = f"{host}.{_pick(rng, _DOMAINS)}"
    return Provider(
        name=name,
        email=f"{_pick(rng, _MAILBOXES)}@{domain}",
        phone=f"({int(rng.integers(201, 989))}) 555-{int(rng.integers(0, 10000)):04d}",
        address=street_address(rng),
        website=f"www.{domain}",
        tax_number=f"{int(rng.integers(10, 99))}-{int(rng.integers(1000000, 9999999))}",
        registration_id=f"{_letters(rng, 2)}{int(rng.integers(100000, 999999))}",
        style=_style(rng, wordings),
    )


def _style(rng: np.random.Generator, wordings: tuple[int, ...]) -> Style:
    return Style(
        layout=_pick(rng, LAYOUTS),
        logo=_pick(rng, LOGOS),
        font=_pick(rng, FONT_FAMILIES),
        primary=_colour(rng, 20, 170),
        accent=_colour(rng, 90, 235),
        ruled=bool(rng.random() < 0.5),
        wording=wordings[int(rng.integers(3)) % len(wordings)],
    )


def _station(rng: np.random.Generator) -> str:
    return _pick(rng, ("K", "W")) + _letters(rng, 3) + _pick(rng, _STATION_TAILS)


def _letters(rng: np.random.Generator, count: int) -> str:
    return "".join(chr(ord("A") + int(code)) for code in rng.integers(26, size=count))


def _colour(rng: np.random.Generator, low: int, high: int) -> tuple[int, int, int]:
    red, green, blue = (int(value) for value in rng.integers(low, high, size=3))
    return red, green, blue


def _pick(rng: np.random.Generator, choices: tuple[str, ...] | list[str]) -> str:
    return choices[int(rng.integers(len(choices)))]
