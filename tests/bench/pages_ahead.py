"""What the second thread that reads pages saves: python -m tests.bench.pages_ahead [THREADS] [ROUNDS].

Questions go through the engine with an empty store, as in an audit, with pages read and resized by a second thread and
by the one that computes, in turn. The embedded VT5 answers all questions about some pages of the embedded corpus; a
Donut with random weights, whose pages are as large as the papers' and whose network is small, answers one question
about each of some pages of 1,700 x 2,200 pixels, as a GPU would be fast beside the reading of pages. Seconds are those
that pass, where the machine is idle. Where it is not, those of the processor for the thread that computes alone
say what is saved at most; waiting for the second thread is not in them. Answers must be the same.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from importlib import resources
from pathlib import Path
from unittest import mock

import numpy as np
import torch
from PIL import Image

from pfl_audit.attacks.questions.engine import QueryEngine
from pfl_audit.core.store import ResponseStore
from pfl_audit.documents.document import Query
from pfl_audit.documents.images import PageImage
from pfl_audit.documents.readers import open_corpus
from pfl_audit.models.calls import InTurn
from pfl_audit.models.donut.small import SmallSize, new_donut, save_donut
from pfl_audit.models.donut.tokenizer import DonutTokenizer
from pfl_audit.models.open import open_model
from pfl_audit.models.protocol import Response
from pfl_audit.models.vt5.inputs import _resized
from pfl_audit.progress import Silent

FIXTURES = Path(str(resources.files("pfl_audit.fixtures")))
Seconds = tuple[float, float, float]
"""That passed, of the processor, and of the processor for the thread that computes."""
SIZE = SmallSize(height=1280, width=960, embed=32, depths=(1, 1), heads=(1, 2))
QUESTIONS = 400
PAGES = 24


def main(threads: int, rounds: int) -> None:
    """Compare both ways for both models."""
    torch.set_num_threads(threads)
    queries = open_corpus(FIXTURES / "red", "red").queries
    compare("embedded VT5", FIXTURES / "vt5-finetuned", queries[:QUESTIONS], rounds)
    with tempfile.TemporaryDirectory() as made:
        folder, tokenizer = Path(made) / "donut", DonutTokenizer.open(FIXTURES / "donut")
        save_donut(new_donut(SIZE, tokenizer.size, seed=0), FIXTURES / "donut", folder)
        pages = {query.document.id: query for query in queries}
        compare("Donut of large pages", folder, large(list(pages.values())[:PAGES], Path(made)), rounds)


def large(queries: Sequence[Query], folder: Path) -> list[Query]:
    """The same questions about drawn pages as large as scans, each another one."""
    found = []
    for number, query in enumerate(queries):
        page = np.full((2200, 1700), 255, np.uint8)
        page[100:2100:30, 100:1600] = np.random.default_rng(number).integers(0, 255, (67, 1500))
        path = folder / f"{number}.jpg"
        Image.fromarray(page).convert("RGB").save(path, quality=90)
        found.append(replace(query, document=replace(query.document, image=PageImage(path))))
    return found


def compare(name: str, folder: Path, queries: Sequence[Query], rounds: int) -> None:
    """Time both ways in turn, after a short run, and print the median ratio."""
    ratios, own = list[float](), list[float]()
    asked(folder, queries[:2])
    for number in range(rounds):
        ahead, answers = asked(folder, queries)
        with mock.patch.object(InTurn, "_prepare"):
            alone, others = asked(folder, queries)
        assert answers == others
        ratios.append(alone[0] / ahead[0])
        own.append(alone[2] / ahead[2])
        print(
            f"{name}, round {number + 1}: {len(queries)} questions, seconds that pass, of the processor, of the thread "
            f"that computes: {_text(alone)} by one thread, {_text(ahead)} with pages by a second",
            flush=True,
        )
    print(
        f"{name}, {torch.get_num_threads()} threads of torch: {statistics.median(ratios):.3f} times as fast by seconds "
        f"that pass, {statistics.median(own):.3f} by those of the thread that computes"
    )


def _text(seconds: Seconds) -> str:
    return ", ".join(f"{one:.2f}" for one in seconds)


def asked(folder: Path, queries: Sequence[Query]) -> tuple[Seconds, list[Response]]:
    """Seconds, and the answers of a model that was just opened."""
    model = open_model(str(folder))
    _resized.cache_clear()
    with tempfile.TemporaryDirectory() as scratch, ResponseStore(Path(scratch) / "store.sqlite") as store:
        engine = QueryEngine(model, store, Silent())
        clocks = (time.perf_counter, time.process_time, time.thread_time)
        begun = [clock() for clock in clocks]
        answers = engine.ask(queries, "bench")
        passed, spent, own = (clock() - before for clock, before in zip(clocks, begun, strict=True))
        return (passed, spent, own), [answers[query] for query in queries]


if __name__ == "__main__":
    given = list(map(int, sys.argv[1:]))
    main(*[*given, *(1, 5)[len(given) :]])
