"""Strings of the private fields of an update, by the span of the gradient of its patch projection."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pfl_audit.attacks.inversion.analytic.limits import TOO_MUCH, Cause, Limit, missing, restated
from pfl_audit.attacks.inversion.analytic.noise import noise_of
from pfl_audit.attacks.inversion.analytic.tables import find_tensor
from pfl_audit.attacks.inversion.context import Observation
from pfl_audit.attacks.inversion.strings.choice import choose, placed
from pfl_audit.attacks.inversion.strings.field_pixels import FieldPixels, Vectors
from pfl_audit.attacks.inversion.strings.line_search import Line, search
from pfl_audit.attacks.inversion.strings.nearness import Nearness, inked, nearness_of
from pfl_audit.attacks.inversion.strings.patch_span import LEAST_TEST, PatchSpan, span_of, usual_excess
from pfl_audit.attacks.inversion.strings.patches import PatchInput, patch_input
from pfl_audit.attacks.inversion.strings.typeset import typesets
from pfl_audit.attacks.inversion.template.template import Template
from pfl_audit.attacks.inversion.update.traits import traits_of
from pfl_audit.metrics.arrays import Floats
from pfl_audit.models.gradient_protocol import GradientModel
from pfl_audit.progress import Task

_MARGIN = 1.35
"""Times the excess of most patches of the form, up to which a patch is taken to be one of the page."""
_MOST_OF = 0.9
_Found = dict[str, tuple[FieldPixels, list[Line]]]
WIDTH = 60
"""Lines of a field that are continued at each length."""


@dataclass(frozen=True)
class Reading:
    """A line of text that lies in the span. Holds personal data.

    Attributes:
        text: Words divided by blanks.
        fields: Ids of the fields that it can be in.
        named: Whether nothing that was tried explains its patches as well; else it is a candidate.
    """

    text: str
    fields: tuple[str, ...]
    named: bool
    nearness: Nearness


@dataclass(frozen=True)
class Strings:
    """What was read.

    Attributes:
        readings: By field.
        patches: Directions of the private patches.
        room: Directions that the form leaves them.
        limits: Why something may be missing.
    """

    readings: tuple[Reading, ...]
    patches: int
    room: int
    limits: tuple[Limit, ...]


def read_strings(model: GradientModel, seen: Observation, rng: np.random.Generator, task: Task) -> Strings:
    """Read the strings of every private field.

    Args:
        task: Advances by one a field.

    Raises:
        NotAuditableError: The model has no patch projection.
        AuditError: The gradient of the projection is not of this model, or not of numbers.
    """
    given, fields = patch_input(model), seen.template.fields
    if seen.scaled:
        task.advance(len(fields))
        return Strings(
            (), 0, 0, (Limit(Cause.RESIZED, "strings: the model sees the form in another size than its own"),)
        )
    own = dict(model.network.named_parameters())
    weight = find_tensor(seen.gradient, given.weight, tuple(own[given.weight].shape))
    if weight is None:
        task.advance(len(fields))
        return Strings((), 0, 0, (missing("the patch projection", "strings of the fields are unknown"),))
    bias = find_tensor(seen.gradient, given.bias, tuple(own[given.bias].shape)) if given.bias in own else None
    grey = bool((seen.template.pixels == seen.template.pixels[..., :1]).all())
    vectors = Vectors(given, grey, bias is not None)
    rows = vectors.rows(weight.double().numpy(), None if bias is None else bias.double().numpy())
    form = public_patches(vectors, seen.template)
    errors = vectors.errors(weight.double().numpy(), rows, noise_of([], weight, None).rounding)
    span = span_of(rows, errors, form)
    traits = traits_of({given.weight: weight[:, :1]})  # channels of a grey page repeat one another
    room = span.beside.shape[1]
    if not span.informative:
        task.advance(len(fields))
        return Strings((), span.basis.rank, room, restated((full(span, given),), traits))
    usual = usual_excess(rows, errors, form)
    if len(usual) and np.median(usual) > TOO_MUCH:
        task.advance(len(fields))
        return Strings((), span.basis.rank, room, restated((strange(float(np.median(usual))),), traits))
    most = min(TOO_MUCH, _MARGIN * float(np.quantile(usual, _MOST_OF))) if len(usual) else TOO_MUCH
    found: _Found = {}
    for one in fields:
        place = FieldPixels.of(vectors, seen.template, one)
        if place is not None:
            found[one.id] = (place, _lines(span, place, most, [line for _, lines in found.values() for line in lines]))
        task.advance(1)
    readings = _readings(span, found, form, most, seen.batch, rng)
    read = {name for reading in readings for name in reading.fields}
    lost = [one.id for one in fields if one.id not in read]
    return Strings(readings, span.basis.rank, room, restated((unread(lost, len(fields)),) if lost else (), traits))


def _readings(
    span: PatchSpan, found: _Found, form: Floats, most: float, pages: int, rng: np.random.Generator
) -> tuple[Reading, ...]:
    """The lines that account for the patches, each with how near it is."""
    chosen = placed(choose(_drawn(span, found, most), form), pages)
    readings = []
    for one in chosen:
        near = nearness_of(span, found[one.home][0], one.line, rng)
        beside = sum(other.fields == one.fields for other in chosen)
        named = one.alone and near.holds(most) and beside <= pages * len(one.fields)
        readings.append(Reading(one.line.text, one.fields, named, near))
    return tuple(readings)


def public_patches(vectors: Vectors, template: Template) -> Floats:
    """Vectors of the form's patches that hold nothing private, float64 (n, width)."""
    inside = np.repeat(template.mask()[..., None], 3, axis=2)
    private = vectors.given.cut(inside).any(axis=(2, 3, 4))
    return np.unique(vectors.of(template.pixels / 255)[~private], axis=0)


