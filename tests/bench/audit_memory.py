"""Memory of an audit of as many questions as the papers' RED has: OMP_NUM_THREADS=1 python -m tests.bench.audit_memory.

A VT5 of base size with random weights answers one batch, the largest that it forms, of the longest input. Then
``pfl-audit audit`` with a public model and every check of questions, on drawn pages of 660 providers, and of a quarter
of them, with a tiny VT5, so that the peak is of everything beside the model. Each is a process of its own.
"""

from __future__ import annotations

import contextlib
import io
import resource
import subprocess
import sys
import tempfile
import time
from importlib import resources
from pathlib import Path

import numpy as np

from pfl_audit.attacks.questions.engine import QueryEngine
from pfl_audit.cli.main import run
from pfl_audit.core.store import ResponseStore
from pfl_audit.documents.document import Document, Query
from pfl_audit.documents.readers import open_corpus
from pfl_audit.documents.synthetic.generator import Recipe, make_corpus
from pfl_audit.models.vt5.checkpoint import save_vt5
from pfl_audit.models.vt5.model import _FEATURE_BYTES, Vt5Model
from pfl_audit.progress import Silent
from pfl_audit.training.scratch import new_vt5
from tests.conftest import checkpoints

FIXTURES = Path(str(resources.files("pfl_audit.fixtures")))
PROVIDERS = (330, 82)
"""Of each class; the papers' RED has 307 and 353, with 2,589 pages and 8,100 questions."""


def main() -> None:
    """A process for the model, and one for each audit."""
    print(f"models, libraries and a page: {_peak():.0f} MB", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        _measure("model", folder)
        for count in PROVIDERS:
            _measure("audit", str(Path(folder) / str(count)), str(count))
    pages = 2589 * 197 * 768 * 4
    print(f"features of 2,589 pages would be {pages >> 20} MB; {_FEATURE_BYTES >> 20} MB are kept for each model")


def _measure(*words: str) -> None:
    subprocess.run([sys.executable, "-m", "tests.bench.audit_memory", *words], check=True)


def audit(folder: Path, providers: int) -> None:
    """Audit drawn pages; drawing and training a tokenizer are done by a process before."""
    if not (folder / "data").exists():
        _measure("draw", str(folder), str(providers))
    red = open_corpus(folder / "data", "red")
    asked, pages = len(red.queries), len({query.document.id for query in red.queries})
    del red
    begun = time.process_time()
    models = ("--model", str(folder / "models/vt5-0"), "--pretrained", str(folder / "models/vt5-1"))
    words = ("--red", str(folder / "data"), "--out", str(folder / "run"), "--fail-on", "never", "-q")
    with contextlib.redirect_stdout(io.StringIO()):
        code = run(["audit", *models, *words])
    print(
        f"{asked:,} questions about {pages:,} pages of {2 * providers} providers: {_peak():.0f} MB at most, "
        f"{time.process_time() - begun:.0f} CPU s, exit code {code}",
        flush=True,
    )


def draw(folder: Path, providers: int) -> None:
    """Pages, and two tiny models."""
    recipe = Recipe(
        members=providers, non_members=providers, red_providers=providers, clients=1, documents=1,
        red_documents=3.9, questions=3.13, seed=0,
    )  # fmt: skip
    make_corpus(recipe, folder / "data", Silent())
    make = checkpoints(folder / "data", folder / "models")
    for seed in (0, 1):
        make(seed)


def model(folder: Path) -> None:
    """A model of base size answers the largest batch of pages that are longer than its input."""
    _measure("base", str(folder))
    words = tuple(f"w{at}" for at in range(600))
    boxes = np.tile(np.array([[0.1, 0.1, 0.2, 0.2]], dtype=np.float32), (len(words), 1))
    vt5 = Vt5Model(folder / "base")
    alone = _peak()
    page = Document(id="page", provider="p", words=words, boxes=boxes)
    rows = vt5.batch_size(vt5.cost(Query("0", page, "What?", ("total",))))
    queries = [Query(str(at), page, f"What {at}?", ("total amount",)) for at in range(rows)]
    with ResponseStore(folder / "store.sqlite") as store:
        QueryEngine(vt5, store, Silent()).ask(queries, "bench")
    print(f"base size: {alone:.0f} MB opened, {_peak():.0f} MB after {rows} questions of the longest input", flush=True)


def base(folder: Path) -> None:
    """A checkpoint of base size."""
    save_vt5(new_vt5("base", 1000, seed=0), FIXTURES / "vt5-finetuned", folder / "base", extra={})


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    match sys.argv[1:]:
        case []:
            main()
        case ["audit", folder, count]:
            audit(Path(folder), int(count))
        case ["draw", folder, count]:
            draw(Path(folder), int(count))
        case ["model", folder]:
            model(Path(folder))
        case ["base", folder]:
            base(Path(folder))
