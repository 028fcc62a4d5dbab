"""Files whose functions run for three commands, and how often a call leaves its file: python -m tests.bench.hops."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
FIXTURES = ROOT / "fixtures"
VT5 = FIXTURES / "vt5-finetuned"
_CHILD = "tests.bench.hops_child"


def main() -> None:
    """Print a table: command, modules loaded, files entered, calls that leave their file."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        corpus = folder / "corpus"
        sizes = "--members 8 --non-members 4 --red-providers 4 --documents 1 --red-documents 1 --clients 2"
        _run("data", "make", "--out", str(corpus), *sizes.split())
        commands = {
            "audit of a small VT5": f"audit --model {VT5} --red {corpus}",
            "invert --method words": f"invert --model {VT5} --documents 1 --method words",
            "train --mode fl-dp": f"train --data {corpus} --from {FIXTURES}/vt5-pretrained --mode fl-dp --rounds 2 "
            "--noise-multiplier 1 --public-providers 100",
        }
        print("| command | modules loaded | files entered | calls that leave their file |\n| --- | --- | --- | --- |")
        for title, arguments in commands.items():
            said = _run(*arguments.split(), "--out", str(folder / title.split()[0]), "-q")
            print(f"| {title} | {said} |", flush=True)


def _run(*arguments: str) -> str:
    """Last line of what a command under measurement prints."""
    ended = subprocess.run(
        [sys.executable, "-m", _CHILD, *arguments], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True
    )
    return ended.stdout.strip().splitlines()[-1]


if __name__ == "__main__":
    main()
