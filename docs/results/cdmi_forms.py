"""The forms of cdmi-fcc-adbuy.md: python docs/results/cdmi_forms.py FCC_ADBUY OUT [PAGES].

All pages, or as many, drawn by the digest of their names; and of their fields those whose value is that of no other
field of the page. The data set has no links. A value is linked to the printed word that names it: the nearest one of
its line to the left, or above it, that one of NAMES begins.
"""

from __future__ import annotations

import hashlib
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

from pfl_audit.documents.forms.form import Field, Form
from pfl_audit.documents.forms.readers import open_forms
from pfl_audit.documents.forms.readers.jsonl import write_forms

NAMES = {
    "contract_num": ("contract", "order", "invoice"),
    "advertiser": ("advertiser", "client", "customer"),
    "gross_amount": ("gross", "total", "amount"),
    "flight_from": ("flight", "start", "dates", "period", "from"),
    "flight_to": ("end", "flight", "dates", "period", "to"),
}
ABOVE = 0.06
"""Share of the page's height between a name and the value below it, at most."""


def main(source: Path, out: Path, pages: int | None = None) -> None:
    """Choose, and write forms.jsonl."""
    corpus = open_forms(source)
    forms = [form for form in map(_once, corpus.forms) if form.fields]
    drawn = {form.id for form in sorted(forms, key=_digest)[:pages]}
    write_forms(replace(corpus, forms=tuple(_linked(form) for form in forms if form.id in drawn)), out)


def _digest(form: Form) -> str:
    return hashlib.sha256(form.id.encode()).hexdigest()


def _once(form: Form) -> Form:
    often = Counter(form.text(field).casefold() for field in form.fields)
    fields = tuple(field for field in form.fields if often[form.text(field).casefold()] == 1)
    return replace(form, fields=fields, links=())


def _linked(form: Form) -> Form:
    taken = {word for field in form.fields for word in range(field.start, field.stop)}
    names: dict[int, Field] = {}
    links = []
    for field in form.fields:
        if (word := _name_of(form, field, taken)) is not None:
            name = names.setdefault(word, Field(f"name-{word}", "name", word, word + 1))
            links.append((name.id, field.id))
    fields = sorted([*form.fields, *names.values()], key=lambda field: field.start)
    return replace(form, fields=tuple(fields), links=tuple(links))


def _name_of(form: Form, field: Field, taken: set[int]) -> int | None:
    """The word that names a value, or None."""
    words, boxes = form.document.words, form.document.boxes
    left, top, right, bottom = map(float, boxes[field.start])
    far: dict[int, float] = {}
    for word, text in enumerate(words):
        if word in taken or not text.casefold().startswith(NAMES[field.label]):
            continue
        its = [float(side) for side in boxes[word]]
        beside = its[1] < bottom and its[3] > top and its[2] <= left
        above = 0 <= top - its[1] <= ABOVE and its[0] < right and its[2] > left - ABOVE
        if beside or above:
            far[word] = left - its[2] if beside else top - its[1]
    return min(far, key=far.__getitem__) if far else None


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), *map(int, sys.argv[3:]))
