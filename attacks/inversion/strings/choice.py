"""Which of the lines in the span are on the page: the fewest and shortest that account for all patches.

The span holds sums of patches, too: a beginning of a line that ends where a patch does, a line that goes on with pieces
of others, and pieces of two patches side by side. A line is left out whose patches lie in the span of those of the
form and of the lines that are kept. So a line that repeats itself patch by patch looks like a shorter one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from pfl_audit.attacks.inversion.strings.field_pixels import FieldPixels
from pfl_audit.attacks.inversion.strings.line_search import Line
from pfl_audit.metrics.arrays import Floats

_SAME = 1e-6
"""Share of a patch that may lie outside a span that holds it."""
_DUST = 1e-7
"""Share of the largest singular value of patches, below which there is rounding alone."""
_INK = 25
_DIGITS = 9


@dataclass(frozen=True, eq=False)
class Chosen:
    """A line, and the fields that it can be in.

    Attributes:
        home: Id of the field in which it was found.
        fields: Ids of the fields in which the same patches lie in the span.
        patches: float64 (n, width), its patches and those of its field that it leaves blank.
        changed: float64 (m, width), those of them that it covers.
        alone: Whether nothing else accounts for all of its patches.
    """

    home: str
    line: Line
    fields: tuple[str, ...]
    patches: Floats
    changed: Floats
    alone: bool = True


def choose(found: Mapping[str, tuple[FieldPixels, Sequence[Line]]], form: Floats) -> list[Chosen]:
    """The lines that account for all patches.

    Args:
        found: Field id to the field and lines that lie in the span.
        form: float64 (m, width), patches of the form.
    """
    every = list(_merged(found))
    kept = sorted(every, key=lambda one: -len(one.line.text))
    for one in list(kept):
        rest = [other for other in kept if other is not one]
        if _held(one, rest, form):
            kept = rest
    chosen = []
    for one in kept:
        same = [other.fields for other in every if other.line.text == one.line.text]
        fields = tuple(name for name in found if any(name in some for some in same))
        chosen.append(replace(one, fields=fields, alone=_alone(one, kept, every, form)))
    return sorted(chosen, key=lambda one: (one.fields, one.line.text))


def placed(chosen: Sequence[Chosen], pages: int) -> list[Chosen]:
    """Lines without the fields that hold a line of every page already."""
    taken = Counter(one.fields[0] for one in chosen if len(one.fields) == 1)
    full = {name for name, count in taken.items() if count >= pages}
    left = (tuple(name for name in one.fields if name not in full) or one.fields for one in chosen)
    return [one if len(one.fields) == 1 else replace(one, fields=fields)
            for one, fields in zip(chosen, left, strict=True)]  # fmt: skip


def _merged(found: Mapping[str, tuple[FieldPixels, Sequence[Line]]]) -> Iterable[Chosen]:
    """Lines with the same patches as one: the shortest, with all fields in which they lie."""
    merged: dict[bytes, Chosen] = {}
    for name, (field, lines) in found.items():
        for line in lines:
            vectors = field.exact(line.cover[None], np.array([_INK]))[0].round(_DIGITS)
            patches = np.unique(vectors.reshape(-1, vectors.shape[-1]), axis=0)
            changed = vectors[(vectors != field.plain.round(_DIGITS)).any(axis=2)]
            own = Chosen(name, line, (), patches, changed)
            before = merged.get(patches.tobytes(), own)
            shorter = own if len(line.text) < len(before.line.text) else before
            fields = tuple(dict.fromkeys((*before.fields, name)))
            merged[patches.tobytes()] = replace(shorter, fields=fields)
    return merged.values()


def _alone(one: Chosen, kept: Sequence[Chosen], every: Sequence[Chosen], form: Floats) -> bool:
    """Whether nothing holds its patches but itself, its beginnings, and lines that go on from it with what is kept."""
    if any(_ends_before(one, other) or _is_cut(one, other) for other in every):
        return False
    parts = [other for other in every if _begins(one.line, other.line)]
    known = [one, *parts, *(other for other in kept if other is not one)]
    apart = [
        other
        for other in every
        if other not in parts and other.line.text != one.line.text and not _held(other, [one], form)
        and not (_begins(other.line, one.line) and _held(other, known, form))
    ]  # fmt: skip
    return not _held(one, apart, form)


def _ends_before(one: Chosen, other: Chosen) -> bool:
    """Whether the other line is this one without its last words: patches of the form replace these."""
    words, whole = other.line.words, one.line.words
    return other.line.typeset == one.line.typeset and len(words) < len(whole) and whole[: len(words)] == words


def _is_cut(one: Chosen, other: Chosen) -> bool:
    """Whether the other line has more letters in the last word: patches of other lines may make these up, or not."""
    more = other.line.text != one.line.text and _begins(other.line, one.line)
    return more and len(other.line.words) == len(one.line.words)


def _begins(line: Line, start: Line) -> bool:
    return line.typeset == start.typeset and line.text.startswith(start.text)


def _held(one: Chosen, others: Sequence[Chosen], form: Floats) -> bool:
    """Whether the patches that a line covers lie in the span of those of others and of the form."""
    known = np.concatenate([form, *(other.patches for other in others)])
    _, values, directions = np.linalg.svd(known, full_matrices=False)
    basis = directions[values > _DUST * values[0]]
    left = one.changed - (one.changed @ basis.T) @ basis
    return bool((np.linalg.norm(left, axis=1) <= _SAME * np.linalg.norm(one.changed, axis=1)).all())
