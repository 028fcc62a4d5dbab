"""Finding, metrics and table of the decision on membership."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from pfl_audit.attacks.membership.basis import CONTRADICTION, Basis
from pfl_audit.attacks.membership.decision import LARGEST_UNSEEN, Decision, Judged
from pfl_audit.attacks.membership.evaluation import Outcome
from pfl_audit.attacks.membership.plain import plain_sentence, rates_of
from pfl_audit.attacks.membership.present import FORMATS, roc, role_of
from pfl_audit.attacks.membership.rows import ACCESS
from pfl_audit.core.fields import Cell
from pfl_audit.core.frequencies import hundredths
from pfl_audit.core.metric import build_metric, resampled_over
from pfl_audit.core.notebook import LEVELS
from pfl_audit.core.power import ENOUGH
from pfl_audit.core.remedies import NO_SCORES, private_training
from pfl_audit.core.results import Curve, Finding, Metric, Table
from pfl_audit.documents.units import DOCUMENT, Unit
from pfl_audit.metrics.arrays import Bools

_CAP = {
    "provider": "Cap the documents that one provider contributes",
    "document": "Remove duplicates and cap the questions about one document",
    "person": "Cap the documents of one person",
}


def remedies(unit: Unit) -> list[str]:
    """What to do against membership inference, most effective first."""
    return [
        private_training(unit.many),
        NO_SCORES,
        f"{_CAP[unit.name]}.",
        f"Stop training before the gap between seen and unseen {unit.many} opens.",
    ]


PERCENT = (".1f", 100.0, " %")
_ALIKE = (
    " This takes for granted that, apart from training, model and control differ alike on pages of both classes, but "
    "for what the documents explain."
)
_NEEDS = {"ZK": "answers", "PK": "scores", "RK": "scores, reference models", "WB": "weights"}


def finding(decision: Decision, basis: Basis, control: str | None) -> Finding:
    """Finding of the decision.

    Args:
        decision: On the primary subset.
        basis: What it is held against.
        control: What the control is, in words, or None.
    """
    strongest, unit = decision.strongest, basis.unit
    outcome = strongest.outcome
    members, others = int(outcome.attacked.sum()), int((~outcome.attacked).sum())
    asked = f" with more than {outcome.s} questions each" if outcome.s else ""
    who = f"Among {members} member and {others} non-member {unit.many}{asked}"
    what = "what" if unit is DOCUMENT else "who"
    attacks = sum(map(len, decision.by_access.values()))
    beside = f", of the control {one.estimates[outcome.metric].text(*PERCENT)}" if (one := strongest.control) else ""
    numbers = (
        f"{outcome.row.title}, with {ACCESS[outcome.row.access]}: {outcome.metric} {strongest.found.text(*PERCENT)}, "
        f"chance 50.0 %{beside} (mean over {len(outcome.trials)} draws of known {unit.many}); in the first draw, which "
        f"is tested, AUC of {_statistic(strongest, basis)} {strongest.difference.text(*PERCENT)}, p "
        f"{strongest.p_value:.4f} by a permutation test of the {unit.many}' labels, adjusted for {attacks} attacks. "
        "The level rests on p, which is one-sided; intervals are two-sided"
    )
    success, false_alarms = rates_of(outcome)
    would = f"an attack needs an AUC of {100 * strongest.smallest:.1f} % to be found in four of five such audits"
    text = {
        "leak": f"{who}, an attack distinguishes {what} was trained on. {numbers}.{'' if basis.drawn else _ALIKE}",
        "weak": f"{who}, there is a sign of membership. {numbers}.",
        "none": f"{who}, no attack distinguishes {what} was trained on ({would}). {numbers}.",
        "unresolved": f"{who}, nothing can be said: {why_unresolved(decision, would, unit)}. {numbers}.",
    }[decision.level]
    return Finding(
        level=decision.level,
        text=f"{text} {_assumed(basis, control)}",
        remedy=" ".join(remedies(unit)),
        remedies=remedies(unit),
        plain=plain_sentence(decision, unit),
        success=success,
        false_alarms=false_alarms,
        metric=outcome.metric,
        slice={"attack": outcome.row.title, "model": "target"},
        smallest_effect=strongest.smallest,
    )


def _statistic(one: Judged, basis: Basis) -> str:
    if basis.drawn:
        return "the score"
    return f"the score less {'that of the control' if one.control else 'its reference'} and what the documents explain"


def why_unresolved(decision: Decision, would: str, unit: Unit) -> str:
    """Why nothing can be said, without the subject of the sentence."""
    attacked = decision.strongest.outcome.attacked
    if min(int(attacked.sum()), int((~attacked).sum())) < ENOUGH:
        return f"{ENOUGH} attacked {unit.many} of each class are needed"
    return decision.strongest.refusal or f"{would}, more than the {100 * LARGEST_UNSEEN:.0f} % allowed"


def _assumed(basis: Basis, control: str | None) -> str:
    """Assumptions of the conclusion."""
    if basis.drawn:
        drawn = "each by itself" if basis.declared == "units" else "as whole groups"
        return f"The user declares that the classes were drawn at random, {drawn} (--classes-random {basis.declared})."
    contradicted = f"{CONTRADICTION[:1].upper()}{CONTRADICTION[1:]}. " if basis.declared else ""
    if basis.subtracted is None:
        return f"{contradicted}No control was run."
    read = basis.readings[basis.subtracted]
    return (
        f"{contradicted}The control is {control}. On {read.questions} questions about {read.units} other non-member "
        f"{basis.unit.many} its ANLS is {100 * read.control:.0f} %, the model's {100 * read.target:.0f} %. The "
        f"documents alone do not tell the class of {basis.relabelling.movable:.0f} of the {len(basis.labels)} attacked."
    )


def metrics(decision: Decision, control: str, unit: Unit) -> list[Metric]:
    """Metrics that the finding rests on, and the control's."""
    strongest = decision.strongest
    name, title = strongest.outcome.metric, strongest.outcome.row.title
    shown = {"target": (name, FORMATS.get(name, "percent"), strongest.found)}
    if strongest.control:
        shown[control] = (name, FORMATS.get(name, "percent"), strongest.control.estimates[name])
    shown["target, compared"] = ("tested AUC", "decimal", strongest.difference)
    return [
        build_metric(
            called,
            found,
            format=form,
            n=len(strongest.outcome.attacked),
            **resampled_over(unit.many),
            chance=0.5,
            about={"attack": title, "model": model},
            role=role_of(called, model),
            items=[(one, one) for one in strongest.outcome.units],
        )
        for model, (called, form, found) in shown.items()
    ]


