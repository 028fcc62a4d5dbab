"""The tables of cdmi-fcc-adbuy.md from what cdmi.sh made: python docs/results/cdmi_table.py build/cdmi [AUDIT ...]."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

from pfl_audit.core.results import Metric, Results, read_results

GUESSES = (1, 8, 64)
PRIVATE, NEW = "private forms", "new forms"
ATTACK, PUBLIC = "the attack", "public knowledge alone"
HEADS = ("encoder", "task", "accuracy", "epoch", "fields", "secrets", "forms", "guessed by")


def main(work: Path, *chosen: str) -> None:
    """Print secrets put back by number of guesses, then what the paper's tables have."""
    names = [f"{task}-{backbone}" for backbone in ("layoutlm", "bros") for task in ("mlm", "ee-bio", "ee-spade", "el")]
    names = list(chosen) or names
    found = {name: _read(work / "audits" / name) for name in names}
    print(f"| {' | '.join([*HEADS, *(f'within {k}' for k in GUESSES), 'finding'])} |\n|{' --- |' * 12}")
    for name, results in found.items():
        for row in _secrets(work, name, results):
            print(f"| {' | '.join(row)} |")
    scores = ("improvement factor", "AccAUC", "HamAAC", "AccAt 5 %", "AccAt 100 %")
    print(f"\n| encoder | task | IpF, new forms | {' | '.join(scores)} | one-shot/multi-shot |\n|{' --- |' * 9}")
    for name, results in found.items():
        print(f"| {' | '.join(_scores(name, results, scores))} |")


def _read(folder: Path) -> Results | None:
    return read_results(folder) if (folder / "results.json").is_file() else None


def _secrets(work: Path, name: str, results: Results | None) -> Iterator[list[str]]:
    task, backbone = name.rsplit("-", 1)
    if results is None:
        yield [backbone, task, *["not run"] * 10]
        return
    record = json.loads((work / name / "best-precision" / "training.json").read_text(encoding="utf-8"))
    tables = {table.title: table.rows for check in results.checks for table in check.tables}
    numbers = {(row[0], row[1]): row[3] for row in tables["Put back within k guesses"]}
    counts = [str(numbers.get((what, PRIVATE), 0)) for what in ("all fields", "secrets")]
    own = [backbone, task, f"{record['accuracy']:.3f}", str(record["epoch"]), *counts]
    level = results.checks[0].finding.level if results.checks[0].finding else results.checks[0].status
    for forms, by in ((PRIVATE, ATTACK), (PRIVATE, PUBLIC), (NEW, ATTACK)):
        cells = [cell(metric(results, "secrets put back", forms, by, guesses=k), percent=True) for k in GUESSES]
        yield [*own, forms, by, *cells, level]
        own, level = [""] * 6, ""


def _scores(name: str, results: Results | None, scores: tuple[str, ...]) -> list[str]:
    task, backbone = name.rsplit("-", 1)
    if results is None:
        return [backbone, task, *["not run"] * 7]
    cells = [cell(metric(results, score, PRIVATE, ATTACK)) for score in scores]
    levels = "/".join(check.finding.level if check.finding else check.status for check in results.checks[1:])
    return [backbone, task, cell(metric(results, "improvement factor", NEW, ATTACK)), *cells, levels]


def metric(results: Results, name: str, forms: str, by: str, **about: int) -> Metric | None:
    """The target's number of that name, about those fields."""
    wanted = {"model": "target", "fields": forms, "with": by, **about}
    every = (metric for check in results.checks for metric in check.metrics)
    return next((one for one in every if (one.name, one.slice) == (name, wanted)), None)


def cell(found: Metric | None, *, percent: bool = False) -> str:
    """Value and interval."""
    if found is None or found.value is None or found.ci is None:
        return "–"
    if percent:
        return f"{100 * found.value:.1f} % [{100 * found.ci[0]:.1f}, {100 * found.ci[1]:.1f}]"
    return f"{found.value:.3f} [{found.ci[0]:.3f}, {found.ci[1]:.3f}]"


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
