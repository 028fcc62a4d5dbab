"""Text of results.json: a check a line, within the limits that a reader has."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from pfl_audit.core import limits
from pfl_audit.core.fields import measure
from pfl_audit.errors import AuditError

if TYPE_CHECKING:
    from pfl_audit.core.results import Check, Results

_FEWEST: Final = 12
"""Points of a line that a file of very many curves keeps."""
_MIB: Final = 1 << 20


def results_text(results: Results) -> str:
    """Results as JSON; the curves of very many checks are thinned further.

    Raises:
        AuditError: It is larger than what ``read_results`` reads.
    """
    value = results.model_dump(mode="json", exclude={"checks"})
    checks = [check.model_dump(mode="json") for check in _within(results.checks)]
    order = list(type(results).model_fields)
    values = measure(value) + sum(measure(check) for check in checks)
    lines = {name: _dumped(part) for name, part in value.items()}
    lines["checks"] = "[\n" + ",\n".join(map(_dumped, checks)) + "\n]" if checks else "[]"
    text = "{\n" + ",\n".join(f'"{name}": {lines[name]}' for name in sorted(lines, key=order.index)) + "\n}\n"
    size = len(text.encode())
    if size > limits.FILE or values > limits.VALUES:
        raise AuditError(
            f"the results of {len(checks)} checks are {values:,} values in {size / _MIB:.0f} MiB, beyond the "
            f"{limits.VALUES:,} in {limits.FILE // _MIB} MiB that a report reads",
            "Audit fewer checks at once (--check); answers that are stored are not asked for again",
        )
    return text


def _within(checks: list[Check]) -> list[Check]:
    """Checks whose curves have no more numbers together than the file has room for."""
    every = [one for check in checks for curve in check.curves for one in curve.series]
    numbers = sum(one.numbers for one in every)
    if numbers <= limits.DRAWN_NUMBERS:
        return checks
    columns = sum(one.numbers // max(1, len(one.x)) for one in every)
    most = max(_FEWEST, limits.DRAWN_NUMBERS // columns)
    return [
        check.model_copy(update={"curves": [curve.thinned(most) for curve in check.curves]}) if check.curves else check
        for check in checks
    ]


def _dumped(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(", ", ": "))
