"""What a gate decided, in lines for the terminal and for reports."""

from __future__ import annotations

from pfl_audit.core.gate_record import Gate
from pfl_audit.core.gates import GUARANTEE
from pfl_audit.core.numbers import in_format

_ENDS = {"upper": "the upper end of its interval", "lower": "the lower end of its interval", "estimate": "the estimate"}


def gate_lines(gate: Gate) -> list[str]:
    """One line for each requirement that is not met, each gate by number, each waiver, and the baseline."""
    lines = [f"required, and not audited: {name}" for name in gate.lacking]
    for one in gate.numbers:
        shown = "" if one.compared is None else f": {in_format(one.compared, one.format)}"
        if shown and one.check != GUARANTEE:
            shown += f", {_ENDS[one.end]}"
        lines.append(f"gate {one.status}: {one.check}: {one.gate}{shown}{f'; {one.reason}' if one.reason else ''}")
    lines += [f"finding waived: {name}" for name in gate.waived]
    lines += [f"finding no worse than in the baseline: {name}" for name in gate.as_before]
    lines += [
        f"waiver {one.status}: {one.check}{f' ({one.metric})' if one.metric else ''}, until {one.expires}, "
        f"by {one.name}: {one.reason}"
        for one in gate.waivers
    ]
    if gate.baseline is not None:
        other = "" if gate.baseline.same_documents else "; it is about other documents"
        lines.append(f"baseline: {gate.baseline.path} of {gate.baseline.started}{other}")
    return lines
