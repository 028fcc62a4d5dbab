"""Providers that are written in several ways."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from rapidfuzz import fuzz, process

from pfl_audit.documents.scrubbing.normalization import to_latin
from pfl_audit.documents.scrubbing.stop_words import LEGAL
from pfl_audit.documents.set_index import SetIndex
from pfl_audit.documents.similar_sets import similar_sets

SIMILAR: Final = 92
"""Smallest similarity of names that are perhaps the same, 0 to 100 (rapidfuzz ``ratio``)."""
_SHORTEST: Final = 8
"""Letters of the shortest names that are compared by similarity: call signs differ by a letter."""
_GRAM: Final = 3
_BLOCK: Final = 0.5
"""Smallest Jaccard index of the letter triples of names whose similarity is computed."""
_TOKEN: Final = re.compile(r"[^\W_]+")
_DIGITS: Final = re.compile(r"\d")


@dataclass(frozen=True)
class Spelling:
    """Names of one provider.

    Attributes:
        names: Sorted.
        same: Whether they differ in case, accents, punctuation, spaces and legal form alone; else they are similar.
    """

    names: tuple[str, ...]
    same: bool


def normal_name(name: str) -> str:
    """Letters and digits of a name, without case, accents and legal forms (``Inc.``, ``GmbH``)."""
    words = _TOKEN.findall(to_latin(name).casefold())
    kept = [word for word in words if word not in LEGAL] or words
    return "".join(kept) or name


def spellings(names: Iterable[str]) -> list[Spelling]:
    """Groups of names of what is one provider, or may be one.

    Similar names are found among those that share letter triples, so that not every pair is compared. Names with
    different digits are different.
    """
    forms: defaultdict[str, list[str]] = defaultdict(list)
    for name in sorted(set(names)):
        forms[normal_name(name)].append(name)
    found = [Spelling(tuple(group), same=True) for group in forms.values() if len(group) > 1]
    by_digits: defaultdict[str, list[str]] = defaultdict(list)
    for form in forms:
        if len(form) >= _SHORTEST:
            by_digits["".join(_DIGITS.findall(form))].append(form)
    for group in by_digits.values():
        pairs = _similar(group)
        found += [Spelling(tuple(sorted(forms[one] + forms[other])), same=False) for one, other in pairs]
    return found


def _similar(forms: Sequence[str]) -> list[tuple[str, str]]:
    numbers: dict[str, int] = {}
    triples = [
        np.unique([numbers.setdefault(form[at : at + _GRAM], len(numbers)) for at in range(len(form) - _GRAM + 1)])
        for form in forms
    ]
    pairs = []
    for number, others in enumerate(similar_sets(SetIndex(triples), _BLOCK)):
        later = [forms[other] for other in others if other > number]
        if later:
            (scores,) = process.cdist([forms[number]], later, scorer=fuzz.ratio, score_cutoff=SIMILAR)
            pairs += [(forms[number], later[at]) for at in np.flatnonzero(scores)]
    return pairs
