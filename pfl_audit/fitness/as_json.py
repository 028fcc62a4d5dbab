"""What was measured of a corpus, as JSON, with names, pages and words masked."""

from __future__ import annotations

from pfl_audit.core.redaction import Redactor
from pfl_audit.fitness.check import GROUPS, Findings
from pfl_audit.fitness.classes import BUDGET, LEVEL, ClassComparison
from pfl_audit.metrics.intervals import Estimate


def as_json(found: Findings, redactor: Redactor) -> dict[str, object]:
    """Everything that was measured.

    Args:
        found: What was measured.
        redactor: Masks names, pages and words.
    """
    names, values = found.units, found.values
    return {
        "unit": names.unit.name,
        "classes": None if found.classes is None else _classes(found.classes, redactor),
        "near_duplicates": [
            {
                "group": GROUPS[row.group],
                "among": GROUPS[row.among],
                "pages": row.pages,
                "with_near_duplicate": len(row.pairs),
                "pairs": sorted([redactor.page(one), redactor.page(other)] for one, other in row.pairs),
            }
            for row in found.duplicates
        ],
        "spellings": [
            {"names": sorted(redactor.name(name) for name in one.names), "same": one.same} for one in names.spellings
        ],
        "providers_on_both_sides": sorted(map(redactor.name, names.both_sides)),
        "non_members_with_training_pages": sorted(map(redactor.name, names.trained_others)),
        "members_without_training_pages": sorted(map(redactor.name, names.untrained_members)),
        "pages_without_text": sorted(map(redactor.page, values.without_text)),
        "answers_not_on_page": {
            key: {"questions": asked, "missing": values.missing.get(key, 0)} for key, asked in values.asked.items()
        },
    }


def _classes(classes: ClassComparison, redactor: Redactor) -> dict[str, object]:
    return {
        "members": classes.members,
        "non_members": classes.others,
        "budget": BUDGET,
        "level": LEVEL,
        "significant": list(classes.significant),
        "baseline": {
            "auc": _interval(classes.blind.auc),
            "balanced_accuracy": _interval(classes.blind.balanced_accuracy),
            "p_value": classes.blind.p_value,
            "kinds": {kind: _interval(auc) for kind, auc in classes.blind.kinds.items()},
        },
        "distances": {
            name: {"value": one.value, "chance": one.chance, "p_value": one.p_value}
            for name, one in classes.distances.items()
        },
        "differences": [
            {
                "kind": one.kind,
                "feature": redactor.value(one.name, "word") if one.kind == "words" else one.name,
                "members": _number(one.members),
                "non_members": _number(one.others),
                "auc": one.auc,
                "p_value": one.p_value,
            }
            for one in classes.differences
        ],
    }


def _interval(found: Estimate) -> dict[str, float]:
    return {"value": found.value, "low": found.low, "high": found.high}


def _number(value: float) -> float | None:
    """None for NaN: no provider of the class has the feature."""
    return value if value == value else None
