"""Content of an invoice: the values of one document of a provider."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta

import numpy as np

from pfl_audit.documents.synthetic.providers import Provider, company, street_address, words

_GOODS = words("spot package banner design print delivery licence service hosting support survey filter cable panel")
_TERMS = ("Net 15", "Net 30", "Net 45", "Net 60", "Due on receipt", "2/10 Net 30")
_DAYS = ("%m/%d/%Y", "%Y-%m-%d", "%d.%m.%Y", "%d-%b-%y", "%Y/%m/%d", "%d %B %Y", "%b %d %Y", "%d %b, %Y")
"""Date format of each wording."""

LOGO_ONLY = 0.35
"""Share of documents whose provider name is only in a drawn word mark, which OCR does not read."""
RARE_KEYS = 0.4
"""Share of documents with a tax number, and of documents with a registration id: few, as in figure 6."""


@dataclass(frozen=True)
class Line:
    """A row of the table: item, quantity, unit price in cents."""

    item: str
    quantity: int
    price: int


@dataclass(frozen=True)
class Invoice:
    """One document of a provider.

    Attributes:
        values: Key to value, for every key whose value is on the page.
        lines: Rows of the table.
        customer_address: Two lines.
        logo_only: Whether the provider's name is only in the word mark.
    """

    provider: Provider
    values: dict[str, str]
    lines: tuple[Line, ...]
    customer_address: tuple[str, str]
    logo_only: bool


def draw_invoice(provider: Provider, rng: np.random.Generator) -> Invoice:
    """Draw the content of one document of ``provider``."""
    lines = tuple(_line(rng) for _ in range(int(rng.integers(2, 5))))
    net = sum(line.quantity * line.price for line in lines)
    tax = round(net * float(rng.choice([0.05, 0.07, 0.1, 0.19])))
    issued = date(2019, 1, 1) + timedelta(days=int(rng.integers(0, 1500)))
    values = provider.values()
    for key in ("tax_number", "registration_id"):
        if rng.random() > RARE_KEYS:
            del values[key]
    for key, share in (("provider_email", 0.8), ("provider_phone", 0.8), ("provider_website", 0.6)):
        if rng.random() > share:
            del values[key]
    values |= {
        "invoice_number": f"{int(rng.integers(1000, 999999))}",
        "invoice_date": _day(issued, provider.style.wording),
        "due_date": _day(issued + timedelta(days=int(rng.choice([15, 30, 45]))), provider.style.wording),
        "customer_name": company(rng),
        "payment_terms": str(rng.choice(_TERMS)),
        "subtotal": money(net),
        "tax_amount": money(tax),
        "total_amount": money(net + tax),
    }
    if rng.random() < 0.5:
        values["purchase_order"] = f"PO-{int(rng.integers(1000, 99999))}"
    return Invoice(provider, values, lines, street_address(rng), bool(rng.random() < LOGO_ONLY))


def money(cents: int) -> str:
    """Format an amount in dollars: ``$1,234.50``."""
    return f"${cents / 100:,.2f}"


def _line(rng: np.random.Generator) -> Line:
    item = f"{rng.choice(_GOODS).capitalize()} {rng.choice(_GOODS)}"
    return Line(item, int(rng.integers(1, 20)), int(rng.integers(500, 90000)))


def _day(day: date, wording: int) -> str:
    return day.strftime(_DAYS[wording])
