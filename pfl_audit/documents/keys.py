"""Keys of invoices, their question templates, and detection of the key of a question.

PFL-DocVQA has 20 templates per key (privacy-aware-docvqa, section 3), does not publish them, and does not store the key
of a record. Here a template is a frame filled with one of the key's names; the key of a question is detected by the
words in it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import numpy as np

FRAMES: Final = (
    "What is {}?",
    "What is {} in this document?",
    "What is {} on this invoice?",
    "Can you tell me {}?",
    "Could you tell me {} shown in the document?",
    "Can you provide {}?",
    "Can you provide {} mentioned in the document?",
    "Could you give me {}?",
    "Please provide {}.",
    "Please state {} of this invoice.",
    "Can you inform me of {}?",
    "May I know {}?",
    "Would you tell me {} on this page?",
    "Which value does the document give for {}?",
    "What does the document state as {}?",
    "What does the invoice list as {}?",
    "Can you find {} in this document?",
    "Could you identify {} on the invoice?",
    "I would like to know {}.",
    "Tell me {} from this document.",
)
"""Twenty frames; a key has one or more names, so at least twenty templates."""

NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "provider_name": (
        "the name of the provider",
        "the vendor's name",
        "the provider's name",
        "the name of the company that issued this invoice",
    ),
    "provider_email": ("the email of the provider", "the vendor's email address", "the provider's e-mail"),
    "provider_phone": ("the phone number of the provider", "the vendor's telephone number"),
    "provider_address": ("the address of the provider", "the vendor's address"),
    "provider_website": ("the website of the provider", "the vendor's web page"),
    "tax_number": ("the tax number", "the provider's tax id", "the vat number"),
    "registration_id": ("the registration id", "the company registration number"),
    "invoice_number": ("the invoice number", "the number of the invoice"),
    "invoice_date": ("the invoice date", "the date of the invoice"),
    "due_date": ("the due date", "the date by which payment is due"),
    "customer_name": ("the name of the customer", "the client's name"),
    "purchase_order": ("the purchase order number", "the purchase order"),
    "payment_terms": ("the payment terms", "the terms of payment"),
    "subtotal": ("the subtotal", "the net amount"),
    "tax_amount": ("the tax amount", "the amount of tax"),
    "total_amount": ("the total amount", "the gross amount to be paid"),
    "advertiser": ("the name of the advertiser", "the advertiser"),
    "contract_number": ("the contract number", "the number of the contract"),
    "flight_from": ("the flight start date", "the first day of the flight"),
    "flight_to": ("the flight end date", "the last day of the flight"),
}
"""Key to its names in questions."""

PROVIDER_KEYS: Final = (
    "provider_name",
    "provider_email",
    "provider_phone",
    "provider_address",
    "provider_website",
    "tax_number",
    "registration_id",
)
"""Keys whose value is the same on all documents of a provider, so that it may be memorized (section 5.1)."""

SECRET_KEYS: Final = ("tax_number", "registration_id")
"""Keys of the unprompted-disclosure test (appendix D.1.4)."""

_ISSUER = r"(provider|vendor|supplier|seller|issuer|issued|agency|sender|station)"
_CUES: Final[tuple[tuple[str, str], ...]] = (
    ("provider_email", rf"{_ISSUER}.*e-?mail|e-?mail.*{_ISSUER}"),
    ("provider_website", rf"{_ISSUER}.*(web|site|url)|(web|url).*{_ISSUER}"),
    ("provider_phone", rf"{_ISSUER}.*(phone|fax)|phone.*{_ISSUER}"),
    ("tax_number", r"\btax\b.*\b(number|id|identification|no)\b|\bvat\b.*\b(number|id|no)\b|\bein\b"),
    ("registration_id", r"\bregist\w*\b.*\b(number|id|no|code)\b|\bregist\w*\b"),
    ("purchase_order", r"\bpurchase order\b|\bpo number\b"),
    ("invoice_number", r"\binvoice\b.*\b(number|no)\b|\b(number|id) of the invoice\b"),
    ("due_date", r"\bdue\b"),
    ("invoice_date", r"\b(invoice date|date of the invoice|issue date|date of issue)\b"),
    ("flight_from", r"\bflight\b.*\b(start|from|first|begin)|(start|first)\b.*\bflight\b"),
    ("flight_to", r"\bflight\b.*\b(end|to|last)\b|(end|last)\b.*\bflight\b"),
    ("contract_number", r"\bcontract\b.*\b(number|no|id)\b|\bnumber of the contract\b"),
    ("customer_name", r"\b(customer|client|buyer)\b"),
    ("payment_terms", r"\bterms\b"),
    ("subtotal", r"\b(subtotal|net amount)\b"),
    ("tax_amount", r"\b(amount of tax|tax amount)\b"),
    ("total_amount", r"\b(total|gross)\b"),
    ("advertiser", r"\badvertiser\b"),
    ("provider_address", rf"{_ISSUER}.*address|address.*{_ISSUER}"),
    ("provider_name", rf"{_ISSUER}"),
)


def templates(key: str) -> tuple[str, ...]:
    """All question templates of ``key``, at least twenty.

    Raises:
        KeyError: The key does not exist.
    """
    return tuple(frame.format(name) for frame in FRAMES for name in NAMES[key])


def draw_question(key: str, rng: np.random.Generator) -> str:
    """A template of the key, drawn uniformly with ``rng``."""
    choices = templates(key)
    return choices[int(rng.integers(len(choices)))]


@lru_cache(maxsize=65536)
def key_of_question(question: str) -> str:
    """Key that a question asks for, or ``other``.

    Our templates are recognised exactly, other wordings by regular expressions, the most specific
    key first.
    """
    text = " ".join(question.lower().split())
    if (known := _known().get(text)) is not None:
        return known
    for key, cue in _CUES:
        if re.search(cue, text):
            return key
    return "other"


@lru_cache(maxsize=1)
def _known() -> dict[str, str]:
    return {question.lower(): key for key in NAMES for question in templates(key)}
