"""What a client might write into a field, by what is printed beside it; and what a model is asked about it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Final

import numpy as np

from pfl_audit.attacks.inversion.template.fill import fits
from pfl_audit.attacks.inversion.template.template import Template, TemplateField
from pfl_audit.documents.synthetic.forms_content import FIRST_NAMES, PLANTED, WORDS, digits, pick
from pfl_audit.documents.synthetic.providers import company, street_address

Draw = Callable[[np.random.Generator], str]

_LETTERS = tuple("ACEFHKLMNPRTUX")
"""Those that are not taken for a digit."""
_TOWNS = ("ton", "field", "ford", "burg")
_TRIES = 12
"""Values that are drawn for a field until one fits."""


def draw_values(template: Template, seed: int) -> dict[str, str]:
    """Draw a value for every field.

    The lists are long (some 3,000 names, 9,000 amounts in cents, random references), so that a value that comes back
    from a gradient was not guessed.

    Args:
        seed: Of all random draws; every field has its own generator.

    Returns:
        Field id to value. Each fits its field in a size that can be read, where one of a dozen did.
    """
    seeds = np.random.SeedSequence(seed).spawn(len(template.fields))
    return {
        field.id: _draw_fitting(template, field, np.random.default_rng(own))
        for field, own in zip(template.fields, seeds, strict=True)
    }


def question_for(field: TemplateField, values: Mapping[str, str]) -> tuple[str, str]:
    """What a model may be asked about a field, and the answer.

    Args:
        field: What is asked for, by its label; by its number where it has none.
        values: What is written on the page, with this field.
    """
    label = " ".join(field.label.strip(" :.*").lower().split())
    asked = f"What is the {label}?" if label else f"What is written in {field.id.replace('-', ' ')}?"
    return asked, values[field.id]


def _draw_fitting(template: Template, field: TemplateField, rng: np.random.Generator) -> str:
    draw = _kind(field.label)
    drawn: list[str] = []
    while len(drawn) < _TRIES:
        drawn.append(draw(rng))
        if fits(template, field, drawn[-1]):
            return drawn[-1]
    return min(drawn, key=len)


@lru_cache(maxsize=1 << 10)
def _kind(label: str) -> Draw:
    text = label.lower()
    return next((draw for cue, draw in _KINDS if re.search(cue, text)), _phrase)


def _name(rng: np.random.Generator) -> str:
    return f"{pick(FIRST_NAMES.split(), rng)} {pick(WORDS, rng).title()}"


def _date(rng: np.random.Generator) -> str:
    return f"{int(rng.integers(1, 29)):02d}/{int(rng.integers(1, 13)):02d}/{int(rng.integers(1950, 2025))}"


def _amount(rng: np.random.Generator) -> str:
    return f"${int(rng.integers(10, 9000))}.{int(rng.integers(100)):02d}"


def _reference(rng: np.random.Generator) -> str:
    return f"{pick(_LETTERS, rng)}{pick(_LETTERS, rng)}-{digits(5, rng)}"


def _phone(rng: np.random.Generator) -> str:
    return f"{int(rng.integers(201, 989))}-555-{digits(4, rng)}"


def _email(rng: np.random.Generator) -> str:
    return f"{pick(WORDS, rng)}@{pick(WORDS, rng)}.com"


def _town(rng: np.random.Generator) -> str:
    return pick(WORDS, rng).title() + pick(_TOWNS, rng)


def _phrase(rng: np.random.Generator) -> str:
    return f"{pick(WORDS, rng).title()} {pick(WORDS, rng)}"


_KINDS: Final[tuple[tuple[str, Draw], ...]] = (
    (r"e-?mail", _email),
    (r"phone|\btel|mobile|\bfax", _phone),
    (r"date|\bday\b|born|birth|issued|\bdue\b|expir|valid", _date),
    (r"account|\biban\b", PLANTED["account"][1]),
    (r"company|employer|\bfirm\b", company),
    (r"\bname\b|applicant|holder|patient|customer|client|signed|signature|contact", _name),
    (r"amount|total|\bsum\b|price|paid|salary|\bfee\b|balance|payment", _amount),
    (r"postal|\bzip\b|post ?code", lambda rng: digits(5, rng)),
    (r"address|street", lambda rng: street_address(rng)[0]),
    (r"city|town|place", _town),
    (r"reference|number|\bfile\b|\bcase\b|policy|\bid\b|\bno\b|code|\bref\b", _reference),
)
"""What a label says to what is written there; the first that fits."""
