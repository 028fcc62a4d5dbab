"""Training by one process against several of torchrun: python -m tests.bench.several_processes [N [DEVICE]].

The embedded VT5 is trained on a drawn corpus, without dropout, whose draws differ with the number of processes.
Seconds of a step are those of a longer run less those of a shorter one, so that no start is counted: those that pass,
and those of all processors. Each process has one thread. On GPUs, name as many processes as there are: 4 cuda.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from pfl_audit.documents.synthetic.generator import make_corpus
from pfl_audit.models.weights import read_state
from pfl_audit.progress import Silent
from tests.bench.engine import FIXTURES
from tests.conftest import RECIPE

SHORT, LONG = 10, 50
"""Steps of the two runs."""
BATCH = 16


def main(processes: int = 2, device: str = "cpu") -> None:
    """Print seconds a step, and the largest difference of a weight."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        make_corpus(RECIPE, place / "data", Silent())
        shutil.copytree(FIXTURES / "vt5-finetuned", place / "start")
        config = json.loads((place / "start/config.json").read_text())
        (place / "start/config.json").write_text(json.dumps({**config, "hidden_dropout_prob": 0.0}))
        for count in (1, processes):
            taken = [_train(place, count, device, steps) for steps in (SHORT, LONG)]
            passed, used = ((long - short) / (LONG - SHORT) for short, long in zip(*taken, strict=True))
            print(f"{count} on {device}: {passed:.3f} s a step, {used:.3f} CPU s a step", flush=True)
        one, several, start = (read_state(place / name) for name in (f"1-{LONG}", f"{processes}-{LONG}", "start"))
        apart = max(float((one[name] - several[name]).abs().max()) for name in one)
        moved = max(float((one[name] - start[name]).abs().max()) for name in one)
        print(f"largest difference of a weight after {LONG} steps: {apart:.1e}; the training moved one by {moved:.1e}")


def _train(place: Path, count: int, device: str, steps: int) -> tuple[float, float]:
    """Seconds that passed, and of all processors."""
    launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={count}"] if count > 1 else []
    command = [
        sys.executable, *launcher, "-m", "pfl_audit", "train", "--data", str(place / "data"), "--from",
        str(place / "start"), "--out", str(place / f"{count}-{steps}"), "--steps", str(steps), "--batch-size",
        str(BATCH), "--device", device, "--optimizer", "sgd", "--learning-rate", "0.1", "--quiet",
    ]  # fmt: skip
    before, began = _cpu(), time.monotonic()
    subprocess.run(command, check=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    return time.monotonic() - began, _cpu() - before


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main(*(int(word) if word.isdigit() else word for word in sys.argv[1:]))  # type: ignore[arg-type]
