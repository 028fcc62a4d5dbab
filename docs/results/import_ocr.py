"""Words that ``data import`` reads by OCR against those of the data set, and seconds a page.

    python docs/results/import_ocr.py fcc_adbuy build/import-ocr --pages 40

The folder is drawn up as a user has it: the page images of documents whose text is born-digital, and a table with file,
station and labels. It is imported by ``data import --ocr always``; a killed run goes on where it stopped.
"""

from __future__ import annotations

import argparse
import csv
import json
import re
import resource
import shutil
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np

SEED = 0
KEYS = ("contract_num", "advertiser", "gross_amount", "flight_from", "flight_to")


def normalised(words: list[str]) -> Counter[str]:
    """Words in lower case without punctuation at their ends; what has no letter or digit is left out."""
    found = (re.sub(r"^\W+|\W+$", "", word.casefold()) for word in words)
    return Counter(word for word in found if word)


def main() -> None:
    """Import a sample of pages and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source", type=Path)
    parser.add_argument("work", type=Path)
    parser.add_argument("--pages", type=int, default=40)
    given = parser.parse_args()
    rows = [json.loads(line) for line in (given.source / "docs.jsonl").read_text(encoding="utf-8").splitlines()]
    native = sorted((row for row in rows if row["text_source"] == "native"), key=lambda row: row["id"])
    chosen = [native[at] for at in np.random.default_rng(SEED).permutation(len(native))[: given.pages]]
    folder = given.work / "in"
    folder.mkdir(parents=True, exist_ok=True)
    with (given.work / "labels.csv").open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["file", "provider", *KEYS])
        for row in chosen:
            name = Path(row["image"]).name
            shutil.copy(given.source / row["image"], folder / name)
            table.writerow([name, row["station"] or "", *(row["fields"].get(key) or "" for key in KEYS)])
    began = time.monotonic()
    command = ["data", "import", folder, "--labels", given.work / "labels.csv", "--out", given.work / "out", "--ocr",
               "always"]  # fmt: skip
    subprocess.run(  # noqa: S603 - our own command
        [Path(sys.executable).parent / "pfl-audit", *map(str, command)], check=True
    )
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    _print(chosen, given.work / "out", time.monotonic() - began, used.ru_utime + used.ru_stime)


def _print(chosen: list[dict[str, object]], out: Path, seconds: float, cpu: float) -> None:
    read = {
        row["id"].rsplit("_", 1)[0]: row["words"]
        for row in map(json.loads, (out / "corpus.jsonl").read_text(encoding="utf-8").splitlines())
    }
    rates = []
    total = Counter({"common": 0, "true": 0, "read": 0})
    for row in chosen:
        name = Path(str(row["image"])).name
        if name not in read:
            print(f"not imported: {name}")
            continue
        true, found = normalised([word[0] for word in row["words"]]), normalised(read[name])  # type: ignore[attr-defined]
        common = (true & found).total()
        total.update({"common": common, "true": true.total(), "read": found.total()})
        rates.append((common / true.total(), common / max(1, found.total())))
    recall, precision = np.array(rates).T
    print(f"{len(rates)} pages, {total['true']} words of the data set, {total['read']} words read")
    print(
        f"recall {total['common'] / total['true']:.1%} "
        f"(pages: median {np.median(recall):.1%}, worst {recall.min():.1%})"
    )
    print(
        f"precision {total['common'] / total['read']:.1%} "
        f"(pages: median {np.median(precision):.1%}, worst {precision.min():.1%})"
    )
    print(f"{seconds / len(chosen):.1f} s a page, {cpu / len(chosen):.1f} s of CPU (less where pages were read before)")


if __name__ == "__main__":
    main()
