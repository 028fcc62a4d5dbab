"""Patterns of a value: the spellings that the scrubber searches for.

Every function adds one class of patterns, derived from the value alone.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from pfl_audit.documents.scrubbing.domains import domain_labels, without_affixes
from pfl_audit.documents.scrubbing.normalization import normalize_text, to_latin
from pfl_audit.documents.scrubbing.stop_words import LEGAL, MAIL_HOSTS, STATION_TAILS, STOP_WORDS, TRADES

_AND = ("and", "n", "und", "et", "y")
_SMALL = (*_AND, "of", "the", "for", "de", "la", "in", "at")
_AND_READ = ("", "and", "n", "8", "amp")
"""Readings of an ampersand: omitted, spelled out, or misread by OCR."""
_LONG, _SHORT = 4, 3
"""Smallest lengths at which a word of a value identifies it inside longer words, and as a word by itself."""

_LONGEST_VALUE = 1000
"""Length of a value above which only the value as a whole is searched for."""


@dataclass(frozen=True)
class ValuePatterns:
    """Patterns of a value. All texts are normalized.

    Attributes:
        near: Runs of words similar to one of these.
        exact: Runs of words equal to one of these, up to OCR confusions.
        acronyms: Runs of words in capitals equal to one of these.
        initials: First letters of the words of a name, two or more; stop words included.
        inside: Substrings of longer words.
        pieces: Short texts between the punctuation of a word.
        hosts: Labels of domains.
        numbers: Digits inside longer numbers, four or more.
        tails: Last seven digits of a phone number, which runs of words may end with.
        neighbours: Words of the value that are removed next to a mention; none of a domain.
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
def value_patterns(value: str) -> ValuePatterns:
    """All patterns of a value.

    Args:
        value: Value as in the corpus.

    Returns:
        The patterns; sets that do not apply to the kind of value (name, number, address, domain) are empty.
    """
    text = to_latin(value)
    whole = normalize_text(text)
    if len(text) > _LONGEST_VALUE:
        none: frozenset[str] = frozenset()
        return ValuePatterns((whole,), frozenset({whole}), none, none, frozenset({whole}), none, none, none, none, none)
    tokens = tuple(filter(None, map(normalize_text, re.split(r"[\s,/&@.:;|+()\-_]+", text))))
    labels = domain_labels(value)
    numeric = not labels and _is_numeric(tokens)
    name = not numeric and not labels and not any(token.isdigit() for token in tokens)
    core = () if numeric or labels else _core(tokens)
    initials = _initials(core, tokens) if name else set()
    own = _mailbox(text) if labels else tokens
    words = set(own) if labels else {*own, *_around_apostrophes(text), *_umlauts(value)}
    parts = words | {part for token in words for part in without_affixes(token, _LONG)} | _stems(labels)
    parts = set() if numeric else {part for part in parts - STOP_WORDS if not part.isdigit()} | _pairs(core)
    near = tuple(dict.fromkeys(filter(None, (whole, "".join(core), _bare_url(text)))))
    long = {part for part in (*parts, *near) if len(part) >= _LONG or not part.isascii()}
    short = {part for part in words - STOP_WORDS if len(part) == _SHORT and not numeric}
    short |= {part for part in near if len(part) in (2, _SHORT)}
    hosts = {part for part in parts if len(part) <= _SHORT} | _host_names(text, core, name) | _own_labels(labels)
    digits = _main_digits(text) if numeric else ""
    others = _readings(text, core) | _numbered(tokens, numeric) | _at_and_dot(text) | _own_labels(labels)
    return ValuePatterns(
        near=near,
        exact=frozenset({*near, *long, *others}),
        acronyms=frozenset(text for text in initials - STOP_WORDS if len(text) >= _SHORT),
        initials=frozenset(initials),
        inside=frozenset(part for part in long if part not in STOP_WORDS and not part.isdigit()),
        pieces=frozenset(short),
        hosts=frozenset(hosts),
        numbers=_numbers(tokens, whole, numeric),
        tails=frozenset({digits[-7:]} if len(digits) >= 7 else ()),
        neighbours=frozenset(() if labels else tokens),
    )


def _is_numeric(tokens: tuple[str, ...]) -> bool:
    """Whether the value is a phone number, a tax number or another identifier: digits, and no word of four letters."""
    digits = sum(letter.isdigit() for token in tokens for letter in token)
    return digits >= 4 and max((len(run) for token in tokens for run in re.findall(r"[^\W\d]+", token)), default=0) < 4


