"""What ``invert --workers`` gains: python -m tests.bench.invert_workers [DOCUMENTS [ITERATIONS [PROCESSES]]].

The embedded Donut, a form each document, one search a document that ends by its number of iterations. One process with
one thread, one with as many threads as there are processes, and the processes with one thread each; every way in a
command of its own, in turn. Seconds that pass need an idle machine. Seconds of the processor do not: what the process
that leads computes is serial, what the others compute is divided among them, so they give what N idle cores would.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from importlib import resources
from pathlib import Path

FIXTURES = Path(str(resources.files("pfl_audit.fixtures")))


def main(documents: int, iterations: int, count: int) -> None:
    """Compare the ways."""
    found = {}
    for name, threads, workers in (
        ("one process, one thread", 1, 1),
        (f"{count} processes, one thread each", 1, count),
        (f"one process, {count} threads", count, 1),
    ):
        given = [str(documents), str(iterations), str(workers)]
        done = subprocess.run(
            [sys.executable, "-m", "tests.bench.invert_workers", "--one", *given],
            env={**os.environ, "OMP_NUM_THREADS": str(threads)}, capture_output=True, text=True, check=True,
        )  # fmt: skip
        found[name] = json.loads(done.stdout.splitlines()[-1])
        print(f"{name}: {json.dumps(found[name])}", flush=True)
    alone, several, threaded = found.values()
    assert alone["pages"] == several["pages"]
    for other, label in ((alone, "one thread"), (threaded, f"{count} threads")):
        print(
            f"{count} processes {other['passed'] / several['passed']:.2f} times one with {label}, by seconds that pass"
        )
    for cores in (2, 4, 8, 16):
        divided = several["leads"] + several["others"] / count * (count / cores)
        print(
            f"{cores} processes on as many idle cores: at most {alone['leads'] / divided:.2f} times one with one thread"
        )


def one(documents: int, iterations: int, workers: int) -> None:
    """One way: seconds that pass, of this process and of the others, and SHA-256 of what came back."""
    from pfl_audit.core.plan import AuditPlan
    from pfl_audit.core.runner import run_audit
    from pfl_audit.files import sha256_json
    from pfl_audit.progress import Silent

    begun = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        plan = AuditPlan(
            title="bench",
            out=Path(folder) / "run",
            model=str(FIXTURES / "donut"),
            inputs={"gradients": {"template": FIXTURES / "templates", "documents": documents}},
            checks=("inversion.lbfgs",),
            settings={"inversion": {"iterations": iterations, "early_end": False}},
            workers=workers,
        )
        checks = [check.model_dump(mode="json") for check in run_audit(plan, Silent()).checks]
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    leads, others = (round(one.ru_utime + one.ru_stime, 1) for one in used)
    passed = round(time.perf_counter() - begun, 1)
    metrics = [check["metrics"] for check in checks]
    print(json.dumps({"passed": passed, "leads": leads, "others": others, "pages": sha256_json(metrics)[:12]}))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        one(*map(int, sys.argv[2:5]))
    else:
        main(*[*map(int, sys.argv[1:4]), *(4, 60, 2)[len(sys.argv) - 1 :]])
