"""Taking a value off a page: out of the OCR words, and blurred in the picture.

A value can stand on a page in four ways, and each is looked for: exactly; nearly (OCR errs); spread
over several words, or with its words glued together; inside a longer word such as a website or an
email address. Source: privacy-aware-docvqa, appendix D.1.1, which blurs with radius 20 and drops
"exact or fuzzy matches" without a threshold; ours is justified in docs/scrubbing.md.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, replace

import numpy as np
from rapidfuzz import fuzz
from rapidfuzz.distance import Levenshtein

from pfl_audit.documents.document import Document

THRESHOLD = 0.8
"""Normalised Levenshtein similarity from which a run of words counts as the value."""

_GENERIC = frozenset(
    [
        "corp",
        "company",
        "gmbh",
        "group",
        "media",
        "television",
        "broadcasting",
        "radio",
        "service",
        "services",
        "international",
        "national",
        "systems",
        "partners",
        "solutions",
        "street",
        "avenue",
        "road",
        "lane",
        "drive",
        "boulevard",
        "court",
        "suite",
        "accounts",
        "billing",
        "contact",
        "finance",
        "info",
        "invoice",
        "mail",
        "office",
        "orders",
        "payable",
        "sales",
        "support",
        "traffic",
        "http",
        "https",
        "invoices",
        "total",
        "amount",
        "number",
        "date",
        "payment",
    ]
)
_LONGEST_RUN = 100
"""Words over which a value may be spread; a value of one letter a word has as many letters."""
_ROUNDING = 1e-6
_SHORTEST_INSIDE = 4
"""Letters that a value, or a word of it, must have to be looked for inside longer words."""


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
    """Numbers of all words that are, or hold, the value or a distinctive word of it.

    Args:
        words: Of the page, in reading order.
        value: What is looked for.
        threshold: As in ``scrub``.
    """
    target = compact(value)
    if not target:
        return set()
    plain = [compact(word) for word in words]
    hits = _runs(plain, target, threshold)
    for part in {target, *distinctive_words(value)}:
        if len(part) >= _SHORTEST_INSIDE or not part.isascii():
            hits |= {index for index, word in enumerate(plain) if _holds(word, part, threshold)}
    if 2 < len(target) < _SHORTEST_INSIDE:
        hits |= {index for index, word in enumerate(words) if target in _pieces(word)}
    return hits


def distinctive_words(value: str) -> set[str]:
    """Words of a value that point to it by themselves: long enough, not generic, not mere digits."""
    parts = {compact(part) for part in re.split(r"[\s,/&@.:]+", value)}
    return {part for part in parts if len(part) >= _SHORTEST_INSIDE and part not in _GENERIC and not part.isdigit()}


def compact(text: str) -> str:
    """Letters and digits alone, case folded, accents and ligatures resolved."""
    text = unicodedata.normalize("NFKD", text).casefold()
    return "".join(letter for letter in text if letter.isalnum())


def _pieces(word: str) -> set[str]:
    """Letters and digits of a word that stand together: ``www.wgn9.com`` has ``www``, ``wgn``, ``9``, ``com``."""
    return set(re.findall(r"[^\W\d_]+|\d+", word.casefold()))


def _runs(plain: list[str], target: str, threshold: float) -> set[int]:
    """Words of every run whose letters together are nearly the target's; of overlapping runs the nearest."""
    found: list[tuple[float, int, int]] = []
    longest = int(len(target) / threshold) + 1
    for start in range(len(plain)):
        run = ""
        for stop in range(start, min(start + min(len(target), _LONGEST_RUN), len(plain))):
            run += plain[stop]
            if len(run) > longest:
                break
            if plain[start] and plain[stop] and (likeness := _likeness(run, target, threshold)) >= threshold:
                found.append((-likeness, start, stop))
    hits: set[int] = set()
    for _, start, stop in sorted(found):
        if hits.isdisjoint(range(start, stop + 1)):
            hits.update(range(start, stop + 1))
    return hits


def _likeness(a: str, b: str, least: float) -> float:
    """Normalised Levenshtein similarity; perhaps 0 where it is below ``least``, which is found out sooner."""
    return Levenshtein.normalized_similarity(a, b, score_cutoff=least - _ROUNDING)


def _holds(word: str, part: str, threshold: float) -> bool:
    """Whether ``part`` stands somewhere inside ``word``, exactly or nearly."""
    if len(word) < len(part):
        return _likeness(word, part, threshold) >= threshold
    if part in word or len(part) <= 5:
        return part in word
    least = 100 * max(threshold, 0.85)
    return fuzz.partial_ratio(part, word, score_cutoff=least - _ROUNDING) >= least
