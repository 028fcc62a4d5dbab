"""Forms on which a field came back, masked."""

from __future__ import annotations

from pfl_audit.attacks.reconstruction.context import FormContext
from pfl_audit.attacks.reconstruction.outcomes import CheckpointOutcome
from pfl_audit.attacks.reconstruction.specs import MembershipMetric
from pfl_audit.core.drawing import CAPTION, drawn_page, framed
from pfl_audit.core.fields import Cell
from pfl_audit.core.redaction import Redactor
from pfl_audit.core.results import Evidence
from pfl_audit.documents.forms.form import Field, Form
from pfl_audit.documents.images import Box
from pfl_audit.errors import UnanswerableError

SHOWN = 3


def show_reconstructions(context: FormContext, outcome: CheckpointOutcome, ranking: MembershipMetric) -> list[Evidence]:
    """The first perfect reconstructions in the attacker's order, each value once; revealed, with a frame around it."""
    pick, hide = outcome.private.multi_shot[ranking].attack, context.redactor
    shown: list[Evidence] = []
    values: set[str] = set()
    for rank, place in enumerate(pick.order, start=1):
        blank = outcome.chosen.fields[place][0]
        form = blank.window.form
        if len(shown) == SHOWN:
            break
        text = form.text(blank.span.field)
        if not pick.values[place, 0] or form.document.image is None or text.casefold() in values:
            continue
        try:
            page = form.document.image.open()
        except UnanswerableError:
            continue
        boxes: list[Box] = [(float(a), float(b), float(c), float(d)) for a, b, c, d in blank.patch]
        name = f"reconstruction-{len(shown):03d}"
        facts: dict[str, Cell] = {
            "form": place_of(hide, form, blank.span.field),
            "field": blank.span.field.label,
            "put back": hide.value(text),
            "tokens": hide.count(blank.length),
            "rank": rank,
        }
        if not hide.reveal:
            facts["picture"] = CAPTION
        values.add(text.casefold())
        picture = context.evidence.show(name, framed(page, boxes), drawn_page())
        shown.append(Evidence(title="A field that came back without an error", facts=facts, picture=picture))
    return shown


def place_of(hide: Redactor, form: Form, field: Field) -> str:
    """A form; masked, a pseudonym of the field's own: labels and lengths of all fields together identify forms."""
    return hide.page(form.id if hide.reveal else f"{form.id} {field.id}")
