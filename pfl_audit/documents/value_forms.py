"""The forms in which a value can be on a page: what the scrubber looks for.

Every function adds one class of forms, and reads nothing but the value.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from pfl_audit.documents.hosts import domain_labels, without_affixes
from pfl_audit.documents.ordinary_words import LEGAL, MAIL_HOSTS, ORDINARY, STATION_TAILS, TRADES
from pfl_audit.documents.plain import clean, compact

_AND = ("and", "n", "und", "et", "y")
_SMALL = (*_AND, "of", "the", "for", "de", "la", "in", "at")
_AND_READ = ("", "and", "n", "8", "amp")
"""How an ampersand is read: left out, spelled, or by an OCR that errs."""
_LONG, _SHORT = 4, 3
"""Letters from which a word of a value points to it inside longer words, and as a word by itself."""

_LONGEST_VALUE = 1000
"""Letters beyond which a value is looked for as it is alone."""


@dataclass(frozen=True)
class ValueForms:
    """What is looked for. All texts are compact.

    Attributes:
        near: Runs of words that are nearly one of these.
        exact: Runs of words that are exactly one of these, up to confusions of OCR.
        acronyms: Runs of words in capitals that are exactly one of these.
        initials: First letters of the words of a name, two or more, ordinary words among them.
        inside: Looked for inside longer words as well.
        pieces: Short; looked for between the punctuation of a word.
        hosts: Looked for as what a domain is called.
        numbers: Digits that are looked for inside longer numbers, four or more.
        tails: The last seven digits of a phone number, which runs of words may end with.
        neighbours: Words of the value that go where they are beside a mention; none of a domain's.
    """

    near: tuple[str, ...]
    exact: frozenset[str]
    acronyms: frozenset[str]
    initials: frozenset[str]
    inside: frozenset[str]
    pieces: frozenset[str]
    hosts: frozenset[str]
    numbers: frozenset[str]
    tails: frozenset[str]
    neighbours: frozenset[str]


@lru_cache(maxsize=1024)
def value_forms(value: str) -> ValueForms:
    """All forms of a value.

    Args:
        value: As the corpus gives it.

    Returns:
        Empty sets for what a value of its kind (name, number, address, domain) has not.
    """
    text = clean(value)
    whole = compact(text)
    if len(text) > _LONGEST_VALUE:
        none: frozenset[str] = frozenset()
        return ValueForms((whole,), frozenset({whole}), none, none, frozenset({whole}), none, none, none, none, none)
    tokens = tuple(filter(None, map(compact, re.split(r"[\s,/&@.:;|+()\-_]+", text))))
    labels = domain_labels(value)
    numeric = not labels and _is_numeric(tokens)
    name = not numeric and not labels and not any(token.isdigit() for token in tokens)
    core = () if numeric or labels else _core(tokens)
    initials = _initials(core, tokens) if name else set()
    own = _mailbox(text) if labels else tokens
    words = set(own) if labels else {*own, *_around_apostrophes(text), *_umlauts(value)}
    parts = words | {part for token in words for part in without_affixes(token, _LONG)} | _stems(labels)
    parts = set() if numeric else {part for part in parts - ORDINARY if not part.isdigit()} | _pairs(core)
    near = tuple(dict.fromkeys(filter(None, (whole, "".join(core), _bare_url(text)))))
    long = {part for part in (*parts, *near) if len(part) >= _LONG or not part.isascii()}
    short = {part for part in words - ORDINARY if len(part) == _SHORT and not numeric}
    short |= {part for part in near if len(part) in (2, _SHORT)}
    digits = _main_digits(text) if numeric else ""
    others = _readings(text, core) | _numbered(tokens, numeric) | _at_and_dot(text) | _own(labels)
    return ValueForms(
        near=near,
        exact=frozenset({*near, *long, *others}),
        acronyms=frozenset(text for text in initials - ORDINARY if len(text) >= _SHORT),
        initials=frozenset(initials),
        inside=frozenset(part for part in long if part not in ORDINARY and not part.isdigit()),
        pieces=frozenset(short),
        hosts=frozenset({part for part in parts if len(part) <= _SHORT} | _host_names(text, core, name) | _own(labels)),
        numbers=_numbers(tokens, whole, numeric),
        tails=frozenset({digits[-7:]} if len(digits) >= 7 else ()),
        neighbours=frozenset(() if labels else tokens),
    )


def _is_numeric(tokens: tuple[str, ...]) -> bool:
    """A phone number, a tax number, an identifier: digits, and no word of four letters."""
    digits = sum(letter.isdigit() for token in tokens for letter in token)
    return digits >= 4 and max((len(run) for token in tokens for run in re.findall(r"[^\W\d]+", token)), default=0) < 4


def _core(tokens: tuple[str, ...]) -> tuple[str, ...]:
    """A name without article, form of company and station's tail; the whole of it if nothing else is left."""
    left = list(tokens)
    while len(left) > 1 and (left[-1] in LEGAL or left[-1] in STATION_TAILS):
        left.pop()
    while len(left) > 1 and left[0] == "the":
        left.pop(0)
    return tuple(left)


