"""Metrics, tables and curves of membership attacks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import pandas as pd

from pfl_audit.attacks.membership.evaluation import Outcome, enough
from pfl_audit.attacks.membership.rows import ACCESS
from pfl_audit.attacks.membership.specs import documents_spec
from pfl_audit.core.fields import Cell
from pfl_audit.core.metric import build_metric, resampled_over
from pfl_audit.core.results import Check, Curve, Format, Metric, Role, Series, Table
from pfl_audit.documents.units import PROVIDER, Unit
from pfl_audit.fitness.blind import FOLDS, PENALTY, PERMUTATIONS, Blind
from pfl_audit.fitness.document_features import KINDS
from pfl_audit.metrics import ranking
from pfl_audit.metrics.arrays import Bools

FORMATS: Final[dict[str, Format]] = {"AUC": "decimal"}
"""Formats of metrics that are not shares."""


def primary(outcomes: Sequence[Outcome]) -> Outcome:
    """The outcome that the finding rests on: s = 5 where it has providers enough, else the smallest s."""
    by_s = {outcome.s: outcome for outcome in outcomes}
    chosen = by_s.get(5)
    return chosen if chosen is not None and enough(chosen.attacked) else by_s[min(by_s)]


def metrics(outcome: Outcome, model: str, unit: Unit) -> list[Metric]:
    """Every metric of an outcome, with the reason where it cannot be resolved."""
    chances = {"accuracy": outcome.chance, "balanced accuracy": 0.5, "AUC": 0.5}
    return [
        build_metric(
            name,
            outcome.estimates.get(name),
            format=FORMATS.get(name, "percent"),
            n=len(outcome.trials[0].test),
            **resampled_over(unit.many),
            chance=chances.get(name, float(name.split()[2]) / 100 if name.startswith("TPR") else None),
            about={"s": outcome.s, "model": model},
            role=role_of(name, model),
            seeds=len(outcome.trials),
            std=outcome.spread.get(name),
            note=outcome.notes.get(name),
            items=[(one, one) for one in outcome.units],
        )
        for name in (*outcome.estimates, *outcome.notes)
    ]


def role_of(name: str, model: str) -> Role | None:
    """Balanced accuracy on the model under audit is what a privacy guarantee for its unit bounds."""
    return "bounded" if name == "balanced accuracy" and model == "target" else None


def left_out(s: int, members: int, others: int, unit: Unit) -> Metric:
    """The row of a subset that is too small to attack."""
    return build_metric(
        "accuracy",
        None,
        format="percent",
        n=members + others,
        unit=unit.many,
        about={"s": s, "model": "target"},
        note=f"only {members} members and {others} non-members have more than {s} questions",
    )


_FEATURES: Final = (
    "Features: acc and nls, right and similar answers; conf, confidence; delta, less that before training; mem, on "
    "pages without the value; loglik, log-likelihood of the true answers; llr, that less the same before training."
)


def accuracy_table(
    title: str, rows: Mapping[str, Sequence[Outcome]], unit: Unit, missing: Sequence[tuple[str, str]] = ()
) -> Table:
    """Accuracy by attack and s, as the paper prints it, with its interval.

    Args:
        rows: Attack to its outcomes.
        missing: Attacks without one, and why.
    """
    every_s = sorted({outcome.s for outcomes in rows.values() for outcome in outcomes})
    cells: list[list[Cell]] = []
    for outcomes in rows.values():
        row = outcomes[0].row
        by_s = {outcome.s: outcome for outcome in outcomes}
        used = " ".join((*row.columns,))
        accuracies = [_accuracy(by_s[s]) if s in by_s else None for s in every_s]
        cells.append([row.title, used, row.knowledge, *accuracies])
    cells += [[name, reason, None, *(None for _ in every_s)] for name, reason in missing]
    sizes = {outcome.s: outcome for outcomes in rows.values() for outcome in outcomes}
    note = f"Mean ± deviation over the seeds, and the interval over {unit.many}. " + "; ".join(
        f"s = {s}: chance {sizes[s].chance:.1%}, {len(sizes[s].trials[0].test)} {unit.many} attacked" for s in every_s
    ).replace("%", " %")
    known = {outcomes[0].row.access for outcomes in rows.values()}
    sees = "; ".join(f"{key}: {what}" for key, what in ACCESS.items() if key in known)
    note += f". Setting: {sees}; U: knows no {unit.noun} of training, S: is fitted to known ones. {_FEATURES}"
    return Table(
        title=title, columns=["Attack", "Features", "Setting", *(f"s = {s}" for s in every_s)], rows=cells, note=note
    )


def _accuracy(outcome: Outcome) -> str:
    found = outcome.estimates["accuracy"]
    value, spread, low, high = (100 * part for part in (found.value, outcome.spread["accuracy"], found.low, found.high))
    return f"{value:.1f} ± {spread:.1f} [{low:.1f}, {high:.1f}]"


def roc(outcome: Outcome, beside: Mapping[str, Outcome] | None = None, name: str | None = None) -> Curve:
    """The ROC curve of the first seed, and that of others on the same providers, by name.

    Args:
        outcome: Attack that comes first.
        beside: Further attacks by name.
        name: Name of the first; its title if None.
    """
    series = []
    for said, one in {name or outcome.row.title: outcome, **(beside or {})}.items():
        trial = one.trials[0]
        curve = ranking.roc_curves(trial.scores, one.labels[trial.test])
        series.append(Series(name=said, x=curve.fpr[0].round(5).tolist(), y=curve.tpr[0].round(5).tolist()))
    return Curve(
        title=f"ROC at s = {outcome.s} (first seed)",
        kind="roc",
        x_label="non-members called members (FPR)",
        y_label="members called members (TPR)",
        series=series,
    )


def accuracy_curve(outcomes: Sequence[Outcome], unit: Unit) -> Curve:
    """Accuracy against s."""
    ordered = sorted(outcomes, key=lambda outcome: outcome.s)
    found = [outcome.estimates["accuracy"] for outcome in ordered]
    series = [
        Series(
            name=ordered[0].row.title,
            x=[outcome.s for outcome in ordered],
            y=[estimate.value for estimate in found],
            low=[estimate.low for estimate in found],
            high=[estimate.high for estimate in found],
        ),
        Series(name="chance", x=[outcome.s for outcome in ordered], y=[outcome.chance for outcome in ordered]),
    ]
    return Curve(
        title="Accuracy against s",
        kind="line",
        x_label=f"s ({unit.many} with more than s questions)",
        y_label="accuracy",
        series=series,
    )


def scatter(
    table: pd.DataFrame,
    labels: Bools,
    columns: tuple[str, str],
    axes: tuple[str, str],
    unit: Unit,
) -> Curve:
    """Two features of every unit, members and non-members apart, in the order of the points.

    Args:
        table: One row a unit.
        labels: Whether each is a member.
        columns: The features, values 0 to 1.
        axes: Their labels.
    """
    series = []
    for name, value in (("members", True), ("non-members", False)):
        points = table.loc[labels == value, list(columns)].to_numpy(dtype=np.float64)
        points = np.array(sorted(points.round(4).tolist())).reshape(-1, 2)
        series.append(Series(name=name, x=points[:, 0].tolist(), y=points[:, 1].tolist()))
    return Curve(title=f"Features of {unit.many}", kind="scatter", x_label=axes[0], y_label=axes[1], series=series)


def present_blind(blind: Blind, unit: Unit = PROVIDER) -> Check:
    """The check: AUC and balanced accuracy with their intervals, and the AUC of each kind of feature alone.

    It has no finding of its own: the finding of membership is compared with it.
    """
    p_value = f"permutation p {blind.p_value:.4f}, {PERMUTATIONS} labellings, each fitted anew"
    return documents_spec(unit).ran(
        settings={
            "permutations": PERMUTATIONS,
            "penalty": PENALTY,
            "learner": f"kernel ridge regression, {FOLDS} folds of {unit.many}",
        },
        metrics=[
            build_metric(
                name,
                found,
                format=FORMATS.get(name, "percent"),
                n=len(blind.labels),
                **resampled_over(unit.many),
                chance=0.5,
                about={"model": "documents alone"},
                note=note,
                items=[(one, one) for one in blind.units],
            )
            for name, found, note in (("AUC", blind.auc, p_value), ("balanced accuracy", blind.balanced_accuracy, None))
        ],
        tables=[_table(blind, unit)],
    )


def _table(blind: Blind, unit: Unit) -> Table:
    rows: list[list[Cell]] = [
        [kind, text, round(found.value, 3), f"{found.low:.3f} to {found.high:.3f}"]
        for kind, text in KINDS.items()
        if (found := blind.kinds.get(kind)) is not None
    ]
    return Table(
        title="Members and non-members distinguished by one kind of feature alone",
        columns=["Kind", "Features", "AUC", "Interval"],
        rows=rows,
        note=f"Chance is 0.5; below it nothing was learnt. Kinds in which all {unit.nouns} are alike are left out.",
    )
