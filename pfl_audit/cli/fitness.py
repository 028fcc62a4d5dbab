"""Fitness of a corpus, and the power of an audit of it, for the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

from rich.console import Console
from rich.table import Table

from pfl_audit.core.power import ATTACKED, FINDINGS, NEEDED, PowerTable
from pfl_audit.core.redaction import Redactor, visible
from pfl_audit.core.verdict import LEAK_BUDGET
from pfl_audit.fitness.classes import LEVEL, ClassComparison
from pfl_audit.fitness.document_features import KINDS
from pfl_audit.fitness.verdict import Fitness, warnings_of
from pfl_audit.metrics.power import POWER

_MOST: Final = 10
"""Rows of a list that are printed; ``--json`` has all."""
_NAMES: Final = {
    "accuracy": ("attack on membership, AUC {}", "smallest such attack found by {} of audits"),
    "gap": ("memorization, a gap of {}", "smallest such gap found by {} of audits"),
}
_COLUMNS: Final[tuple[Literal["alone"], Literal["with_control"]]] = ("alone", "with_control")


def show_fitness(fitness: Fitness, redactor: Redactor) -> None:
    """Print what was measured of a corpus, and the verdict.

    Args:
        fitness: What was measured, and the verdict on it.
        redactor: Masks names, pages and words.
    """
    console = Console(highlight=False, emoji=False, markup=False)
    found = fitness.found
    if found.classes is not None:
        _show_classes(found.classes, redactor, console)
    if found.groups is not None:
        console.print(f"{found.groups.line}\n  {found.groups.counted}", soft_wrap=True)
    for warning in warnings_of(found):
        console.print(f"warning: {warning}", soft_wrap=True)
    names, values = found.units, found.values
    for title, lines in (
        (f"one {names.unit.name}", [_joined(one.names, redactor) for one in names.spellings if one.same]),
        ("similar names", [_joined(one.names, redactor) for one in names.spellings if not one.same]),
        ("on both sides", [redactor.name(name) for name in names.both_sides]),
        ("one group", [_joined(one, redactor, "group") for one in found.groups.joined] if found.groups else []),
        ("near-duplicates", [" and ".join(map(redactor.page, pair)) for row in found.duplicates for pair in row.pairs]),
        ("without text", [redactor.page(page) for page in values.without_text]),
        (
            "not on the page",
            [f"{visible(key)}, {count} of {values.asked[key]}" for key, count in values.missing.items()],
        ),
    ):
        _list(title, lines, console)
    end = "; ".join(fitness.reasons)
    console.print(visible(f"verdict: {fitness.verdict}{': ' + end if end else ''}", 2000), soft_wrap=True)


def _show_classes(classes: ClassComparison, redactor: Redactor, console: Console) -> None:
    blind = classes.blind
    size = f"{classes.members} members and {classes.others} non-members compared without a model (chance: AUC 0.5):"
    console.print(f"\n{size}", soft_wrap=True)
    console.print(f"  documents alone: AUC {blind.auc.text()}, p {blind.p_value:.4f}", soft_wrap=True)
    for kind, auc in sorted(blind.kinds.items(), key=lambda item: -item[1].value):
        console.print(f"  {kind:>9} alone: AUC {auc.text()}, {KINDS[kind]}", soft_wrap=True)
    for name, one in classes.distances.items():
        text = f"distance of {name}: {one.value:.3f}, random classes {one.chance:.3f}, p {one.p_value:.4f}"
        console.print(f"  {text}", soft_wrap=True)
    console.print(f"  a p of at most {LEVEL:.4f} is significant", soft_wrap=True)
    if not classes.differences:
        return
    table = Table(box=None, pad_edge=False, header_style="dim")
    for column in ("largest differences", "feature", "members", "non-members", "AUC"):
        table.add_column(column, justify="left" if column in ("largest differences", "feature") else "right")
    for feature in classes.differences[:_MOST]:
        name = redactor.value(feature.name, "word") if feature.kind == "words" else visible(feature.name, 60)
        form = ".0%" if feature.kind == "words" else ".6g"
        table.add_row(feature.kind, name, f"{feature.members:{form}}", f"{feature.others:{form}}", f"{feature.auc:.2f}")
    console.print(table)


def _joined(names: Sequence[str], redactor: Redactor, kind: str = "provider") -> str:
    more = [f"{len(names) - _MOST} more"] if len(names) > _MOST else []
    return " and ".join([*(redactor.name(name, kind) for name in names[:_MOST]), *more])


def _list(title: str, lines: Sequence[str], console: Console) -> None:
    """The first rows in an order that says nothing of names."""
    for line in sorted(lines)[:_MOST]:
        console.print(f"  {title}: {line}", soft_wrap=True)
    if len(lines) > _MOST:
        console.print(f"  {title}: {len(lines) - _MOST} more, with --json", soft_wrap=True)


def show_power(power: PowerTable, units: str) -> None:
    """Print the power of an audit of the corpus by the size of the leak.

    Args:
        power: Shares of audits that find a leak.
        units: What the units of privacy are, in the plural.
    """
    console = Console(highlight=False, emoji=False)
    members, others = len(power.members), len(power.others)
    if not power.rows:
        text = f"Too few to audit: {members} member and {others} non-member {units}, {NEEDED} of each are needed"
        console.print(f"\n{text}", soft_wrap=True)
        return
    title = (
        f"Power of an audit of {members} member and {others} non-member {units} ({_per_cent(ATTACKED)} attacked), "
        f"at {_per_cent(LEAK_BUDGET / FINDINGS, 2)} for each of {FINDINGS} findings:"
    )
    console.print(f"\n{title}", soft_wrap=True)
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("share of audits that find", no_wrap=True)
    for column in ("without control", "with control"):
        table.add_column(column, justify="right", no_wrap=True)
    for leak, (name, smallest) in _NAMES.items():
        for row in power.rows:
            if row["leak"] == leak:
                cells = [_per_cent(row[column]) for column in _COLUMNS]
                table.add_row(name.format(_effect(leak, row["effect"])), *cells)
        cells = [_effect(leak, power.smallest[leak][column], 1) for column in _COLUMNS]
        table.add_row(smallest.format(_per_cent(POWER)), *cells, style="bold")
    console.print(table)


def _effect(leak: str, effect: float | None, decimals: int = 0) -> str:
    if effect is None:
        return "none"
    number = f"{100 * effect:.{decimals}f}"
    return f"{number} %" if leak == "accuracy" else f"{number} point{'' if number == '1' else 's'}"


def _per_cent(share: float, decimals: int = 0) -> str:
    return f"{100 * share:.{decimals}f} %"
