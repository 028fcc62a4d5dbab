"""Which of the lines that lie in the span stand on the page: the fewest and shortest that account for all patches.

The span holds sums of patches, too: a beginning of a line that ends where a patch does, a line that goes on with pieces
of others, and pieces of two patches side by side. A line is left out whose patches lie in the span of those of the
form and of the lines that are kept. So a line that repeats itself patch by patch cannot be told from a shorter one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from pfl_audit.attacks.inversion.strings.field_pixels import FieldPixels
from pfl_audit.attacks.inversion.strings.line_search import Line

Floats = NDArray[np.float64]
_SAME = 1e-6
"""Share of a patch that may lie outside a span that holds it."""
_DUST = 1e-7
"""Share of the largest singular value of patches, below which there is rounding alone."""
_INK = 25
_DIGITS = 9


@dataclass(frozen=True, eq=False)
class Chosen:
    """A line, and where it can stand.

    Attributes:
        fields: Ids of the fields in which the same patches lie in the span.
        patches: float64 (n, width), its patches and those of its field that it leaves blank.
        changed: float64 (m, width), those alone on which it stands.
        alone: Whether nothing else accounts for all of its patches.
    """

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
    chosen = [replace(one, alone=_alone(one, kept, every, form)) for one in kept]
    return sorted(chosen, key=lambda one: (one.fields, one.line.text))


def _merged(found: Mapping[str, tuple[FieldPixels, Sequence[Line]]]) -> Iterable[Chosen]:
    """Lines with the same patches as one: the shortest, with all fields in which they lie."""
    merged: dict[bytes, Chosen] = {}
    for name, (field, lines) in found.items():
        for line in lines:
            vectors = field.exact(line.cover[None], np.array([_INK]))[0].round(_DIGITS)
            patches = np.unique(vectors.reshape(-1, vectors.shape[-1]), axis=0)
            changed = vectors[(vectors != field.plain.round(_DIGITS)).any(axis=2)]
            before = merged.get(patches.tobytes(), Chosen(line, (), patches, changed))
            shorter = min(before.line, line, key=lambda one: len(one.text))
            fields = tuple(dict.fromkeys((*before.fields, name)))
            merged[patches.tobytes()] = Chosen(shorter, fields, patches, changed)
    return merged.values()


def _alone(one: Chosen, kept: Sequence[Chosen], every: Sequence[Chosen], form: Floats) -> bool:
    """Whether nothing holds its patches but itself, its beginnings, and lines that go on from it with what is kept."""
    parts = [other for other in every if _begins(one.line, other.line)]
    known = [one, *parts, *(other for other in kept if other is not one)]
    apart = [
        other
        for other in every
        if other not in parts and not _held(other, [one], form)
        and not (_begins(other.line, one.line) and _held(other, known, form))
    ]  # fmt: skip
    return not _held(one, apart, form)


def _begins(line: Line, start: Line) -> bool:
    return line.typeset == start.typeset and line.text.startswith(start.text)


def _held(one: Chosen, others: Sequence[Chosen], form: Floats) -> bool:
    """Whether the patches on which a line stands lie in the span of those of others and of the form."""
    known = np.concatenate([form, *(other.patches for other in others)])
    _, values, directions = np.linalg.svd(known, full_matrices=False)
    basis = directions[values > _DUST * values[0]]
    left = one.changed - (one.changed @ basis.T) @ basis
    return bool((np.linalg.norm(left, axis=1) <= _SAME * np.linalg.norm(one.changed, axis=1)).all())
