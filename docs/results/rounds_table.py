"""Prints what the messages of each run gave away: rounds_table.py WORK."""

import json
import sys
from pathlib import Path

MEASURES = ("tokens in any order", "coordinates in any order")


def main(work: Path) -> None:
    """One line a run, as Markdown."""
    print("| run | messages | tokens | of others | precision | coordinates | of others | level | causes |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for path in sorted(work.glob("*-audit/results.json")):
        (check,) = json.loads(path.read_text())["checks"]
        if check["status"] != "ran":
            print(
                f"| {path.parent.name.removesuffix('-audit')} | – | – | – | – | – | – | not run | {check['reason']} |"
            )
            continue
        metrics = {metric["name"]: metric for metric in check["metrics"]}
        cells = [path.parent.name.removesuffix("-audit"), str(sum(row[1] for row in check["tables"][0]["rows"]))]
        for measure in MEASURES:
            metric = metrics.get(measure)
            cells += ["–", "–"] if metric is None else [share(metric["value"]), share(metric["chance"])]
            if measure == MEASURES[0]:
                cells.append(share(metrics[f"{measure}, precision"]["value"]) if metric else "–")
        causes = sorted(
            {cause.split(":")[0] for row in check["tables"][0]["rows"] for cause in (row[-1] or "–").split("; ")}
        )
        print(f"| {' | '.join([*cells, check['finding']['level'], ', '.join(causes)])} |")


def share(value: float | None) -> str:
    """As a percentage."""
    return "–" if value is None else f"{100 * value:.1f} %"


if __name__ == "__main__":
    main(Path(sys.argv[1]))
