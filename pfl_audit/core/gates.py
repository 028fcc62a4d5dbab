"""Gates by number, ``membership.* : tpr_at_1_fpr <= 2 %``: parsed, held against the metrics of an audit, printed."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Final, Literal

from pfl_audit.core.numbers import in_format
from pfl_audit.core.schema import Check, Format, Gate, LimitResult, LimitStatus, Metric
from pfl_audit.errors import UsageError
from pfl_audit.privacy.guarantee import GuaranteeReview
from pfl_audit.privacy.units import unit_words

GUARANTEE: Final = "guarantee"
"""In the place of a check: the privacy guarantee of the model's training record."""
_GUARANTEED: Final = ("epsilon", "delta")
_GATE = re.compile(
    r"(?:(?P<check>[\w.*?\[\]-]{1,200}?)\s*:\s*|guarantee\.)(?P<metric>[^:<>=]{1,200}?)\s*(?P<sign><=|>=|<|>)\s*"
    r"(?P<value>[+-]?(?:\d{1,15}(?:\.\d{0,15})?|\.\d{1,15})(?:e[+-]?\d{1,3})?)\s*(?P<unit>%|points?|bits|dB)?"
    r"\s*(?P<estimate>on\s+estimate)?",
    re.IGNORECASE,
)
_UNITS: Final[Mapping[str, tuple[float, tuple[Format, ...]]]] = {
    "": (1.0, ("number", "decimal", "integer")),
    "%": (0.01, ("percent",)),
    "points": (0.01, ("points",)),
    "bits": (1.0, ("bits",)),
    "db": (1.0, ("decibel",)),
}
"""Unit to its size and the formats of metrics that have it."""
_HOLDS: Final[Mapping[str, Callable[[float, float], bool]]] = {
    "<=": lambda value, limit: value <= limit,
    "<": lambda value, limit: value < limit,
    ">=": lambda value, limit: value >= limit,
    ">": lambda value, limit: value > limit,
}
_STATUSES: Final[tuple[LimitStatus, ...]] = ("passed", "as before", "waived", "not audited", "failed")
"""From the most favourable."""
_ENDS: Final = {
    "upper": "the upper end of its interval",
    "lower": "the lower end of its interval",
    "estimate": "the estimate",
}
_TARGET: Final = "target"
_REMEDY = "Write CHECK : METRIC <= NUMBER UNIT, such as 'membership.* : tpr_at_1_fpr <= 2 %'"


@dataclass(frozen=True)
class Limit:
    """A gate by number.

    Attributes:
        text: As the user wrote it.
        check: Id of a check, name of an attack, pattern with ``*``, or ``guarantee``.
        metric: Name of a metric in small letters and underscores, or its last words.
        sign: Comparison that has to hold.
        value: Limit in the scale of the metrics: a share where it is given in percent or points.
        unit: Unit in small letters, or nothing.
        estimate: Whether the value is compared, in place of the less favourable end of its interval.
        expected: Ids of the checks that have to be audited for it.
    """

    text: str
    check: str
    metric: str
    sign: Literal["<=", "<", ">=", ">"]
    value: float
    unit: str = ""
    estimate: bool = False
    expected: frozenset[str] = field(default=frozenset(), compare=False)

    @property
    def end(self) -> Literal["upper", "lower", "estimate"]:
        """Which number of a metric is compared."""
        if self.estimate:
            return "estimate"
        return "upper" if self.sign in ("<=", "<") else "lower"

    def covers(self, check: str) -> bool:
        """Whether the gate is about a check."""
        return matches(self.check, check)

    def holds(self, value: float) -> bool:
        """Whether a number keeps the limit."""
        return _HOLDS[self.sign](value, self.value)


def matches(pattern: str, check: str) -> bool:
    """Whether an id of a check is named by itself, by its attack, or by a pattern with ``*``."""
    return check == pattern or check.split(".")[0] == pattern or fnmatchcase(check, pattern)


def parse_limit(text: str) -> Limit:
    """A gate as the user wrote it.

    Raises:
        UsageError: It has another form.
    """
    found = _GATE.fullmatch(text.strip())
    if found is None or not text.isprintable():
        raise UsageError(f"the gate '{text:.100}' cannot be read", _REMEDY)
    unit = (found["unit"] or "").lower()
    unit = "points" if unit == "point" else unit
    check = (found["check"] or GUARANTEE).lower()
    limit = Limit(
        text=" ".join(text.split()),
        check=check,
        metric=slug(found["metric"]),
        sign=found["sign"],  # type: ignore[arg-type] # one of the four by the pattern
        value=float(found["value"]) * _UNITS[unit][0],
        unit=unit,
        estimate=found["estimate"] is not None,
    )
    if not limit.metric:
        raise UsageError(f"the gate '{text:.100}' names no metric", _REMEDY)
    if not math.isfinite(limit.value):
        raise UsageError(f"the gate '{text:.100}' has no finite limit", _REMEDY)
    if check == GUARANTEE and (limit.metric not in _GUARANTEED or unit or limit.sign not in ("<=", "<")):
        raise UsageError(
            f"the gate '{text:.100}' is none of a guarantee", "Write guarantee.epsilon <= 8, or guarantee.delta"
        )
    return limit


def slug(name: str) -> str:
    """Name of a metric as a gate writes it: "TPR at 1 % FPR" is ``tpr_at_1_fpr``."""
    return re.sub(r"[^0-9a-z]+", "_", name.lower()).strip("_")