def _core(tokens: tuple[str, ...]) -> tuple[str, ...]:
    """Words of a name without article, legal form and suffix of a station; at least one word."""
    left = list(tokens)
    while len(left) > 1 and (left[-1] in LEGAL or left[-1] in STATION_TAILS):
        left.pop()
    while len(left) > 1 and left[0] == "the":
        left.pop(0)
    return tuple(left)


def _around_apostrophes(text: str) -> set[str]:
    """Words before and after an apostrophe: ``macy`` of ``Macy's``, ``brien`` of ``O'Brien``."""
    parts = {normalize_text(part) for word in re.split(r"[^\w']+", text) if "'" in word for part in word.split("'")}
    return {part for part in parts if len(part) > 1}


def _umlauts(value: str) -> set[str]:
    """Words spelled without umlauts: ``mueller`` for ``Müller``."""
    spelled = value.translate({ord(letter): letter + "e" for letter in "äöüÄÖÜ"})
    return {normalize_text(word) for word, other in zip(spelled.split(), value.split(), strict=True) if word != other}


def _mailbox(text: str) -> tuple[str, ...]:
    """Words of an email address before the ``@``."""
    return tuple(filter(None, map(normalize_text, re.split(r"[\W_]+", text.split("@")[0])))) if "@" in text else ()


def _own_labels(labels: tuple[str, ...]) -> set[str]:
    """Labels of a domain that are specific to the company."""
    return set(labels) - TRADES - MAIL_HOSTS


def _stems(labels: tuple[str, ...]) -> set[str]:
    """Labels of a domain, with and without words of trade."""
    return {part for label in labels for part in without_affixes(label) if len(part) >= _SHORT} - MAIL_HOSTS


def _bare_url(text: str) -> str:
    """A website without scheme, ``www`` and path; empty for an email address."""
    match = re.match(r"(?:https?://)?(?:www\.)?([^\s/@?]+\.[^\s/@?]+)", text.casefold())
    return normalize_text(match.group(1)) if match and domain_labels(text) and "@" not in text else ""


def _readings(text: str, core: tuple[str, ...]) -> set[str]:
    """A name, and the two words around its ampersand, with all readings of the ampersand."""
    joint = re.split(r"\s*[&+]\s*|\s+(?:" + "|".join(_AND) + r")\s+", text.casefold())
    if len(joint) < 2 or not all(map(normalize_text, joint)):
        return set()
    words = [[word for word in map(normalize_text, part.split()) if word] for part in joint]
    names = ["".join(part) for part in words[:-1]]
    last = {"".join(words[-1]), "".join(_core(tuple(words[-1])))}
    found = {read.join([*names, end]) for read in _AND_READ for end in last}
    around = {before[-1] + read + after[0] for before, after in pairwise(words) for read in _AND_READ}
    return (found | around) - {"".join(core[:1])}


def _initials(core: tuple[str, ...], tokens: tuple[str, ...]) -> set[str]:
    """Initials of a name, with and without the legal form and small words."""
    found = {"".join(word[0] for word in words if word not in _AND) for words in (core, tokens)}
    found.add("".join(word[0] for word in core if word not in _SMALL))
    return {text for text in found if len(text) >= 2}


def _host_names(text: str, core: tuple[str, ...], name: bool) -> set[str]:
    """Labels that a company's domain may have: its short name, its initials, its words."""
    if not name:
        return set()
    found = {"".join(core), "".join(word[0] for word in core if word not in _AND), *_readings(text, core)}
    joined = {"".join(core[:end]) for end in range(2, len(core) + 1)}
    return {part for part in found if 2 <= len(part) <= _SHORT} | joined | (set(core) - TRADES - set(_AND))


def _at_and_dot(text: str) -> set[str]:
    """An email address spelled out: ``billing(at)goarn(dot)com``."""
    return {normalize_text(text.replace("@", " at ").replace(".", " dot "))} if "@" in text else set()


def _pairs(core: tuple[str, ...]) -> set[str]:
    """Pairs of neighbouring words of a name with at least six letters together: ``boblee``."""
    return {a + b for a, b in pairwise(core) if len(a + b) >= 6 and not {a, b} <= STOP_WORDS and not (a + b).isdigit()}


def _numbered(tokens: tuple[str, ...], numeric: bool) -> set[str]:
    """A house number with the street that follows it."""
    if numeric:
        return set()
    return {
        a + b for a, b in pairwise(tokens) if a.isdigit() != b.isdigit() and len(tokens) >= 4 and len(a + b) >= _LONG
    }


def _numbers(tokens: tuple[str, ...], whole: str, numeric: bool) -> frozenset[str]:
    """Digits that identify a value: those of an identifier, or the house number and postal code of an address."""
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
