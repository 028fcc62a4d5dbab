"""CPU and memory of reading a PFL-DocVQA imdb: python -m tests.bench.imdb [--records 10000].

A page has 400 words and ten questions. Its records share one list of words and boxes (a reference within the pickle),
or each has its own; boxes are arrays or lists. Every reading has a process of its own, whose children count as well;
"before" reads with ``tests.oracles.imdb``, which lets numpy rebuild the arrays in this process.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

WORDS = 400
QUESTIONS = 10
WAYS = ("before", "after")


def main() -> None:
    """Make each file, read it both ways in turn, print a table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--records", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3, help="the least CPU of so many readings is printed")
    parser.add_argument(
        "--read", nargs=2, metavar=("WAY", "FOLDER"), help="read a folder once, for this program itself"
    )
    wanted = parser.parse_args()
    if wanted.read:
        print(json.dumps(read(wanted.read[0], Path(wanted.read[1]))))
        return
    columns = f"{'CPU s':>7}{'ratio':>7}{'MiB':>7}{'child MiB':>11}"
    print(f"{'words of records':<18}{'boxes':<8}{'MB':>6}  {'way':<8}{columns}")
    for shared, arrays in product((True, False), (True, False)):
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            maker = get_context("spawn").Process(target=make, args=(folder, wanted.records, shared, arrays))
            maker.start()  # a process of its own: the peak memory of this one would count for those that it starts
            maker.join()
            size = (folder / "red_test.npy").stat().st_size / 1e6
            found = {way: [_run(way, folder) for _ in range(wanted.rounds)] for way in WAYS}
        least = {way: min(row["cpu"] for row in rows) for way, rows in found.items()}
        for way, rows in found.items():
            memory, of_children = (max(row[name] for row in rows) for name in ("memory", "children"))
            print(
                f"{'shared' if shared else 'their own':<18}{'arrays' if arrays else 'lists':<8}{size:>6.0f}  {way:<8}"
                f"{least[way]:>7.2f}{least[way] / least['before']:>7.2f}{memory:>7}{of_children:>11}",
                flush=True,
            )


def make(folder: Path, records: int, shared: bool, arrays: bool) -> None:
    """Write an imdb file of so many records, and the images of its pages."""
    rng = np.random.default_rng(0)
    (folder / "images").mkdir()
    Image.new("L", (20, 30)).save(folder / "page.png")
    rows: list[dict[str, Any]] = [{"version": "1.0", "split": "red_test"}]
    for page in range(-(-records // QUESTIONS)):
        name = f"{page:024x}_1"
        (folder / f"images/{name}.png").hardlink_to(folder / "page.png")
        numbers = rng.integers(0, 10**6, WORDS).tolist()
        corners = np.sort(rng.random((WORDS, 4), dtype=np.float32), axis=1)
        for question in range(QUESTIONS):
            if question == 0 or not shared:
                words = [f"w{number}" for number in numbers]
                boxes = corners.copy() if arrays else corners.tolist()
            rows.append(
                {
                    "question": f"What is the number {question}?",
                    "answers": f"{page}",
                    "image_name": name,
                    "ocr_tokens": words,
                    "ocr_normalized_boxes": boxes,
                    "set_name": f"red_test_{'positive' if page % 2 else 'negative'}",
                    "provider": f"Company {page % 97}{'a' if page % 2 else 'b'}",
                }
            )
    array = np.empty(records + 1, dtype=object)
    array[:] = rows[: records + 1]
    np.save(folder / "red_test.npy", array)


def read(way: str, folder: Path) -> dict[str, float]:
    """Read the corpus in this process; CPU seconds and peak MiB, of this process and of its children."""
    from pfl_audit.documents.readers import open_corpus, pfl_docvqa
    from tests.oracles.imdb import read_object_array

    if way == "before":
        pfl_docvqa.read_object_arrays = lambda paths: (
            (path, row, record) for path in paths for row, record in enumerate(read_object_array(path))
        )
    began = _cpu()
    corpus = open_corpus(folder)
    spent = _cpu() - began
    if corpus.problems or not corpus.queries:
        raise SystemExit(f"not everything was read: {corpus.problems[:1]}")
    return {"cpu": spent, "memory": _peak(resource.RUSAGE_SELF), "children": _peak(resource.RUSAGE_CHILDREN)}


def _run(way: str, folder: Path) -> dict[str, float]:
    command = [sys.executable, "-m", "tests.bench.imdb", "--read", way, str(folder)]
    return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)


def _cpu() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


def _peak(who: int) -> int:
    return resource.getrusage(who).ru_maxrss >> 10


if __name__ == "__main__":
    main()
