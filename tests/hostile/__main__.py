"""``python -m tests.hostile [--program PATH] [--door NAME]``: run every case, print a table a door."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tests.hostile.corpus import all_cases
from tests.hostile.run import Program, Runner, Zygote, faults


def main() -> None:
    """Run, print, and end with 1 where a case fell short."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", type=Path, help="an installed pfl-audit to run instead of this source tree")
    parser.add_argument("--door", help="only the cases of doors whose name begins so")
    wanted = parser.parse_args()
    runner: Runner = Program(wanted.program) if wanted.program else Zygote()
    doors: dict[str, list[tuple[bool, float, int]]] = {}
    for case in all_cases():
        if not case.door.startswith(wanted.door or ""):
            continue
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place) / "case"
            folder.mkdir()
            outcome = runner(case.make(folder), folder)
            wrong = faults(case, outcome, folder)
        doors.setdefault(case.door, []).append((not wrong, outcome.cpu, outcome.memory))
        if wrong:
            print(f"{case.door} / {case.name}: {'; '.join(wrong)}", file=sys.stderr, flush=True)
    print(f"{'door':<24}{'cases':>7}{'good':>7}{'CPU s':>8}{'worst CPU s':>13}{'worst MiB':>11}")
    for door, rows in doors.items():
        good, cpu, memory = zip(*rows, strict=True)
        print(f"{door:<24}{len(rows):>7}{sum(good):>7}{sum(cpu):>8.0f}{max(cpu):>13.1f}{max(memory) >> 20:>11}")
    sys.exit(any(not good for rows in doors.values() for good, _, _ in rows))


if __name__ == "__main__":
    main()
