"""Runs of designs, kept as they end, so that a run that was interrupted goes on; and their table."""

from __future__ import annotations

import csv
import hashlib
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Final

from scipy.stats import binom, binomtest

from pfl_audit.core.verdict import LEAK_BUDGET, WEAK_BUDGET
from pfl_audit.progress import Progress
from tests.house.source import ROOT, product_files

LEVELS: Final = {"leak": LEAK_BUDGET, "weak": WEAK_BUDGET}
"""Largest rates of the level of a finding where nothing leaks; a leak counts as a weak sign, too."""
_AT_LEAST: Final = {"weak": ("weak", "leak")}
_CONFIDENCE: Final = 0.99
"""Chance that a rate at its limit gives no more outcomes than are accepted."""
_CHUNK = 5


@dataclass(frozen=True)
class Design:
    """Audits of one kind, whose truth is known.

    Attributes:
        name: Name in the table and on the command line.
        runs: Number of audits of a full table; 500 tell a rate of 5 % from one of 10 %.
        prepare: Opens what all audits of a process share, and returns a function of the number of an audit that
            returns its outcome, such as the level of the finding.
        limits: Outcome to its largest rate; empty for power, which has none.
        floors: Outcome to its smallest rate, where a power is promised.
    """

    name: str
    runs: int
    prepare: Callable[[], Callable[[int], str]]
    limits: Mapping[str, float]
    floors: Mapping[str, float] = field(default_factory=dict)

    def share(self, outcome: str, found: Counter[str]) -> tuple[int, int]:
        """Number of audits with an outcome, and of all."""
        return sum(found[one] for one in _AT_LEAST.get(outcome, (outcome,))), found.total()

    def missed(self, found: Counter[str]) -> list[str]:
        """Outcomes more frequent, or rarer, than a rate at its limit gives in 99 of 100 tables."""
        often = [name for name, limit in self.limits.items() if _quantile(self, name, found, limit, _CONFIDENCE) < 0]
        rare = [name for name, floor in self.floors.items() if _quantile(self, name, found, floor, 1 - _CONFIDENCE) > 0]
        return often + rare


def _quantile(one: Design, outcome: str, found: Counter[str], rate: float, level: float) -> float:
    """Number of audits that a rate gives at a level, minus that of the audits with the outcome."""
    count, of = one.share(outcome, found)
    return float(binom.ppf(level, of, rate)) - count


def design(
    name: str,
    audit: Callable[[int], str],
    limits: Mapping[str, float] = LEVELS,
    runs: int = 500,
    floors: Mapping[str, float] | None = None,
) -> Design:
    """A design whose audits share nothing."""
    return Design(name, runs, lambda: audit, limits, floors or {})


class Kept:
    """Outcomes of the audits that have ended, a file a design.

    They are those of one state of the product: with other source code the folder is another one.

    Args:
        folder: Folder of all states.
    """

    def __init__(self, folder: Path) -> None:
        digest = hashlib.sha256()
        for name in product_files():
            digest.update((ROOT / name).read_bytes())
        self.folder = folder / digest.hexdigest()[:12]
        self.folder.mkdir(parents=True, exist_ok=True)

    def read(self, name: str) -> dict[int, str]:
        """Number of an audit to its outcome; a line that was cut is none."""
        path = self._path(name)
        lines = path.read_text(encoding="utf-8").split("\n")[:-1] if path.exists() else []
        return {int(number): outcome for number, outcome in csv.reader(lines)}

    def append(self, name: str, outcomes: Mapping[int, str]) -> None:
        """Add outcomes; complete lines are written at once."""
        with self._path(name).open("a", encoding="utf-8") as file:
            file.write("".join(f"{number},{outcome}\n" for number, outcome in outcomes.items()))

    def _path(self, name: str) -> Path:
        return self.folder / ("".join(letter if letter.isalnum() else "-" for letter in name) + ".csv")


def estimate(designs: Sequence[Design], kept: Kept, runs: int | None) -> float:
    """Seconds that one process needs for the audits that are left, by one audit of each design, which is kept."""
    seconds = 0.0
    for one in designs:
        done = kept.read(one.name)
        if left := _left(one, done, runs):
            _audit(one.name, left[:1])  # opens models, and imports
            start = time.monotonic()
            kept.append(one.name, _audit(one.name, left[:1]))
            seconds += (time.monotonic() - start) * (len(left) - 1)
    return seconds


def run(designs: Sequence[Design], kept: Kept, runs: int | None, processes: int, progress: Progress) -> None:
    """Run the audits that are left, in the order of the designs."""
    jobs = [
        (one.name, numbers)
        for one in designs
        for left in [_left(one, kept.read(one.name), runs)]
        for numbers in (left[at : at + _CHUNK] for at in range(0, len(left), _CHUNK))
    ]
    with (
        progress.task("audits", sum(len(numbers) for _, numbers in jobs)) as task,
        ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool,
    ):
        for name, outcomes in _in_order_of_end(pool, jobs):
            kept.append(name, outcomes)
            task.advance(len(outcomes))


def table(designs: Sequence[Design], kept: Kept) -> str:
    """Markdown table of all designs with an audit."""
    lines = ["| design | audits | outcomes | rates (95 % interval) | limit |", "| --- | --- | --- | --- | --- |"]
    for one in designs:
        found = Counter(kept.read(one.name).values())
        if not found:
            continue
        outcomes = ", ".join(f"{name} {count}" for name, count in sorted(found.items()))
        rates = "; ".join(
            _rate(name, *one.share(name, found)) for name in {**one.limits, **one.floors} or sorted(found)
        )
        limits = [f"{name} at most {limit:.0%}" for name, limit in one.limits.items()]
        limits += [f"{name} at least {floor:.0%}" for name, floor in one.floors.items()]
        limits += [f"**missed: {', '.join(one.missed(found))}**"] if one.missed(found) else []
        lines.append(f"| {one.name} | {found.total()} | {outcomes} | {rates} | {', '.join(limits)} |")
    return "\n".join(lines)


def _rate(name: str, count: int, of: int) -> str:
    between = binomtest(count, of).proportion_ci(0.95, "exact")
    return f"{name} {count / of:.1%} [{between.low:.1%}, {between.high:.1%}]"


def _left(one: Design, done: Mapping[int, str], runs: int | None) -> list[int]:
    return [number for number in range(one.runs if runs is None else runs) if number not in done]


def _in_order_of_end(
    pool: ProcessPoolExecutor, jobs: Sequence[tuple[str, Sequence[int]]]
) -> Iterator[tuple[str, dict[int, str]]]:
    waiting: dict[Future[dict[int, str]], str] = {pool.submit(_audit, *job): job[0] for job in jobs}
    try:
        for future in as_completed(waiting):
            yield waiting[future], future.result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _audit(name: str, numbers: Sequence[int]) -> dict[int, str]:
    """Outcomes of some audits of a design, which a process prepares once."""
    audit = _prepared(name)
    return {number: audit(number) for number in numbers}


@cache
def _prepared(name: str) -> Callable[[int], str]:
    from tests.bench.rates.designs import DESIGNS

    return DESIGNS[name].prepare()
