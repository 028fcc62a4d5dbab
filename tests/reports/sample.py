"""A full audit in small: membership with two levels of access, memorization, and classes that did not run."""

from __future__ import annotations

from pfl_audit.core.results import Check, Curve, Evidence, Finding, Results, Series, Table
from tests.reports.test_html import check, metric, results

MEMBERSHIP = "Can an attacker tell whose documents the model was trained on?"
MEMORY = "What does the model remember of its training documents?"


def review(access: str, obtains: str, *classes: str, question: str = MEMBERSHIP) -> dict[str, object]:
    return {
        "question": question, "classes": list(classes), "access": access, "obtains": obtains,
        "nist": ["membership inference"], "atlas": ["AML.T0024.000"],
    }  # fmt: skip


def found(level: str = "leak", **changes: object) -> Finding:
    values: dict[str, object] = {
        "level": level,
        "text": "AUC 81.2 %.",
        "remedy": "Train privately. Give no scores.",
        "remedies": ["Train privately.", "Give no scores."],
        "plain": "Of 100 companies whose documents were in training, an outsider picks out 79.",
        "success": 0.79,
        "false_alarms": 0.01,
        "metric": "accuracy",
        "slice": {"attack": "APK", "model": "target"},
    }
    return Finding(**{**values, **changes})  # type: ignore[arg-type]


def roc() -> Curve:
    ends = {"x": [0.0, 0.01, 0.1, 1.0], "y": [0.1, 0.25, 0.5, 1.0]}
    names = ("answers: AZK", "scores: APK", "the strongest on the control")
    return Curve(
        title="ROC", kind="roc", x_label="non-members called members", y_label="members called members",
        series=[Series(name=name, **ends) for name in names],
    )  # fmt: skip


def whole(**changes: object) -> Check:
    """A finding over several attacks."""
    table = Table(
        title="Attacks", columns=["Needs", "Attack", "Found"], rows=[["answers", "AZK", 12], ["scores", "APK", 79]]
    )
    values = {
        "review": review("scores", "membership", "attribute or membership inference"),
        "finding": found(),
        "tables": [table],
        "curves": [roc()],
        "evidence": [],
    }
    return check("membership.provider", "Provider membership", **{**values, **changes})


def part() -> Check:
    """One of its attacks."""
    line = Curve(
        title="Accuracy against s", kind="line", x_label="s", y_label="accuracy",
        series=[Series(name="APK", x=[0, 5], y=[0.6, 0.7], low=[0.5, 0.6], high=[0.7, 0.8])],
    )  # fmt: skip
    return check(
        "membership.apk", "APK", part_of="membership.provider", finding=None, tables=[], evidence=[],
        review=review("scores", "membership", "attribute or membership inference"), curves=[line],
        metrics=[metric(), metric("AUC", format="decimal")],
    )  # fmt: skip


def memory() -> Check:
    """A finding of its own, with a document that shows it."""
    return check(
        "memorization.tax_number", "Memorization of tax numbers", curves=[], tables=[],
        review=review("answers", "values", "regurgitation of training data", question=MEMORY),
        finding=found("weak", plain="A sign of memory.", success=0.2, remedies=["Train privately.", "Mask values."]),
        evidence=[Evidence(title="The page", facts={"answer": "•••"}, picture="evidence/page.jpg")],
    )  # fmt: skip


def skipped() -> Check:
    """A check that lacks its inputs."""
    return check(
        "reconstruction.one_shot", "Reconstruction", status="skipped", reason="needs forms; the audit has answers",
        review=review("weights", "values", "reconstruction"), finding=None,
    )  # fmt: skip


def full(**changes: object) -> Results:
    """All of them."""
    return results(whole(), part(), memory(), skipped()).model_copy(update=changes)
