"""Taking a value off a page: out of the OCR words, and blurred in the picture.

What is looked for is in ``value_forms``, what words are compared as in ``plain``; here is one rule a
class of mentions. Source: privacy-aware-docvqa, appendix D.1.1, which blurs with radius 20 and drops
"exact or fuzzy matches" without a threshold; ours is justified in docs/scrubbing.md.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import numpy as np
from rapidfuzz import fuzz
from rapidfuzz.distance import Levenshtein

from pfl_audit.documents.document import Document
from pfl_audit.documents.hosts import domain_labels, without_affixes
from pfl_audit.documents.page_text import PageText
from pfl_audit.documents.plain import clean, skeleton
from pfl_audit.documents.plain import compact as compact
from pfl_audit.documents.value_forms import ValueForms, value_forms

THRESHOLD = 0.8
"""Normalised Levenshtein similarity from which a run of words counts as the value."""

_LONGEST_RUN = 100
"""Words over which a value may be spread; a value of one letter a word has as many letters."""
_LONGEST_NEAR = 500
"""Letters of a value beyond which it is looked for exactly alone: the distance takes time with their square."""
_ROUNDING = 1e-6


@dataclass(frozen=True)
class Scrubbed:
    """A page without a value.

    Attributes:
        document: The page that is left: words removed, their boxes blurred in the picture.
        removed: Numbers of the words that were taken out, rising.
    """

    document: Document
    removed: tuple[int, ...]


def scrub(document: Document, value: str, threshold: float = THRESHOLD) -> Scrubbed:
    """Take every trace of ``value`` off a page.

    Args:
        document: The page.
        value: What must go; several words do.
        threshold: Similarity from which words count as the value, 0 to 1.

    Returns:
        The page that is left; ``removed`` is empty where the value was not found.
    """
    hits = find_value(document.words, value, threshold)
    if not hits:
        return Scrubbed(document, ())
    keep = [index for index in range(len(document.words)) if index not in hits]
    removed = tuple(sorted(hits))
    boxes = [tuple(float(edge) for edge in document.boxes[index]) for index in removed]
    image = document.image.blur(boxes) if document.image else None  # type: ignore[arg-type]
    left = replace(
        document,
        words=tuple(document.words[index] for index in keep),
        boxes=document.boxes[np.array(keep, int)],
        image=image,
    )
    return Scrubbed(left, removed)


def find_value(words: tuple[str, ...], value: str, threshold: float = THRESHOLD) -> set[int]:
    """Numbers of all words that are, or hold, the value or something that points to it.

    Args:
        words: Of the page, in reading order.
        value: What is looked for.
        threshold: As in ``scrub``.
    """
    forms = value_forms(value)
    if not any(forms.near):
        return set()
    page = PageText(words)
    hits = _near_runs(page, forms, threshold) | _exact_runs(page, forms)
    for index in range(len(words)):
        if index not in hits and page.plain[index] and _points_to(page, index, forms, threshold):
            hits.add(index)
    return _with_neighbours(page, forms, hits)


def is_written_out(words: tuple[str, ...], value: str, threshold: float = THRESHOLD) -> bool:
    """Whether a page writes the value itself, and not only a domain or a word that points to it.

    Args:
        words: Of the page, in reading order.
        value: What is looked for.
        threshold: As in ``scrub``.
    """
    forms, page = value_forms(value), PageText(words)
    wanted = [skeleton(text) for text in forms.near if len(text) > 1]
    for word, plain in zip(words, page.skeletons, strict=True):
        if any(text in plain for text in wanted) and not domain_labels(word):
            return True
    return bool(_near_runs(page, forms, threshold))


def _near_runs(page: PageText, forms: ValueForms, threshold: float) -> set[int]:
    """Words of every run whose letters together are nearly the value's; of overlapping runs the nearest."""
    found: list[tuple[float, int, int]] = []
    for near in forms.near:
        if len(near) > _LONGEST_NEAR:
            continue
        digits, target, least = near.isdigit(), skeleton(near), _least(near, threshold)
        low, high = int(least * len(target)), int(len(target) / least) + 1
        widest = min(len(target), _LONGEST_RUN)
        for start, first in enumerate(page.skeletons):
            if not first or len(first) > high:
                continue
            run = ""
            for stop, word in enumerate(page.skeletons[start : start + widest], start):
                run += word
                if len(run) > high or (digits and page.amount_or_date(stop)):
                    break
                if len(run) < low or not word:
                    continue
                likeness = Levenshtein.normalized_similarity(run, target, score_cutoff=least - _ROUNDING)
                if likeness >= least and _is_mention(page, range(start, stop + 1), near, exact=run == target):
                    found.append((-likeness, start, stop))
    hits: set[int] = set()
    for _, start, stop in sorted(found):
        if hits.isdisjoint(range(start, stop + 1)):
            hits.update(range(start, stop + 1))
    return hits


def _least(near: str, threshold: float) -> float:
    """The threshold; for digits at most one may differ, and none of fewer than seven."""
    if not near.isdigit():
        return threshold
    return max(threshold, 1 - 1 / len(near)) if len(near) >= 7 else 1.0


