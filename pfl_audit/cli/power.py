"""Power table of a corpus for the terminal."""

from __future__ import annotations

from typing import Final, Literal

from rich.console import Console
from rich.table import Table

from pfl_audit.core.power import ATTACKED, FINDINGS, NEEDED, PowerTable
from pfl_audit.core.verdict import LEAK_BUDGET
from pfl_audit.metrics.power import POWER

_NAMES: Final = {
    "accuracy": ("attack on membership, {} right", "smallest such attack found by {} of audits"),
    "gap": ("memorization, a gap of {}", "smallest such gap found by {} of audits"),
}
_COLUMNS: Final[tuple[Literal["alone"], Literal["with_control"]]] = ("alone", "with_control")


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
