"""Contents of a wheel, as of docs/supply-chain.md: python -m tests.bench.wheel_contents dist/NAME.whl."""

from __future__ import annotations

import sys
import zipfile
from collections import Counter
from pathlib import Path, PurePosixPath

_APART = ("pfl_audit/fixtures", "pfl_audit/reports")
"""Folders with a row of their own."""


def folder_of(name: str) -> str:
    """Row of a file in the table of folders."""
    return next((apart for apart in _APART if name.startswith(f"{apart}/")), name.split("/")[0])


def main() -> None:
    """Print the table, the kinds of files, and their sum."""
    path = Path(sys.argv[1])
    with zipfile.ZipFile(path) as wheel:
        held = [one for one in wheel.infolist() if not one.is_dir()]
    counts = Counter(folder_of(one.filename) for one in held)
    sizes: Counter[str] = Counter()
    for one in held:
        sizes[folder_of(one.filename)] += one.file_size
    print(f"{len(held):,} files, {path.stat().st_size / 1e6:.1f} MB\n")
    print("| folder | files | bytes, unpacked |\n| --- | --- | --- |")
    for folder in sorted(counts):
        print(f"| `{folder}/` | {counts[folder]} | {sizes[folder]:,} |")
    kinds = Counter(PurePosixPath(one.filename).suffix or "no suffix" for one in held)
    print(f"\nKinds: {', '.join(f'{count} {kind}' for kind, count in kinds.most_common())}.")


if __name__ == "__main__":
    main()