def _around_apostrophes(text: str) -> set[str]:
    """Words before and after an apostrophe: ``macy`` of ``Macy's``, ``brien`` of ``O'Brien``."""
    parts = {compact(part) for word in re.split(r"[^\w']+", text) if "'" in word for part in word.split("'")}
    return {part for part in parts if len(part) > 1}


def _umlauts(value: str) -> set[str]:
    """Words that are written without umlauts: ``mueller`` for ``Müller``."""
    spelled = value.translate({ord(letter): letter + "e" for letter in "äöüÄÖÜ"})
    return {compact(word) for word, other in zip(spelled.split(), value.split(), strict=True) if word != other}


def _mailbox(text: str) -> tuple[str, ...]:
    """Words of an email address before the ``@``."""
    return tuple(filter(None, map(compact, re.split(r"[\W_]+", text.split("@")[0])))) if "@" in text else ()


def _own(labels: tuple[str, ...]) -> set[str]:
    """Labels of a domain that are the company's own."""
    return set(labels) - TRADES - MAIL_HOSTS


def _stems(labels: tuple[str, ...]) -> set[str]:
    """Labels of a domain, with and without what trade adds to a name."""
    return {part for label in labels for part in without_affixes(label) if len(part) >= _SHORT} - MAIL_HOSTS


def _bare_url(text: str) -> str:
    """A website without scheme, ``www`` and path; empty for an email address."""
    match = re.match(r"(?:https?://)?(?:www\.)?([^\s/@?]+\.[^\s/@?]+)", text.casefold())
    return compact(match.group(1)) if match and domain_labels(text) and "@" not in text else ""


def _readings(text: str, core: tuple[str, ...]) -> set[str]:
    """A name, and the two words around its ampersand, with the ampersand read in every way."""
    joint = re.split(r"\s*[&+]\s*|\s+(?:" + "|".join(_AND) + r")\s+", text.casefold())
    if len(joint) < 2 or not all(map(compact, joint)):
        return set()
    words = [[word for word in map(compact, part.split()) if word] for part in joint]
    names = ["".join(part) for part in words[:-1]]
    last = {"".join(words[-1]), "".join(_core(tuple(words[-1])))}
    found = {read.join([*names, end]) for read in _AND_READ for end in last}
    around = {before[-1] + read + after[0] for before, after in pairwise(words) for read in _AND_READ}
    return (found | around) - {"".join(core[:1])}


def _initials(core: tuple[str, ...], tokens: tuple[str, ...]) -> set[str]:
    """First letters of the words of a name, with and without the form of company and small words."""
    found = {"".join(word[0] for word in words if word not in _AND) for words in (core, tokens)}
    found.add("".join(word[0] for word in core if word not in _SMALL))
    return {text for text in found if len(text) >= 2}


def _host_names(text: str, core: tuple[str, ...], name: bool) -> set[str]:
    """What a domain of a company is called: its short name, its initials, its words."""
    if not name:
        return set()
    found = {"".join(core), "".join(word[0] for word in core if word not in _AND), *_readings(text, core)}
    joined = {"".join(core[:end]) for end in range(2, len(core) + 1)}
    return {part for part in found if 2 <= len(part) <= _SHORT} | joined | (set(core) - TRADES - set(_AND))


def _at_and_dot(text: str) -> set[str]:
    """An email address that is spelled out: ``billing(at)goarn(dot)com``."""
    return {compact(text.replace("@", " at ").replace(".", " dot "))} if "@" in text else set()


def _pairs(core: tuple[str, ...]) -> set[str]:
    """Neighbouring words of a name, together six letters or more: ``boblee``."""
    return {a + b for a, b in pairwise(core) if len(a + b) >= 6 and not {a, b} <= ORDINARY and not (a + b).isdigit()}


def _numbered(tokens: tuple[str, ...], numeric: bool) -> set[str]:
    """A house number with the street that follows it."""
    if numeric:
        return set()
    return {
        a + b for a, b in pairwise(tokens) if a.isdigit() != b.isdigit() and len(tokens) >= 4 and len(a + b) >= _LONG
    }


def _numbers(tokens: tuple[str, ...], whole: str, numeric: bool) -> frozenset[str]:
    """Digits that point to a value: of an identifier, or the house number and postal code of an address."""
    if numeric:
        digits = re.findall(r"\d{5,}", whole)
        return frozenset({*digits, *({whole} if whole.isdigit() else ())})
    if len(tokens) < 4:
        return frozenset()
    return frozenset(
        token
        for place, token in enumerate(tokens)
        if (token.isdigit() and len(token) >= 3 and not re.fullmatch("(19|20)..", token))
        or (place and len(token) in (3, 4) and re.search(r"\d", token) and not token.isdigit())
    )


def _main_digits(text: str) -> str:
    """Digits of a number without its extension."""
    return re.sub(r"\D", "", re.split(r"\s*(?:x|ext)", text.casefold())[0])
