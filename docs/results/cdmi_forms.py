"""The forms of cdmi-fcc-adbuy.md: python docs/results/cdmi_forms.py FCC_ADBUY OUT.

Of the real documents the invoices with a born-digital text, and of their fields those whose value stands once on
the page: what stands twice can be copied from the other place, which is no memory. Forms with three such fields
are kept.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

from pfl_audit.documents.forms.form import Form
from pfl_audit.documents.forms.readers import open_forms
from pfl_audit.documents.forms.writer import write_forms

FEWEST = 3


def main(source: Path, out: Path) -> None:
    """Choose, and write forms.jsonl."""
    rows = (json.loads(line) for line in (source / "docs.jsonl").read_text(encoding="utf-8").splitlines())
    wanted = {f"{row['id']}_1" for row in rows if row["kind"] == "INVOICE" and row["text_source"] == "native"}
    corpus = open_forms(source)
    forms = tuple(_once(form) for form in corpus.forms if form.id in wanted)
    write_forms(replace(corpus, forms=tuple(form for form in forms if len(form.fields) >= FEWEST)), out)


def _once(form: Form) -> Form:
    often = Counter(form.text(field).casefold() for field in form.fields)
    fields = tuple(field for field in form.fields if often[form.text(field).casefold()] == 1)
    return replace(form, fields=fields, links=())


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
