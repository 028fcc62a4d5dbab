"""Peak memory with a growing number of page features: python -m tests.bench.page_memory."""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import torch

from pfl_audit.models.page_store import PageStore

ROWS = (500, 5_000, 50_000)
BLOCK = (16, 65, 96)
READS = 2_000


def main() -> None:
    """One process for each number of rows."""
    for rows in ROWS:
        subprocess.run([sys.executable, "-m", "tests.bench.page_memory", str(rows)], check=True)


def one(rows: int) -> None:
    """Write and read so many rows, and print the most memory that was held."""
    with tempfile.TemporaryDirectory(dir=".") as folder:
        path, block, before = Path(folder) / "pages", torch.randn(BLOCK), _peak()
        store = PageStore(path, "")
        while store.rows < rows:
            store.append(block[: rows - store.rows])
        generator = torch.Generator().manual_seed(0)
        for _ in range(READS):
            store[torch.randint(rows, (8,), generator=generator).tolist()]
        size = path.stat().st_size >> 20
        print(f"{rows} rows, {size} MB on disk: {_peak():.1f} MB of memory, {before:.1f} before the first", flush=True)


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    if len(sys.argv) > 1:
        one(int(sys.argv[1]))
    else:
        main()
