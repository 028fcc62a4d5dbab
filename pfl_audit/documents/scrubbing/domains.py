"""Domain names in words: websites and email addresses."""

from __future__ import annotations

import re
from functools import lru_cache

from pfl_audit.documents.scrubbing.normalization import normalize_text, to_latin
from pfl_audit.documents.scrubbing.stop_words import STATION_TAILS, TRADES

_LABEL = r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?"
_SUFFIX = "com|net|org|tv|co|io|gov|edu|info|biz|us|uk|de|fr|es|it|nl|ca|eu|fm|radio|news|media"
_DOMAIN = re.compile(rf"(?:@|//|\bwww\.)({_LABEL}(?:[.,]{_LABEL})+)|\b({_LABEL}(?:\.{_LABEL})*\.(?:{_SUFFIX}))\b")
_TAILS = TRADES | STATION_TAILS | {"inc", "llc", "ltd", "co", "corp", "gmbh"}
_LONGEST_WORD, _LONGEST_LABEL = 1000, 63
"""Characters above which no domain is searched for; a label has at most 63 (RFC 1035)."""
_SUFFIXES = frozenset([*_SUFFIX.split("|"), "www"])


@lru_cache(maxsize=65536)
def domain_labels(word: str) -> tuple[str, ...]:
    """Normalized labels of the domains in a word, without ``www`` and top-level domains.

    Args:
        word: Text without spaces.

    Returns:
        ``("shop", "goarn")`` for ``http://www.shop.goarn.co.uk/x``; empty if there is no domain.
    """
    found: list[str] = []
    if len(word) > _LONGEST_WORD:
        return ()
    for match in _DOMAIN.finditer(to_latin(word).casefold()):
        labels = re.split("[.,]", match.group(1) or match.group(2))
        found += [normalize_text(label) for label in labels[:-1] if label not in _SUFFIXES]
    return tuple(found)


@lru_cache(maxsize=65536)
def without_affixes(label: str, shortest: int = 2) -> frozenset[str]:
    """Remainders of a label after digits and words of trade are stripped from its ends: ``wgn`` of ``mywgntv9``.

    Args:
        label: Normalized label of a domain.
        shortest: Smallest length of a word that is stripped.
    """
    seen = {label}
    waiting = [label] if len(label) <= _LONGEST_LABEL else []
    while waiting:
        text = waiting.pop().strip("0123456789")
        ends = {text, *(text.removesuffix(word) for word in _TAILS if len(word) >= shortest)}
        ends |= {text.removeprefix(word) for word in TRADES if len(word) >= shortest}
        new = {end for end in ends if len(end) >= 2} - seen
        seen |= new
        waiting += new
    return frozenset(seen)
