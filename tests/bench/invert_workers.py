"""What ``invert --workers`` gains: python -m tests.bench.invert_workers [DOCUMENTS [ITERATIONS [PROCESSES]]].

The embedded Donut, a search a document that ends by its number of iterations: one process with one thread, one with as
many threads as there are processes, and the processes with one thread each, every way in a command of its own. Seconds
that pass need an idle machine. Seconds of the processor need none: what the process that leads computes is serial, the
start of the others takes as long whatever their number, and searches are divided among them.

    python -m tests.bench.invert_workers sleep [PROCESSES]

Searches that sleep in place of computing, so that the figure is of what hands documents out, start apart.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from importlib import resources
from pathlib import Path

from pfl_audit.attacks.inversion.calls import on_each
from pfl_audit.attacks.inversion.context import Case, GradientContext
from pfl_audit.attacks.inversion.gradients import open_gradients
from pfl_audit.attacks.inversion.inputs import GradientInputs
from pfl_audit.core.evidence import EvidenceBox
from pfl_audit.core.plan import AuditPlan
from pfl_audit.core.redaction import Redactor
from pfl_audit.core.runner import run_audit
from pfl_audit.core.store import ResponseStore
from pfl_audit.core.subject import AuditJob
from pfl_audit.core.verdict import Budget
from pfl_audit.files import sha256_json
from pfl_audit.models.gradient_protocol import GradientModel
from pfl_audit.progress import Silent, Task

FIXTURES = Path(str(resources.files("pfl_audit.fixtures")))
TEMPLATES = FIXTURES / "templates"
SECONDS = 5.0
"""Of a search that sleeps."""
ROUNDS = 3


def main(documents: int, iterations: int, count: int) -> None:
    """Compare the ways."""
    found = []
    for name, threads, workers in (
        ("one process, one thread", 1, 1),
        (f"{count} processes, one thread each", 1, count),
        (f"one process, {count} threads", count, 1),
    ):
        done = subprocess.run(
            [sys.executable, "-m", "tests.bench.invert_workers", "one", *map(str, (documents, iterations, workers))],
            env={**os.environ, "OMP_NUM_THREADS": str(threads)}, capture_output=True, text=True, check=True,
        )  # fmt: skip
        found.append(json.loads(done.stdout.splitlines()[-1]))
        print(f"{name}: {done.stdout.splitlines()[-1]}", flush=True)
    alone, several, threaded = found
    print(f"the same numbers as one process with one thread: {alone['found'] == several['found']}")
    for other, label in ((alone, "one thread"), (threaded, f"{count} threads")):
        ratio = other["passed"] / several["passed"]
        print(f"{count} processes against one with {label}, by seconds that pass: {ratio:.2f}")
    searched = alone["leads"] - several["leads"]
    start = (several["others"] - searched) / count
    print(
        f"serial {several['leads']:.1f} s, start of a process {start:.1f} s, searches {searched:.1f} s of the processor"
    )
    for cores in (2, 4, 8):
        if cores <= documents:
            divided = several["leads"] + start + searched / cores
            print(
                f"so {cores} processes on as many idle cores: {alone['leads'] / divided:.2f} times one with one thread"
            )


def one(documents: int, iterations: int, workers: int) -> None:
    """One way: seconds that pass, of this process and of the others, and SHA-256 of the numbers."""
    begun = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        plan = AuditPlan(
            title="bench",
            out=Path(folder) / "run",
            model=str(FIXTURES / "donut"),
            inputs={"gradients": {"template": TEMPLATES, "documents": documents}},
            checks=("inversion.lbfgs",),
            settings={"inversion": {"iterations": iterations, "early_end": False}},
            workers=workers,
        )
        (check,) = run_audit(plan, Silent()).checks
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    leads, others = (round(one.ru_utime + one.ru_stime, 1) for one in used)
    numbers = sha256_json([metric.model_dump(mode="json") for metric in check.metrics])[:12]
    passed = round(time.perf_counter() - begun, 1)
    print(json.dumps({"passed": passed, "leads": leads, "others": others, "found": numbers}))


def sleep(seconds: float, model: GradientModel, case: Case, task: Task) -> str:
    """A search that sleeps."""
    time.sleep(seconds)
    return case.seen.name


def sleeping(count: int) -> None:
    """Seconds of two searches a process, by one and by all."""
    from functools import partial

    with tempfile.TemporaryDirectory() as name, ResponseStore(Path(name) / "store.sqlite") as store:
        folder = Path(name)
        job = AuditJob(
            str(FIXTURES / "donut"),
            "cpu",
            False,
            0,
            store=store,
            states=folder / "states",
            progress=Silent(),
            workers=count,
        )
        opened = open_gradients(GradientInputs(template=TEMPLATES, documents=2 * count), job)
        context = GradientContext(
            model=opened.model, cases=opened.cases, records=opened.records, states=opened.states, calls=opened.calls,
            checks=frozenset(), seed=0, budget=Budget(0.025, 0.05), redactor=Redactor("salt"),
            evidence=EvidenceBox(folder / "run"), progress=Silent(),
        )  # fmt: skip
        list(on_each(context, dict.fromkeys(range(2 * count), partial(sleep, 0.5)), str))
        ratios = []
        for _ in range(ROUNDS):
            begun = time.perf_counter()
            list(on_each(context, dict.fromkeys(range(2 * count), partial(sleep, SECONDS)), str))
            several = time.perf_counter() - begun
            ratios.append(2 * count * SECONDS / several)
            print(
                f"{2 * count} searches of {SECONDS} s, {count} processes {several:.1f} s: {ratios[-1]:.2f}", flush=True
            )
    print(f"{count} processes {statistics.median(ratios):.2f} times one, start apart")


if __name__ == "__main__":
    given = sys.argv[1:]
    if given[:1] == ["one"]:
        one(*map(int, given[1:4]))
    elif given[:1] == ["sleep"]:
        sleeping(*map(int, given[1:2] or ["4"]))
    else:
        main(*map(int, [*given, *("4", "60", "2")[len(given) :]]))