def hold(limit: Limit, checks: Sequence[Check]) -> list[LimitResult]:
    """What a gate says of every metric that it is about.

    Of a check, the metric of the finding is compared where it has the name, else every metric of the model under audit
    that has. A check of a pattern without such a metric is passed over.

    Args:
        limit: The gate; not of the guarantee.
        checks: All of the audit.

    Returns:
        One result a metric; one for the pattern where no check has the metric.
    """
    results: list[LimitResult] = []
    for check in checks:
        if not limit.covers(check.id):
            continue
        if check.status != "ran":
            if check.id in limit.expected:
                results.append(_result(limit, check.id, "not audited", reason=f"{check.status}: {check.reason or ''}"))
        else:
            results += [_compared(limit, check, metric) for metric in metrics_of(check, limit.metric)]
    if results:
        return results
    named = sorted({slug(one.name) for check in checks if limit.covers(check.id) for one in check.metrics})
    reason = f"no number '{limit.metric}'; there are: {', '.join(named[:20]) or 'none'}"
    return [_result(limit, limit.check, "not audited", reason=reason)]


def least_favourable(results: Sequence[LimitResult]) -> list[LimitResult]:
    """Of the results of each gate on one check the least favourable, in their order."""
    worst: dict[tuple[str, str], LimitResult] = {}
    for result in results:
        key = result.gate, result.check
        worst[key] = max(worst.get(key, result), result, key=_order)
    return list(worst.values())


def metrics_of(check: Check, name: str) -> list[Metric]:
    """Metrics of the model under audit that have a name, or that end with it: the finding's alone if it is one."""
    found = [
        one for one in check.metrics if _named(slug(one.name), name) and one.slice.get("model", _TARGET) == _TARGET
    ]
    lead = check.finding
    first = [one for one in found if lead is not None and (one.name, one.slice) == (lead.metric, lead.slice)]
    exact = [one for one in found if slug(one.name) == name]
    return first or exact or found


def hold_guarantee(limit: Limit, review: GuaranteeReview | None, units: Collection[str] = ()) -> LimitResult:
    """What a gate says of the privacy guarantee: the effective epsilon, over all runs on the same data.

    Args:
        limit: The gate.
        review: Review of the guarantee with what attacks measured; None where the model states none.
        units: Units of the audit, plural: what a document is promised passes no gate of an audit of providers.
    """
    if review is None or review.claim is None:
        return _result(limit, GUARANTEE, "not audited", reason="the model states no privacy guarantee that can be read")
    if review.worth == "contradicted":
        # Without a number to compare: a baseline with the same epsilon excuses no false guarantee.
        return _result(limit, GUARANTEE, "failed", metric=limit.metric, reason=f"the guarantee is false: {review.text}")
    if review.worth in ("in doubt", "unexplained"):
        return _result(limit, GUARANTEE, "not audited", reason=f"the guarantee is {review.worth}: {review.text}")
    if review.worth == "unknown" or review.epsilon is None:
        return _result(limit, GUARANTEE, "not audited", reason=f"the guarantee cannot be checked: {review.text}")
    unit = review.claim.unit.casefold()
    if unit_words(unit).coarser and f"{unit}s" not in units:
        reason = f"the guarantee is for a {unit}, and this is no audit of {unit}s"
        return _result(limit, GUARANTEE, "not audited", reason=reason)
    value = guaranteed(review, limit.metric)
    status: LimitStatus = "passed" if limit.holds(value) else "failed"
    return _result(limit, GUARANTEE, status, compared=value, metric=limit.metric)


def guaranteed(review: GuaranteeReview, name: str) -> float:
    """Effective epsilon, or delta, of a guarantee that can be checked; with the runs before it where it names them."""
    claim = review.claim
    if claim is None or review.epsilon is None:
        raise ValueError("there is no guarantee")
    over = claim.composed
    if name == "delta":
        return max(claim.delta, over.delta if over else 0.0)
    return max(claim.epsilon, review.epsilon, over.epsilon if over else 0.0)


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
        other = {
            True: "",
            False: "; it is about other documents",
            None: "; without its private folder: cannot tell whether it is the same corpus",
        }[gate.baseline.same_documents]
        lines.append(f"baseline: {gate.baseline.path} of {gate.baseline.started}{other}")
    return lines


def _compared(limit: Limit, check: Check, metric: Metric) -> LimitResult:
    about = {"metric": metric.name, "slice": metric.slice, "format": metric.format}
    if metric.format not in _UNITS[limit.unit][1]:
        unit = next((unit or "no unit" for unit, (_, formats) in _UNITS.items() if metric.format in formats), "")
        return _result(limit, check.id, "not audited", reason=f"the number has the unit: {unit}", **about)
    if metric.value is None:
        return _result(limit, check.id, "not audited", reason=metric.note or "the number is not resolved", **about)
    if not limit.estimate and metric.ci is None:
        reason = "the number has no interval; write 'on estimate' to compare the value"
        return _result(limit, check.id, "not audited", reason=reason, **about)
    value = metric.value
    if metric.ci is not None and not limit.estimate:
        value = metric.ci[1] if limit.end == "upper" else metric.ci[0]
    if not limit.holds(value):
        return _result(limit, check.id, "failed", compared=value, **about)
    if check.finding is not None and check.finding.level == "unresolved":
        reason = "the finding is unresolved"
        return _result(limit, check.id, "not audited", compared=value, reason=reason, **about)
    return _result(limit, check.id, "passed", compared=value, **about)


def _result(limit: Limit, check: str, status: LimitStatus, **parts: object) -> LimitResult:
    return LimitResult.model_validate(
        {"gate": limit.text, "check": check, "status": status, "end": limit.end, "limit": limit.value, **parts}
    )


def _order(result: LimitResult) -> tuple[int, float]:
    """The less favourable, the greater: by the status, then by the number."""
    away = 0.0 if result.compared is None else result.compared - result.limit
    return _STATUSES.index(result.status), away if result.end != "lower" else -away


def _named(name: str, wanted: str) -> bool:
    return name == wanted or name.endswith(f"_{wanted}")
