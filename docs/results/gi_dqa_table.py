"""The tables of docs/results/gi-dqa.md from the audits in a folder: gi_dqa_table.py WORK."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path

from pfl_audit.core.results import Check, Metric, read_results
from pfl_audit.inputs import read_json

TITLES = {
    "text": "Question and answer, not given (Donut)",
    "methods": "Methods (Table 1)",
    "priors": "Priors of GI-DQA (Tables 2 and 6)",
    "known": "What is known of question and answer (Table 3)",
    "batch": "Size of the batch (Table 4)",
    "schedulers": "Schedulers of the priors (Table 5)",
    "analytic": "The closed form of LayoutLMv3",
    "layers": "Whose gradients are matched",
    "noise": "Noise on the gradient (Table 8)",
    "stage": "Stage of training (Figure 6)",
    "paper": "The paper's 5,000 iterations",
}
TOKENS = (("queries exact", None, "queries exact"), ("tokens exact", None, "tokens exact"))
_NAME = re.compile(r"^[0-9]+-")
_NUMBER = re.compile(r"^[0-9] ")
"""A number in front of a row's name sorts it."""
COLUMNS = (
    ("PSNR", "private fields", "PSNR, fields (dB)"),
    ("PSNR", "page", "PSNR, page (dB)"),
    ("cosine distance in Fourier space", "private fields", "FFT2D, fields"),
    ("MSE", "private fields", "MSE, fields"),
    ("words exact", "private fields", "words exact"),
    ("words exact, of those readable on the original", "private fields", "of readable"),
    ("fuzz ratio", "private fields", "fuzz ratio"),
)


def main(work: Path) -> None:
    """Print the tables: audits are called ``table__row``; what is about tokens gets a table of its own."""
    tables: dict[tuple[str, bool], list[tuple[str, Check, float]]] = {}
    for folder in sorted((path.parent for path in work.glob("*__*/results.json")), key=_order):
        results = read_results(folder)
        table, row = folder.name.split("__", 1)
        for check in results.checks:
            text = check.id == "inversion.text"
            tables.setdefault((table, text), []).append((_NUMBER.sub("", row), check, results.provenance.seconds))
    for (table, text), rows in tables.items():
        columns = TOKENS if text else COLUMNS
        titles = ["row", "method", "documents", *(title for _, _, title in columns), "seconds"]
        print(f"\n### {TITLES.get(_NAME.sub('', table), table)}\n\n| {' | '.join(titles)} |\n|{' --- |' * len(titles)}")
        for row, check, seconds in rows:
            cells = [_cell(check, name, place) for name, place, _ in columns]
            documents = len(check.tables[0].rows) if check.tables else 0
            method = check.id.split(".")[1].replace("_", "-") if check.status == "ran" else str(check.reason)
            print(f"| {' | '.join([row, method, str(documents), *cells, f'{seconds:.0f}'])} |")


def defences(work: Path) -> None:
    """Print Table 7: what the observer reads where it has the clean template, and where it has a perturbed one."""
    titles = ("template that the observer has", "method", "PSNR, fields (dB)", "words exact")
    print(f"\n### Safe Template (Table 7)\n\n| {' | '.join(titles)} |\n|{' --- |' * len(titles)}")
    for path in sorted(work.glob("defence-*/defence.json")):
        for variant in read_json(path)["variants"]:
            made = f"{variant['strategy']}, {variant['budget']}/255" if "strategy" in variant else "clean"
            for one in variant["checks"]:
                metrics = [Metric.model_validate(metric) for metric in one["metrics"]]
                cells = [_found(metrics, name, "private fields") for name in ("PSNR", "words exact")]
                print(f"| {' | '.join([made, one['id'].split('.')[1].replace('_', '-'), *cells])} |")


def _order(folder: Path) -> list[str | int]:
    """By name, numbers in it by their size."""
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", folder.name)]


def _cell(check: Check, name: str, place: str | None) -> str:
    return _found(check.metrics, name, place)


def _found(metrics: Sequence[Metric], name: str, place: str | None) -> str:
    found = next((one for one in metrics if one.name == name and one.slice.get("place") == place), None)
    if found is None or found.value is None:
        return "–"
    share = name.endswith("exact") or name.startswith("words")
    form = _percent if share else _plain
    between = f" [{form(found.ci[0])}, {form(found.ci[1])}]" if found.ci else ""
    return form(found.value) + between


def _percent(value: float) -> str:
    return f"{100 * value:.1f} %"


def _plain(value: float) -> str:
    return f"{value:.3g}" if value < 1 else f"{value:.1f}"


if __name__ == "__main__":
    main(Path(sys.argv[1]))
    defences(Path(sys.argv[1]))
