"""Which fields are attacked, and the passes that it takes at most."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pfl_audit.attacks.reconstruction.specs import ReconstructionSettings
from pfl_audit.core.redaction import visible
from pfl_audit.documents.forms.form import Form
from pfl_audit.errors import UsageError
from pfl_audit.models.form_protocol import Blank, FormModel

Truth = tuple[int, ...]
LISTED = 20
"""Labels that a message names at most."""
_ANSWER = "answer"


@dataclass(frozen=True)
class Chosen:
    """Fields that are attacked, and how many are not.

    Attributes:
        fields: Blank and true value, in the order of the source.
        too_short: Form and field id of those with fewer tokens than the shortest.
        too_long: The same of those with more than the longest.
        not_drawn: How many others were left out because fields enough are attacked.
        not_read: Form and field id of those that the model cannot read whole, which are none of its blanks.
    """

    fields: tuple[tuple[Blank, Truth], ...]
    too_short: tuple[tuple[str, str], ...]
    too_long: tuple[tuple[str, str], ...]
    not_drawn: int
    not_read: tuple[tuple[str, str], ...] = ()


def fields_of(
    forms: Sequence[Form], model: FormModel, settings: ReconstructionSettings, labels: Sequence[str], seed: int
) -> Chosen:
    """The fields of some forms to attack."""
    pairs = [pair for form in forms for pair in model.blanks(form) if pair[0].span.field.label in labels]
    read = {_name(blank) for blank, _ in pairs}
    named = [(form.id, field.id) for form in forms for field in form.fields if field.label in labels]
    return replace(choose(pairs, settings, seed), not_read=tuple(name for name in named if name not in read))


def attacked_labels(wanted: Sequence[str], known: Sequence[str]) -> tuple[str, ...]:
    """What is asked for, or what is personal on a form: the answers where these have a label (section 5.1).

    Raises:
        UsageError: No form has such a label.
    """
    if unknown := [label for label in wanted if label not in known]:
        raise UsageError(
            f"no form has a field of label '{visible(unknown[0], 60)}'",
            f"Choose among: {', '.join(visible(label, 60) for label in known[:LISTED])}",
        )
    return tuple(wanted) or ((_ANSWER,) if _ANSWER in known else tuple(known))


def choose(fields: Sequence[tuple[Blank, Truth]], settings: ReconstructionSettings, seed: int) -> Chosen:
    """Keep fields of the right length (cdmi-reconstruction, section 5.1), and of those as many as are wanted.

    Who is drawn depends on the seed and the names alone; a smaller draw is part of a larger one.
    """
    short = tuple(_name(blank) for blank, _ in fields if blank.length < settings.shortest)
    long = tuple(_name(blank) for blank, _ in fields if blank.length > settings.longest)
    fit = [pair for pair in fields if settings.shortest <= pair[0].length <= settings.longest]
    drawn = sorted(range(len(fit)), key=lambda place: _lot(seed, fit[place][0]))[: settings.fields]
    return Chosen(tuple(fit[place] for place in sorted(drawn)), short, long, len(fit) - len(drawn))


def count_passes(
    blanks: Sequence[Blank], settings: ReconstructionSettings, *, mlm: bool
) -> tuple[tuple[int, int], tuple[int, int]]:
    """Forward passes of attack and baseline together that the fields take, if none is known from an earlier run.

    Args:
        mlm: Whether the target is a masked language model, which is asked once a step instead of once a candidate.

    Returns:
        Least and most passes of the target, then of the public model. The least is taken where all attempts at a field
        agree, the most where they part at its first token.
    """
    least = sum(blank.length for blank in blanks)
    most = sum(1 + (blank.length - 1) * settings.attempts for blank in blanks)
    width = 1 if mlm else settings.candidates
    return (width * least, width * most), (2 * least, 2 * most)


def _name(blank: Blank) -> tuple[str, str]:
    return blank.window.form.id, blank.span.field.id


def _lot(seed: int, blank: Blank) -> bytes:
    return hashlib.sha256(json.dumps([seed, *_name(blank)]).encode()).digest()
