"""Earlier schema versions of ``results.json``, brought to the present one.

In version 1 the format of a metric followed from its name, an audit had one data set, and the public model of forms
was in the place of the pre-trained one; reports wrote the
lines about forms and gradients. What does not look like version 1 is left as it is: the schema refuses it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_DECIMAL: Final = ("AUC", "AccAUC", "HamAAC", "improvement factor", "Hamming", "Levenshtein", "Jaro-Winkler",
                   "fuzz ratio", "cosine distance")  # fmt: skip
"""Beginnings of the names of metrics that are not shares."""
_UTILITY: Final = "memorization.generalisation"


def version_of(value: object) -> object:
    """Schema version of a parsed ``results.json``; files without one are distinguished by their data."""
    if not isinstance(value, dict):
        return "2"
    return value.get("schema_version", "1" if "data" in value else "2")


def from_version_1(value: Mapping[str, object]) -> dict[str, object]:
    """The content of a version 1 file in the form of version 2.

    Args:
        value: Parsed JSON; nothing in it needs to be valid.

    Raises:
        ValueError: Facts that reports print of forms or gradients are missing.
    """
    data = value.get("data")
    subject = _subject(data)
    checks = value.get("checks")
    found = {name: item for name, item in value.items() if name != "data"} | {"schema_version": "2"}
    if subject == "forms":
        found["public"] = found.pop("pretrained", None)
    if data is not None:
        found["datasets"] = [
            data | {"subject": subject, "facts": _facts(data, subject)} if isinstance(data, dict) else data
        ]
    if isinstance(checks, list):
        found["checks"] = [_check(check, subject) for check in checks]
    return found


def _subject(data: object) -> str:
    if not isinstance(data, dict):
        return "questions"
    if data.get("format") == "template":
        return "gradients"
    return "forms" if data.get("parts") else "questions"


def _facts(data: Mapping[str, object], subject: str) -> dict[str, str]:
    """Line about the documents, which version 1 left to the report."""
    parts, pages, count = data.get("parts"), data.get("queries"), data.get("documents")
    if subject == "questions" or not isinstance(parts, dict):
        return {}
    try:
        if subject == "forms":
            return {
                "Forms": f"{parts['private']} that the model was trained on (private), {parts['public']} public, "
                f"{parts['validation']} new to both, with {pages} fields; {parts['near_duplicates']} have a "
                f"near-duplicate, {parts['left_out']} were left out for it"
            }
        if not isinstance(pages, int) or not isinstance(count, int) or not count:
            raise ValueError("gradients of no document")
        each = f"{count}, each of {pages // count} filled page(s)"
        return {"Gradients": f"{each}; templates: {parts['templates']}, private fields: {parts['fields']}"}
    except KeyError as error:
        raise ValueError(f"the parts lack {error}") from error


def _check(check: object, subject: str) -> object:
    if not isinstance(check, dict):
        return check
    metrics = check.get("metrics")
    found = check | {"subject": subject}
    if isinstance(metrics, list):
        found["metrics"] = [_metric(metric, check.get("id")) for metric in metrics]
    return found


def _metric(metric: object, check: object) -> object:
    if not isinstance(metric, dict) or not isinstance(name := metric.get("name"), str):
        return metric
    about = metric.get("slice", {})
    target = isinstance(about, dict) and about.get("model", "target") == "target"
    role = None
    if target and name == "balanced accuracy":
        role = "bounded"
    elif target and name in ("ACC", "ANLS") and check == _UTILITY and "model" in about:
        role = "utility"
    return metric | {"format": _format(name), "role": role}


def _format(name: str) -> str:
    """How version 1 printed a metric, by its name."""
    if name.endswith("disclosed"):
        return "integer"
    if name.startswith("exposure"):
        return "bits"
    if name.endswith("gap"):
        return "points"
    if name.startswith("PSNR"):
        return "decibel"
    if name.startswith("MSE"):
        return "integer"
    return "decimal" if name.startswith(_DECIMAL) else "percent"
