"""What the span gives away of real pages: python -m tests.bench.input_span_page FOLDER [PIECES [KIND]].

A VT5 of base size with random weights, on pages of FCC's public files (``docs.jsonl`` and ``images/`` in FOLDER), with
4,000 pieces learnt from pages of other stations. One row for each kind of update, as Markdown. Everything on a page but
prompt and question counts as private: there is no form. Memory is what the process takes beside that of the model.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Event, Thread

import numpy as np
import torch
from PIL import Image

from pfl_audit.attacks.inversion.bag import bag_of, counts_of
from pfl_audit.attacks.inversion.context import Case, Observation, Truth
from pfl_audit.attacks.inversion.controls import ALL_BOXES, ANY_ORDER, COORDINATES
from pfl_audit.attacks.inversion.present_bag import many
from pfl_audit.attacks.inversion.template.template import Template, TemplateField
from pfl_audit.documents.corpus import Corpus
from pfl_audit.documents.document import Query
from pfl_audit.documents.readers.fcc_adbuy import import_fcc_adbuy
from pfl_audit.errors import AuditError
from pfl_audit.models.open import open_gradient_model
from pfl_audit.models.samples import Sample
from pfl_audit.models.vt5.checkpoint import save_vt5
from pfl_audit.models.vt5.gradients import Vt5Gradients
from pfl_audit.training.scratch import new_vt5, train_tokenizer
from tests.attacks.inversion import updates

PIECES = 4000
"""Of the tokenizer; T5's has 32,000."""
_WATCH = 0.02
"""Seconds between looks at the memory."""


def main(folder: Path, longest: int, kind: str) -> None:
    """Print a table."""
    made = import_fcc_adbuy(folder, seed=0)
    assert made.out_model is not None
    with tempfile.TemporaryDirectory() as place:
        train_tokenizer(made.out_model, Path(place), PIECES)
        network = new_vt5("base", PIECES, seed=0)
        network.config = replace(network.config, max_input_tokens=longest)
        save_vt5(network, Path(place), Path(place) / "base", extra={})
        model = open_gradient_model(str(Path(place) / "base"), "cpu")
    assert isinstance(model, Vt5Gradients)
    pages = [truth_of(model, query) for query in one_a_page(made.audit)[:2]]
    length = [len(page.text["ids"]) for page in pages]
    print(f"pages of {length[0]} and {length[1]} pieces, {model.network.config.visual_tokens} patches each\n")
    print("| what is shared | tokens | false | boxes | false | coordinates | cause | s | GB |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for name, make in kinds(model).items():
        if kind in name:
            print(row(model, name, pages, make), flush=True)


def kinds(model: Vt5Gradients) -> dict[str, Callable[[list[Truth]], Case]]:
    """Updates by what is done to them."""

    def case(pages: list[Truth], update: updates.Update, steps: int = 1) -> Case:
        blank = np.full((*model.page, 3), 255, np.uint8)
        form = Template(blank, (TemplateField("field-1", (0.0, 0.0, 1.0, 1.0)),))
        return Case(Observation("page", form, update, len(pages), steps), tuple(pages))

    def steps_of(steps: int, optimizer: updates.Optimizer) -> Callable[[list[Truth]], Case]:
        return lambda pages: case(pages[:1], updates.trained(model, pages[:1], steps, optimizer), steps)

    def gradient(pages: list[Truth]) -> updates.Update:
        return updates.gradient(model, pages)

    return {
        "one gradient": lambda pages: case(pages[:1], gradient(pages[:1])),
        "bfloat16": lambda pages: case(pages[:1], updates.rounded(gradient(pages[:1]), torch.bfloat16)),
        **{f"SGD, rate 1e-3, {many(steps, 'step')}": steps_of(steps, updates.sgd(1e-3)) for steps in (1, 5, 20)},
        **{f"AdamW, rate 1e-4, {many(steps, 'step')}": steps_of(steps, updates.adamw(1e-4)) for steps in (1, 5)},
        "dropout of 0.1": lambda pages: case(pages[:1], updates.dropped(model, pages[:1])),
        "adapters of rank 6": lambda pages: case(pages[:1], updates.adapters(gradient(pages[:1]))),
        "batch of 2": lambda pages: case(pages, gradient(pages)),
    }


def row(model: Vt5Gradients, kind: str, pages: list[Truth], make: Callable[[list[Truth]], Case]) -> str:
    """One line."""
    case = make(pages)
    began = time.monotonic()
    try:
        with memory() as most:
            bag = bag_of(model, case)
    except AuditError as error:
        return f"| {kind} | {str(error).split(':')[0]} |"
    seconds = time.monotonic() - began
    print(*bag.limits, sep="\n", file=sys.stderr)
    counts = counts_of(model, case, bag)
    cells = [kind]
    for measure in (ANY_ORDER, ALL_BOXES, COORDINATES):
        right, wanted, named = counts[measure][0].tolist() if measure in counts else (0, 0, 0)
        cells += [f"{right} of {wanted}", *([str(named - right)] if measure != COORDINATES else [])]
    causes = sorted({str(limit.cause) for limit in bag.limits})
    cells += [", ".join(causes) or "–", f"{seconds:.0f}", f"{most[0]:.1f}"]
    return f"| {' | '.join(cells)} |"


def one_a_page(corpus: Corpus) -> list[Query]:
    """The first question of every page of words that are no OCR's."""
    first: dict[str, Query] = {}
    for query in corpus.queries:
        first.setdefault(query.document.id, query)
    return list(first.values())


def truth_of(model: Vt5Gradients, query: Query) -> Truth:
    """A page as a client holds it."""
    document = query.document
    assert document.image is not None
    page: Image.Image = document.image.open()
    sample = Sample(query.question, query.answers[0], document.words, document.boxes)
    return Truth(model.see(page), model.text(sample), None, query.question)


@contextmanager
def memory() -> Iterator[list[float]]:
    """The most memory that is taken inside beside what is held, in GB."""
    before, most, over = _resident(), [0.0], Event()

    def watch() -> None:
        while not over.wait(_WATCH):
            most[0] = max(most[0], _resident() - before)

    thread = Thread(target=watch)
    thread.start()
    try:
        yield most
    finally:
        over.set()
        thread.join()


def _resident() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 1e9


if __name__ == "__main__":
    given = Path(sys.argv[1]) if len(sys.argv) > 1 else Path("fcc_adbuy")
    if not (given / "docs.jsonl").is_file():
        print(f"{given} has no docs.jsonl: nothing is measured. Name the folder with FCC's pages", file=sys.stderr)
        sys.exit(0)
    torch.manual_seed(0)
    main(given, int(sys.argv[2]) if len(sys.argv) > 2 else 512, sys.argv[3] if len(sys.argv) > 3 else "")