def by_access_roc(decision: Decision, control: Mapping[str, Outcome]) -> Curve:
    """ROC curves of the strongest attack of each level of access, and of the control.

    Args:
        decision: Judged attacks.
        control: Attack to the same on the control; that of the attack that the finding rests on is drawn.
    """
    first, *others = (judged[0].outcome for judged in decision.by_access.values())
    strongest = decision.strongest.outcome
    beside = {_said(one): one for one in others}
    if strongest.row.id in control:
        beside["the strongest on the control"] = control[strongest.row.id]
    return roc(first, beside, name=_said(first))


def _said(outcome: Outcome) -> str:
    return f"{_NEEDS[outcome.row.access]}: {outcome.row.title}"


def access_table(
    decision: Decision,
    control: Mapping[str, Outcome],
    accuracies: Mapping[str, pd.Series[float]],
    labels: Bools,
    unit: Unit,
) -> Table:
    """Every attack beside the same on the control, by what the attacker sees; those that decide come first.

    Args:
        decision: On the primary subset.
        control: Attack to the same on the control.
        accuracies: Model to its share of right answers about each unit.
        labels: Membership of the units, bool (n,).
        unit: Unit of privacy.
    """
    rows: list[list[Cell]] = [
        [
            *_described(one.outcome, LEVELS[one.level].lower(), control),
            one.difference.text(".3f"),
            f"{one.p_value:.4f}",
            f"{100 * one.smallest:.1f} %",
        ]
        for judged in decision.by_access.values()
        for one in judged
    ]
    rows += [[*_described(one, None, control), None, None, None] for one in decision.untested]
    columns = ["Needs", "Attack", "Level", "Found, at false alarms, of 100", "Model", "Control",
               "Tested AUC", "p", "Would have been found"]  # fmt: skip
    alone, jointly = decision.critical
    note = (
        "The tested AUC is that of the score, minus the control's where one is subtracted, and without what the "
        f"documents explain. Intervals resample {unit.many}; p is of a permutation test of the labels, adjusted "
        "for the attacks that were named beforehand (max-T): their gap must be "
        f"{jointly:.1f} standard deviations, that of one alone {alone:.1f}. Attacks without p decide nothing. Scores "
        "are confidences and losses, of the model and from before training; BA is balanced accuracy. Right answers on "
        "pages of members and of non-members: "
    )
    means = {name: found.groupby(labels).mean() for name, found in accuracies.items()}
    said = (f"{name} {100 * mean[True]:.1f} and {100 * mean[False]:.1f} %" for name, mean in means.items())
    note = f"{note}{'; '.join(said)}."
    return Table(title="Attacks by what they need, those that decide first", columns=columns, rows=rows, note=note)


def _described(one: Outcome, level: str | None, control: Mapping[str, Outcome]) -> list[Cell]:
    found = " at ".join(map(hundredths, rates_of(one)))
    other = control.get(one.row.id)
    return [_NEEDS[one.row.access], one.row.title, level, found, _metric(one), _metric(other) if other else None]


def _metric(one: Outcome) -> str:
    return f"{one.metric.replace('balanced accuracy', 'BA')} {one.estimates[one.metric].text(*PERCENT)}"
