"""Answers of a VT5's batches by the decoder's span: python -m tests.bench.span_answers [BATCHES [others]].

The embedded VT5 on the first embedded form with random values, on which a level of the search was set; with ``others``
each batch is of another form, from the second on. One row for each size of a batch and kind of update, as
Markdown: different answers that came back whole, tokens with all before them, and false ones.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import torch

from pfl_audit.attacks.inversion.adapters.rows import rounding_of_matrices
from pfl_audit.attacks.inversion.input_span.answers import answers_in
from pfl_audit.attacks.inversion.template.synthetic import open_templates
from pfl_audit.models.open import open_gradient_model
from tests.attacks.inversion import updates
from tests.attacks.inversion.room import Room
from tests.attacks.inversion.updates import Update

FIXTURES = Path(__file__).parents[2] / "fixtures"


def main(batches: int, *, others: bool) -> None:
    """Print the table."""
    model, forms = open_gradient_model(str(FIXTURES / "vt5-finetuned")), open_templates(FIXTURES / "templates")
    rooms = [Room(model, (form,)) for form in forms[1 : 1 + batches]] if others else [Room(model, forms[:1])] * batches
    print("| pages | what is shared | answers | tokens with all before them | false | cause |")
    print("| --- | --- | --- | --- | --- | --- |")
    for batch in (1, 2, 4, 8):
        for kind in ("one gradient", "float16", "bfloat16", "SGD, rate 1e-3, 1 step"):
            counts, causes = [0] * 5, set[str]()
            for number, room in enumerate(rooms):
                case = room.case(number, batch)
                given: Update = dict(case.seen.gradient)
                if kind.startswith("SGD"):
                    given = updates.trained(room.model, case.truths, 1, updates.sgd(1e-3))
                elif kind != "one gradient":
                    given = updates.rounded(given, getattr(torch, kind))
                seen = replace(case.seen, gradient=given)
                tables, weights = room.model.word_tables(), dict(room.model.network.named_parameters())
                names = tables.decoder()
                errors = rounding_of_matrices(given, weights, (names.query, names.key, names.value, *names.feed))
                found = answers_in(seen.gradient, tables, weights, errors)
                true = {tuple(truth.text["labels"].tolist()[:-1]) for truth in case.truths}
                own, named = (
                    {row[:end] for row in rows for end in range(1, len(row) + 1)} for rows in (true, found.certain)
                )
                numbers = (len(true & {*found.certain}), len(true), len(own & named), len(own), len(named - own))
                counts = [total + one for total, one in zip(counts, numbers, strict=True)]
                causes |= {str(limit.cause) for limit in found.limits}
            whole, of, right, wanted, false = counts
            why = ", ".join(sorted(causes)) or "–"
            print(f"| {batch} | {kind} | {whole} of {of} | {right} of {wanted} | {false} | {why} |", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2, others="others" in sys.argv[2:])