def _is_mention(page: PageText, run: range, near: str, *, exact: bool) -> bool:
    """Whether a run that is like a value is a mention of it, and no phrase of ordinary words or short noise."""
    words = [index for index in run if page.plain[index]]
    if len(near) <= 3 or all(page.ordinary(index) for index in words):
        return exact and all(page.capital(index) or domain_labels(page.words[index]) for index in words)
    return True


def _exact_runs(page: PageText, forms: ValueForms) -> set[int]:
    """Words of every run that is exactly one of the forms: hyphenated, spaced, glued, abbreviated."""
    hits: set[int] = set()
    for run in page.runs_of(forms.exact):
        text = "".join(page.plain[index] for index in run)
        digits = text.isdigit() and any(page.amount_or_date(index) for index in run)
        if not digits and _is_mention(page, run, text, exact=True):
            hits.update(run)
    for run in page.runs_of(forms.acronyms):
        if not page.cased or all(clean(page.words[index]).isupper() for index in run if page.plain[index]):
            hits.update(run)
    for tail in forms.tails:
        hits.update(_digit_tail(page, tail))
    return hits


def _digit_tail(page: PageText, tail: str) -> set[int]:
    """Words whose digits together end with the last digits of a phone number, whatever prefix they have."""
    hits: set[int] = set()
    for start in range(len(page.words)):
        if not page.plain[start].isdigit():
            continue
        run = ""
        for stop in range(start, min(start + len(tail), len(page.words))):
            if page.amount_or_date(stop) or not (page.plain[stop].isdigit() or not page.plain[stop]):
                break
            run += page.plain[stop]
            if len(run) > len(tail) + 8:
                break
            if run.endswith(tail):
                hits.update(range(start, stop + 1))
    return hits


def _points_to(page: PageText, index: int, forms: ValueForms, threshold: float) -> bool:
    """Whether a single word holds the value or something that points to it."""
    if page.amount_or_date(index):
        return False
    if forms.numbers and _holds_number(page, index, forms):
        return True
    word = page.words[index]
    if forms.hosts and any(not forms.hosts.isdisjoint(without_affixes(label)) for label in domain_labels(word)):
        return True
    if forms.pieces and any(piece in forms.pieces and capital for piece, capital in _pieces(word, page.cased)):
        return True
    return not page.ordinary(index) and any(_holds(page, index, part, threshold) for part in forms.inside)


def _holds_number(page: PageText, index: int, forms: ValueForms) -> bool:
    groups = set(re.findall(r"[^\W_]+", clean(page.words[index]).casefold()))
    if not groups.isdisjoint(forms.numbers):
        return True
    return any(len(number) >= 6 and number.isdigit() and number in page.plain[index] for number in forms.numbers)


def _pieces(word: str, cased: bool) -> list[tuple[str, bool]]:
    """Letters and digits of a word that are together, and whether they begin as a name does.

    ``WGN9.com`` has ``wgn``, ``9``, ``com`` and ``wgn9``.
    """
    text = clean(word)
    found = re.findall(r"[^\W\d_]+|\d+", text) + re.findall(r"[^\W_]+", text)
    return [(compact(piece), not cased or piece[0] != piece[0].lower() or piece[0].isdigit()) for piece in found]


def _holds(page: PageText, index: int, part: str, threshold: float) -> bool:
    """Whether ``part`` is somewhere inside a word, exactly or nearly."""
    if part in page.plain[index]:
        return True
    word, target = page.skeletons[index], skeleton(part)
    if len(part) <= 4 or len(part) > _LONGEST_NEAR:
        return word == target
    if len(word) < len(target):
        return word[:1] == target[:1] and Levenshtein.normalized_similarity(word, target) >= threshold - _ROUNDING
    if target in word or len(target) <= 5:
        return target in word
    least = 100 * max(threshold, 0.85)
    return fuzz.partial_ratio(part, page.plain[index], score_cutoff=least - _ROUNDING) >= least


def _with_neighbours(page: PageText, forms: ValueForms, hits: set[int]) -> set[int]:
    """Add words of the value that are beside a mention: ``Inc``, initials, the rest of an address or number."""
    if not forms.neighbours:
        return hits
    initials = {token[0] for token in forms.neighbours if not token.isdigit()}
    waiting = sorted(hits)
    while waiting:
        at = waiting.pop()
        for step in (-1, 1):
            index = at + step
            while 0 <= index < len(page.words) and not page.plain[index]:
                index += step  # a dash or another sign alone
            if 0 <= index < len(page.words) and index not in hits and _belongs(page, index, forms, initials):
                hits.add(index)
                waiting.append(index)
    return hits


def _belongs(page: PageText, index: int, forms: ValueForms, initials: set[str]) -> bool:
    plain, word = page.plain[index], page.words[index]
    if page.amount_or_date(index) or not page.capital(index):
        return False
    if plain.isdigit() and (len(plain) > 1 or forms.tails):
        code = forms.tails and word.startswith(("+", "00", "("))  # of a country or an area
        return plain in forms.neighbours or bool(code)
    return (plain in forms.neighbours and not plain.isdigit()) or (
        plain in initials and len(word) == 2 and word[1] == "."
    )
