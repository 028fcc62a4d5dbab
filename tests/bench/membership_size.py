"""CPU seconds and memory of the statistics of membership inference, by the number of providers: nothing is asked.

Run: OMP_NUM_THREADS=1 python -m tests.bench.membership_size [PROVIDERS ...]

Recorded answers of a model that was trained on half of the providers: two documents each, two questions a document. All
attacks run with 5 seeds, with the bootstraps and permutations of an audit. Each size is a process of its own.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from pfl_audit.cli.main import run
from pfl_audit.documents.corpus import Corpus
from pfl_audit.documents.document import Document, Query
from pfl_audit.documents.writers import write_jsonl
from pfl_audit.metrics.intervals import RESAMPLES
from pfl_audit.metrics.permutation import PERMUTATIONS

SIZES = (200, 660, 4149)
WORDS = ("total", "pay", "due", "net", "date", "ship")


def main(sizes: list[int]) -> None:
    """Print a line a size."""
    print(f"{RESAMPLES} resamples, {PERMUTATIONS} permutations, 5 seeds")
    for size in sizes:
        subprocess.run([sys.executable, "-m", "tests.bench.membership_size", "--one", str(size)], check=True)


def one(size: int) -> None:
    """Audit recorded answers about so many providers."""
    with TemporaryDirectory() as folder:
        answers = []
        for side, count in (("in", size // 2), ("out", size - size // 2)):
            corpus = drawn(side, count)
            write_jsonl(corpus, Path(folder) / side)
            rng = np.random.default_rng(len(side))
            for query in corpus.queries:
                right = rng.random() < (0.8 if side == "in" else 0.5)
                answer = query.answers[0] if right else "?"
                sure, loss = float(rng.uniform(0.5, 1)), float(rng.exponential())
                answers.append({"id": query.id, "answer": answer, "confidence": sure, "loss": loss})
        recorded = Path(folder) / "answers.jsonl"
        recorded.write_text("\n".join(map(json.dumps, answers)))
        sides = ["--members", str(Path(folder) / "in"), "--non-members", str(Path(folder) / "out")]
        given = ["--answers", str(recorded), "--out", str(Path(folder) / "run"), "--check", "membership", "-q"]
        began = time.process_time()
        sys.stdout.flush()
        kept = os.dup(1)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        run(["audit", *given, *sides, "--fail-on", "never", "--set", "membership.seeds=5"])
        sys.stdout.flush()
        os.dup2(kept, 1)
        seconds, memory = time.process_time() - began, peak()
        checks = json.loads((Path(folder) / "run/results.json").read_text())["checks"]
    ran = [check["id"] for check in checks if check["status"] == "ran"]
    print(f"{size} providers: {seconds:.1f} CPU s, {memory / 1e9:.2f} GB: {', '.join(ran)}")


def drawn(side: str, companies: int) -> Corpus:
    """Two documents of every company with two questions each."""
    rng = np.random.default_rng(len(side))
    queries = []
    for number in range(companies):
        name = f"{side} company {number}"
        for which in range(2):
            words = (*rng.choice(WORDS, size=6), name)
            boxes = np.tile(np.float32([0.1, 0.1, 0.2, 0.2]), (len(words), 1))
            page = Document(f"{side}{number}x{which}_1", name, words, boxes)
            queries.append(Query(f"{page.id}-name", page, "Who issued it?", (name,), "provider_name"))
            queries.append(Query(f"{page.id}-sum", page, "What is the total?", ("12",), "total_amount"))
    return Corpus(tuple(queries))


def peak() -> int:
    """Most memory that this process has held, in bytes."""
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        one(int(sys.argv[2]))
    else:
        main([int(size) for size in sys.argv[1:]] or list(SIZES))
