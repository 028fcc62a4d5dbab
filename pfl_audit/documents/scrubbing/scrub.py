"""Scrubbing: removal of a value from the OCR words of a page, and a blur over it in the image.

``value_patterns`` derives the patterns of a value and ``normalization`` the normal forms of words; this module has one
rule per class of mentions. Source: privacy-aware-docvqa, appendix D.1.1, which blurs with radius 20 and drops
"exact or fuzzy matches" without stating a threshold; docs/scrubbing.md justifies ours.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import numpy as np
from rapidfuzz import fuzz
from rapidfuzz.distance import Levenshtein

from pfl_audit.documents.document import Document
from pfl_audit.documents.scrubbing import THRESHOLD as THRESHOLD
from pfl_audit.documents.scrubbing.domains import domain_labels, without_affixes
from pfl_audit.documents.scrubbing.normalization import merge_ocr_confusions, normalize_text, to_latin
from pfl_audit.documents.scrubbing.page_words import PageWords
from pfl_audit.documents.scrubbing.value_patterns import ValuePatterns, value_patterns

_LONGEST_RUN = 100
"""Largest number of words that a mention spans."""
_LONGEST_NEAR = 500
"""Length of a value above which only exact matches count: the distance takes quadratic time."""
_ROUNDING = 1e-6


@dataclass(frozen=True)
class Scrubbed:
    """A scrubbed page.

    Attributes:
        document: Page with the words removed and their boxes blurred in the image.
        removed: Indices of the removed words, ascending.
    """

    document: Document
    removed: tuple[int, ...]


def scrub(document: Document, value: str, threshold: float = THRESHOLD) -> Scrubbed:
    """Remove every mention of ``value`` from a page.

    Args:
        value: Value to remove, of one or more words.
        threshold: Smallest similarity at which words count as the value, 0 to 1.

    Returns:
        The scrubbed page; ``removed`` is empty if the value was not found.
    """
    hits = find_value(document.words, value, threshold)
    if not hits:
        return Scrubbed(document, ())
    keep = [index for index in range(len(document.words)) if index not in hits]
    removed = tuple(sorted(hits))
    boxes = [(left, top, right, bottom) for left, top, right, bottom in document.boxes[list(removed)].tolist()]
    image = document.image.blur(boxes) if document.image else None
    scrubbed = replace(
        document,
        words=tuple(document.words[index] for index in keep),
        boxes=document.boxes[np.array(keep, int)],
        image=image,
    )
    return Scrubbed(scrubbed, removed)


def find_value(words: tuple[str, ...], value: str, threshold: float = THRESHOLD) -> set[int]:
    """Indices of all words that contain the value or identify it.

    Args:
        words: Words of the page, in reading order.
    """
    patterns = value_patterns(value)
    if not any(patterns.near):
        return set()
    page = PageWords(words)
    hits = _near_runs(page, patterns, threshold) | _exact_runs(page, patterns)
    for index in range(len(words)):
        if index not in hits and page.normalized[index] and _identifies_value(page, index, patterns, threshold):
            hits.add(index)
    return _with_neighbours(page, patterns, hits)


def contains_value(words: tuple[str, ...], value: str, threshold: float = THRESHOLD) -> bool:
    """Whether a page contains the value itself, and not only a domain or a word that identifies it.

    Args:
        words: Words of the page, in reading order.
    """
    patterns, page = value_patterns(value), PageWords(words)
    wanted = [merge_ocr_confusions(text) for text in patterns.near if len(text) > 1]
    for word, merged in zip(words, page.ocr_merged, strict=True):
        if any(text in merged for text in wanted) and not domain_labels(word):
            return True
    return bool(_near_runs(page, patterns, threshold))


def _near_runs(page: PageWords, patterns: ValuePatterns, threshold: float) -> set[int]:
    """Words of every run whose letters together are similar to the value; of overlapping runs the most similar."""
    found: list[tuple[float, int, int]] = []
    for near in patterns.near:
        if len(near) > _LONGEST_NEAR:
            continue
        digits, target, least = near.isdigit(), merge_ocr_confusions(near), _least(near, threshold)
        low, high = int(least * len(target)), int(len(target) / least) + 1
        widest = min(len(target), _LONGEST_RUN)
        for start, first in enumerate(page.ocr_merged):
            if not first or len(first) > high:
                continue
            run = ""
            for stop, word in enumerate(page.ocr_merged[start : start + widest], start):
                run += word
                if len(run) > high or (digits and page.is_amount_or_date(stop)):
                    break
                if len(run) < low or not word:
                    continue
                similarity = Levenshtein.normalized_similarity(run, target, score_cutoff=least - _ROUNDING)
                if similarity >= least and _is_mention(page, range(start, stop + 1), near, exact=run == target):
                    found.append((-similarity, start, stop))
    hits: set[int] = set()
    for _, start, stop in sorted(found):
        if hits.isdisjoint(range(start, stop + 1)):
            hits.update(range(start, stop + 1))
    return hits


def _least(near: str, threshold: float) -> float:
    """Threshold of a pattern: for digits at most one may differ, and none in fewer than seven."""
    if not near.isdigit():
        return threshold
    return max(threshold, 1 - 1 / len(near)) if len(near) >= 7 else 1.0


def _is_mention(page: PageWords, run: range, near: str, *, exact: bool) -> bool:
    """Whether a run that is similar to a value is a mention of it, and not a phrase of stop words or short noise."""
    if len(near) <= 3 or not page.has_distinctive(run):
        return exact and page.is_named(run)
    return True


def _exact_runs(page: PageWords, patterns: ValuePatterns) -> set[int]:
    """Words of every run that equals one of the patterns: hyphenated, spaced, joined, abbreviated."""
    hits: set[int] = set()
    for run in page.runs_of(patterns.exact):
        text = "".join(page.normalized[run.start : run.stop])
        digits = text.isdigit() and any(page.is_amount_or_date(index) for index in run)
        if not digits and _is_mention(page, run, text, exact=True):
            hits.update(run)
    for run in page.runs_of(patterns.acronyms):
        if not page.has_capitals or all(
            to_latin(page.words[index]).isupper() for index in run if page.normalized[index]
        ):
            hits.update(run)
    for tail in patterns.tails:
        hits.update(_digit_tail(page, tail))
    return hits


def _digit_tail(page: PageWords, tail: str) -> set[int]:
    """Words whose digits together end with the last digits of a phone number, with any prefix."""
    hits: set[int] = set()
    for start in range(len(page.words)):
        if not page.normalized[start].isdigit():
            continue
        run = ""
        for stop in range(start, min(start + len(tail), len(page.words))):
            if page.is_amount_or_date(stop) or not (page.normalized[stop].isdigit() or not page.normalized[stop]):
                break
            run += page.normalized[stop]
            if len(run) > len(tail) + 8:
                break
            if run.endswith(tail):
                hits.update(range(start, stop + 1))
    return hits


def _identifies_value(page: PageWords, index: int, patterns: ValuePatterns, threshold: float) -> bool:
    """Whether a single word contains the value or identifies it."""
    if page.is_amount_or_date(index):
        return False
    if patterns.numbers and _holds_number(page, index, patterns):
        return True
    word = page.words[index]
    if patterns.hosts and any(not patterns.hosts.isdisjoint(without_affixes(label)) for label in domain_labels(word)):
        return True
    if patterns.pieces and any(
        piece in patterns.pieces and capital for piece, capital in _pieces(word, page.has_capitals)
    ):
        return True
    return not page.is_stop_word(index) and any(_holds(page, index, part, threshold) for part in patterns.inside)


def _holds_number(page: PageWords, index: int, patterns: ValuePatterns) -> bool:
    groups = set(re.findall(r"[^\W_]+", to_latin(page.words[index]).casefold()))
    if not groups.isdisjoint(patterns.numbers):
        return True
    return any(
        len(number) >= 6 and number.isdigit() and number in page.normalized[index] for number in patterns.numbers
    )


def _pieces(word: str, cased: bool) -> list[tuple[str, bool]]:
    """Groups of letters and digits of a word, and whether each begins as names do.

    ``WGN9.com`` has ``wgn``, ``9``, ``com`` and ``wgn9``.
    """
    text = to_latin(word)
    found = re.findall(r"[^\W\d_]+|\d+", text) + re.findall(r"[^\W_]+", text)
    return [(normalize_text(piece), not cased or piece[0] != piece[0].lower() or piece[0].isdigit()) for piece in found]


def _holds(page: PageWords, index: int, part: str, threshold: float) -> bool:
    """Whether a word contains ``part``, exactly or approximately."""
    if part in page.normalized[index]:
        return True
    word, target = page.ocr_merged[index], merge_ocr_confusions(part)
    if len(part) <= 4 or len(part) > _LONGEST_NEAR:
        return word == target
    if len(word) < len(target):
        return word[:1] == target[:1] and Levenshtein.normalized_similarity(word, target) >= threshold - _ROUNDING
    if target in word or len(target) <= 5:
        return target in word
    least = 100 * max(threshold, 0.85)
    return fuzz.partial_ratio(part, page.normalized[index], score_cutoff=least - _ROUNDING) >= least


def _with_neighbours(page: PageWords, patterns: ValuePatterns, hits: set[int]) -> set[int]:
    """Add words of the value that are next to a mention: ``Inc``, initials, the rest of an address or number."""
    if not patterns.neighbours:
        return hits
    initials = {token[0] for token in patterns.neighbours if not token.isdigit()}
    waiting = sorted(hits)
    while waiting:
        at = waiting.pop()
        for step in (-1, 1):
            index = at + step
            while 0 <= index < len(page.words) and not page.normalized[index]:
                index += step  # a dash or another sign alone
            if 0 <= index < len(page.words) and index not in hits and _is_neighbour(page, index, patterns, initials):
                hits.add(index)
                waiting.append(index)
    return hits


def _is_neighbour(page: PageWords, index: int, patterns: ValuePatterns, initials: set[str]) -> bool:
    text, word = page.normalized[index], page.words[index]
    if page.is_amount_or_date(index) or not page.is_capitalized(index):
        return False
    if text.isdigit() and (len(text) > 1 or patterns.tails):
        code = patterns.tails and word.startswith(("+", "00", "("))  # of a country or an area
        return text in patterns.neighbours or bool(code)
    return (text in patterns.neighbours and not text.isdigit()) or (
        text in initials and len(word) == 2 and word[1] == "."
    )
