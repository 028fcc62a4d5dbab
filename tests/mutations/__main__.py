"""Break each rule in a copy of the checkout, and name the test that finds it: the first that fails, twice.

python -m tests.mutations [--only NAME_OR_NUMBER ...] [--files FILE ...] [--marker EXPR] [--json OUT]
python -m tests.mutations --together NUMBER ... [--files FILE ...]    several rules at once: one run of the tests

The progress is on stderr; a Markdown table, with processor seconds, is on stdout. The exit code is 1 where a rule is
not found.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from tests.mutations.checkout import Checkout
from tests.mutations.mutation import Mutation
from tests.mutations.table import MUTATIONS

_HEAD: Final = "| | room | rule | found by | seconds |\n| ---: | --- | --- | --- | ---: |"


@dataclass(frozen=True)
class Wanted:
    """What is asked for on the command line."""

    only: list[str]
    together: list[int]
    files: list[str]
    marker: str
    json: Path | None
    limit: float


def main() -> None:
    """Run, print the table, and end with 1 where a rule is not found."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    wanted = _parsed()
    try:
        sys.exit(not _all_found(wanted))
    except KeyboardInterrupt:
        _say("interrupted; with --json the same command goes on")
        sys.exit(130)


def _all_found(wanted: Wanted) -> bool:
    with TemporaryDirectory(prefix="mutations-") as folder:
        checkout = Checkout(Path(folder), wanted.marker, wanted.limit)
        if wanted.together:
            return _together(checkout, [MUTATIONS[number - 1] for number in wanted.together], wanted.files)
        return _each(checkout, _chosen(wanted.only), wanted)


def _parsed() -> Wanted:
    parser = argparse.ArgumentParser(prog="python -m tests.mutations")
    parser.add_argument("--only", nargs="+", default=[], help="numbers, rooms, or parts of rules or files")
    parser.add_argument("--together", nargs="+", type=int, default=[], metavar="NUMBER", help="break these at once")
    parser.add_argument("--files", nargs="+", default=[], help="tests in place of those of the table")
    parser.add_argument("--marker", default="", help="only tests with this marker, as pytest -m")
    parser.add_argument("--json", type=Path, help="a line for each rule; rules that are in it are not run again")
    parser.add_argument("--limit", type=float, default=300.0, help="seconds after which a test fails")
    wanted = Wanted(**vars(parser.parse_args()))
    if not all(1 <= number <= len(MUTATIONS) for number in wanted.together) or not _chosen(wanted.only):
        parser.error(f"no rule has such a number or name; there are {len(MUTATIONS)}")
    return wanted


def _chosen(only: Sequence[str]) -> dict[int, Mutation]:
    """Number to rule: all, or those of a number, a room, or a part of the rule or the file."""
    numbered = dict(enumerate(MUTATIONS, 1))
    return {
        number: one
        for number, one in numbered.items()
        if not only
        or any(name in (str(number), one.room) for name in only)
        or any(not name.isdecimal() and name.casefold() in f"{one.rule}\n{one.file}".casefold() for name in only)
    }


def _each(checkout: Checkout, chosen: dict[int, Mutation], wanted: Wanted) -> bool:
    """Break one rule after the other; returns whether all are found."""
    done = _read(wanted.json)
    due = [number for number, one in chosen.items() if _key(one, wanted) not in done]
    _say(f"{len(chosen)} rules, {len(due)} to run; the tests without a mutation first")
    checkout.require_passing(wanted.files or sorted({chosen[number].tests[0] for number in due}))
    began = time.monotonic()
    for place, number in enumerate(due):
        one = chosen[number]
        row = _run(checkout, one, wanted.files)
        done[_key(one, wanted)] = row
        if wanted.json is not None:
            with wanted.json.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"key": _key(one, wanted), **row}, ensure_ascii=False) + "\n")
        left = (time.monotonic() - began) / (place + 1) * (len(due) - place - 1)
        told = f"found by {row['found']}" if row["found"] else "NOT FOUND"
        _say(f"{number} {one.rule} {told} ({row['seconds']:.1f} s; {left / 60:.0f} min left)")
    print(_HEAD)
    for number, one in chosen.items():
        row = done[_key(one, wanted)]
        found = f"`{str(row['found']).removeprefix('tests/')}`" if row["found"] else "**none**"
        print(f"| {number} | {one.room} | {one.rule} | {found} | {row['seconds']:.0f} |")
    return all(done[_key(one, wanted)]["found"] for one in chosen.values())


def _run(checkout: Checkout, one: Mutation, files: Sequence[str]) -> dict[str, object]:
    """The test that finds a rule, or None, and the seconds of all tests that were run."""
    seconds = 0.0
    for some in [files] if files else [[file] for file in one.tests]:
        checkout.require_passing(some)
        with checkout.broken([one]):
            ran = checkout.confirmed(some)
        seconds += ran.seconds
        if ran.failed:
            break
    return {"rule": one.rule, "file": one.file, "found": ran.failed, "seconds": round(seconds, 1)}


def _together(checkout: Checkout, several: Sequence[Mutation], files: Sequence[str]) -> bool:
    """Break several rules at once; returns whether a test fails."""
    tests = files or sorted({file for one in several for file in one.tests})
    checkout.require_passing(tests)
    with checkout.broken(several):
        ran = checkout.confirmed(tests)
    told = f"found by {ran.failed}" if ran.failed else "not found"
    print(f"{len(several)} rules broken at once: {told} ({ran.seconds:.0f} s)")
    return ran.failed is not None


def _key(one: Mutation, wanted: Wanted) -> str:
    """What a result depends on, but for the sources and the tests themselves."""
    return json.dumps([one.file, one.before, one.after, wanted.files or one.tests, wanted.marker])


def _read(path: Path | None) -> dict[str, dict[str, object]]:
    """Results by key; a line that a kill has cut is left out."""
    rows: dict[str, dict[str, object]] = {}
    for line in path.read_text(encoding="utf-8").splitlines() if path is not None and path.is_file() else ():
        try:
            row = json.loads(line)
        except ValueError:
            continue
        rows[row.pop("key")] = row
    return rows


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
