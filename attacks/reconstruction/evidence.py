"""Forms on which a field came back, masked."""

from __future__ import annotations

from pfl_audit.attacks.reconstruction.outcomes import Outcome
from pfl_audit.attacks.reconstruction.settings import MembershipMetric

from pfl_audit.audit.attack import FormContext
from pfl_audit.audit.results import Evidence
from pfl_audit.documents.images import Box
from pfl_audit.errors import UnanswerableError

SHOWN = 3


def show_reconstructions(context: FormContext, outcome: Outcome, ranking: MembershipMetric) -> list[Evidence]:
    """The first perfect reconstructions in the attacker's order, with a frame where each field stood."""
    pick, hide = outcome.private.multi_shot[ranking].attack, context.redactor
    shown: list[Evidence] = []
    for rank, place in enumerate(pick.order, start=1):
        blank = outcome.chosen.fields[place][0]
        form = blank.window.form
        if len(shown) == SHOWN:
            break
        if not pick.values[place, 0] or form.document.image is None:
            continue
        try:
            page = form.document.image.open()
        except UnanswerableError:
            continue
        boxes: list[Box] = [(float(a), float(b), float(c), float(d)) for a, b, c, d in blank.patch]
        name = f"reconstruction-{len(shown):03d}"
        facts: dict[str, str | int | float | None] = {
            "form": hide.page(form.id),
            "field": blank.span.field.label,
            "put back": hide.value(form.text(blank.span.field)),
            "tokens": blank.length,
            "rank": rank,
        }
        picture = context.evidence.show_page(name, page, boxes)
        shown.append(Evidence(title="A field that came back without an error", facts=facts, picture=picture))
    return shown
