"""Every check of an audit as tables: python docs/results/audit_table.py RUN.

First a line a finding; then a line an attack on provider membership, on the companies that the finding rests on, and
beside each how well the audited model and the control answer ordinary questions about members and about others, since
an attack on a model that reads neither proves nothing. Checks that did not run are left out.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from pfl_audit.core.results import Check, Metric, Results, read_results

SCORES = (
    "answers-g4", "likelihood-ratio", "likelihood-ratio-g4", "loss-residual", "loss-residual-g4", "windows",
    "hard-tokens", "likelihood-ratio-out", "likelihood-ratio-out-g4", "lira", "rmia",
)  # fmt: skip
"""Attacks that rank companies: their headline is the AUC, that of the others the balanced accuracy."""
MODELS = ("target", "control")
BLIND = "membership.blind"


def find(check: Check, name: str, slice_: dict[str, object]) -> Metric | None:
    """The number of that name and slice, or None."""
    return next((one for one in check.metrics if one.name == name and one.slice == slice_), None)


def cell(found: Metric | None) -> str:
    """Value and interval; shares in per cent."""
    if found is None or found.value is None:
        return "–"
    if found.format == "integer":
        return f"{found.value:.0f}"
    share = "AUC" not in found.name and "exposure" not in found.name
    unit, digits = (100, 1) if share else (1, 3)
    interval = f" [{unit * found.ci[0]:.{digits}f}, {unit * found.ci[1]:.{digits}f}]" if found.ci else ""
    return f"{unit * found.value:.{digits}f}{' %' * share}{interval}"


def reading(results: Results) -> str:
    """Accuracy on members and others, of the audited model and of the control."""
    check = next(one for one in results.checks if one.id == "memorization.generalisation")
    shares = []
    for model in MODELS:
        pair = (
            find(check, f"ACC {side}", {"pages": "all pages", "model": model}) for side in ("members", "non-members")
        )
        shares.append(" / ".join("–" if one is None or one.value is None else f"{100 * one.value:.1f}" for one in pair))
    return " | ".join(shares)


def findings(results: Results) -> Iterator[list[str]]:
    """A row a finding: check, level, number, how far it is above the control's, smallest effect that would be found."""
    yield ["check", "finding", "number", "target", "above the control", "detectable from"]
    for check in results.checks:
        finding = check.finding
        if check.part_of or finding is None:
            continue
        name, least = finding.metric or "–", finding.smallest_effect
        apart = {**finding.slice, "model": "target minus control"}
        over = find(check, name, apart) or find(check, f"{name} gap", apart)
        row = [check.id, finding.level, name, cell(find(check, name, dict(finding.slice))), cell(over)]
        yield [*row, "–" if least is None or finding.level in ("leak", "weak") else f"{least:.3f}"]


def attacks(results: Results) -> Iterator[list[str]]:
    """A row an attack on provider membership."""
    accuracy = reading(results).split(" | ")
    yield ["attack", "number", *MODELS, "TPR at 3 % FPR", "accuracy, members / others", "of the control"]
    for check in results.checks:
        if not check.part_of or check.status != "ran":
            continue
        name = "AUC" if check.id.removeprefix("membership.") in SCORES else "balanced accuracy"
        if check.id == BLIND:
            yield [check.id, name, cell(find(check, name, {"model": "documents alone"})), "–", "–", "–", "–"]
            continue
        s = check.settings.get("decided at s")
        numbers = [cell(find(check, name, {"s": s, "model": model})) for model in MODELS]
        yield [check.id, name, *numbers, cell(find(check, "TPR at 3 % FPR", {"s": s, "model": "target"})), *accuracy]


def markdown(rows: Iterable[list[str]]) -> str:
    """As a table whose first row is the head."""
    head, *others = rows
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *others))


if __name__ == "__main__":
    audit = read_results(Path(sys.argv[1]))
    print(markdown(findings(audit)), markdown(attacks(audit)), sep="\n\n")