def full(span: PatchSpan, given: PatchInput) -> Limit:
    """The limit of a span that holds everything, or nothing."""
    room = span.beside.shape[1]
    if not span.basis.rank and room >= LEAST_TEST:
        return Limit(Cause.NOISE, "strings: the errors of the patch projection hide everything but the form")
    return Limit(
        Cause.PATCHES,
        f"strings: too many distinct patches for the width of the patch: those of the form take {span.form} directions "
        f"and the others {span.basis.rank} of the {room} left ({given.side} x {given.side} pixels, "
        f"projected to {span.outputs})",
    )


def strange(usual: float) -> Limit:
    """The limit of an update in whose span not even the form lies."""
    return Limit(
        Cause.OTHER,
        "strings: not even the patches that the form prints lie in the span of the patch projection's gradient "
        f"({usual:.0f} times as far outside as errors explain): another form, another model, or no sum of signals",
    )


def unread(lost: Sequence[str], count: int) -> Limit:
    """The limit of fields of which no line lies in the span."""
    return Limit(
        Cause.FONT,
        f"strings: no line of the fonts, sizes and places tried lies in the span, in {len(lost)} of {count} fields",
    )


def _drawn(span: PatchSpan, found: _Found, most: float) -> _Found:
    """Lines that lie in the span as they are drawn, in whole levels of one ink."""
    return {
        name: (field, [line for line in lines if inked(span, field, line)[0] <= most])
        for name, (field, lines) in found.items()
    }


def _lines(span: PatchSpan, field: FieldPixels, most: float, before: Sequence[Line]) -> list[Line]:
    """Lines of a field: as fields before were set, else in any way."""
    for family, size in dict.fromkeys((line.typeset.family, line.typeset.size) for line in before):
        found = search(span, field, typesets(field.size[1], (family,), (size,)), WIDTH, most)
        if found:
            return found
    return search(span, field, typesets(field.size[1]), WIDTH, most)
