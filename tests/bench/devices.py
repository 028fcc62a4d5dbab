"""The query engine on the devices and precisions at hand: python -m tests.bench.devices (make bench-gpu).

Seconds that pass on the device that ``--device auto`` picks, in each precision, with answers and losses held against
float32 on the CPU and against answers one at a time. Without a GPU it says so in one line, and ends with 0; with the
argument ``cpu`` it shows the rounding of the processor on 24 questions.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from pfl_audit.attacks.questions.engine import Answers, QueryEngine
from pfl_audit.attacks.questions.precision import difference_of
from pfl_audit.core.store import ResponseStore
from pfl_audit.documents.document import Query
from pfl_audit.documents.readers import open_corpus
from pfl_audit.models.device import AUTO, usable_device
from pfl_audit.models.family import FLOATS, Precision
from pfl_audit.models.open import open_model
from pfl_audit.models.protocol import DocumentModel
from pfl_audit.models.vt5.checkpoint import save_vt5
from pfl_audit.progress import Silent
from pfl_audit.training.scratch import new_vt5
from tests.bench.engine import FIXTURES

TOKENS = 1 << 18
"""Of a batch on a GPU, to begin with; memory decides."""
FEW = 48
"""Questions that the CPU answers as well, and that are asked one at a time."""


def main(given: str = AUTO) -> None:
    """Compare precisions on the fixture model, and on a GPU on a base-size model with random weights too."""
    device = usable_device(given)
    if device == "cpu" and given == AUTO:
        print("no GPU here: nothing is timed")
        return
    red = open_corpus(FIXTURES / "red", "red")
    compare("fixture model", FIXTURES / "vt5-finetuned", red.queries[: 24 if device == "cpu" else 400], device)
    if device == "cpu":
        return
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder) / "base"
        save_vt5(new_vt5("base", 1000, seed=0), FIXTURES / "vt5-finetuned", base, extra={})
        compare("base size, random weights", base, red.queries[:400], device)


def compare(name: str, folder: Path, queries: Sequence[Query], device: str) -> None:
    """Print questions a second in each precision, what it changes, and what asking in batches changes."""
    few = queries[:FEW]
    true = together(opened(folder, "cpu", "fp32"), few)[0]
    for precision in FLOATS:
        model = opened(folder, device, precision)
        found, seconds = together(model, queries)
        alone = Answers({query.id: model.respond([query])[0] for query in few})
        against = difference_of("against float32 on the CPU", few, true, found).line()
        batched = difference_of("against one at a time", few, alone, found).line()
        speed = len(queries) / seconds
        print(f"{name}, {device}, {precision}: {speed:.1f} questions a second; {against}; {batched}", flush=True)


def opened(folder: Path, device: str, precision: Precision) -> DocumentModel:
    tokens = TOKENS if device != "cpu" else None
    return open_model(str(folder), device=device, precision=precision, batch_tokens=tokens)


def together(model: DocumentModel, queries: Sequence[Query]) -> tuple[Answers, float]:
    """Answers by the engine, and the seconds that they took, after a short run."""
    model.respond(queries[:2])
    with tempfile.TemporaryDirectory() as place, ResponseStore(Path(place) / "store.sqlite") as store:
        begun = time.perf_counter()
        answers = QueryEngine(model, store, Silent()).ask(queries, "bench")
        return answers, time.perf_counter() - begun


if __name__ == "__main__":
    main(*sys.argv[1:2])
