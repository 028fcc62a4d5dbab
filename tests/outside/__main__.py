"""``python -m tests.outside``: a table of what each command does outside, every command in a process of its own."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.outside.commands import commands, environment, make_inputs
from tests.outside.strace import read_trace, start_traced


def main() -> None:
    """Run each command, and stay 15 s."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder).resolve()
        make_inputs(place)
        print(f"{'command':<18}{'calls to the network':>22}  files outside")
        for name in commands(place):
            trace = place / "trace"
            command = [sys.executable, "-m", "tests.outside.commands", str(place), "15", name]
            start_traced(command, trace, place / "cwd", environment(place)).communicate()
            seen = read_trace(trace, place / "cwd")
            files = seen.outside(place / "out", place / "home/.cache/pfl-audit")
            print(f"{name:<18}{len(seen.talk):>22}  {' '.join(map(str, files))}", flush=True)


if __name__ == "__main__":
    main()
