"""Finding, metrics and table of the decision on membership."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from pfl_audit.attacks.membership.decision import LARGEST_UNSEEN, Compared, Decision, Judged
from pfl_audit.attacks.membership.evaluation import ENOUGH, Outcome
from pfl_audit.attacks.membership.plain import plain_sentence, rates_of
from pfl_audit.attacks.membership.present import FORMATS, roc, role_of
from pfl_audit.attacks.membership.rows import ACCESS
from pfl_audit.core.fields import Cell
from pfl_audit.core.frequencies import hundredths
from pfl_audit.core.metric import build_metric, resampled_over
from pfl_audit.core.remedies import NO_SCORES, private_training
from pfl_audit.core.results import Curve, Finding, Metric, SliceValue, Table
from pfl_audit.documents.units import DOCUMENT, Unit
from pfl_audit.metrics.arrays import Bools
from pfl_audit.metrics.intervals import Estimate

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
_LEVELS = {"leak": "leak", "weak": "weak sign", "none": "no evidence", "unresolved": "unresolved"}
_SHORT = {"balanced accuracy": "BA"}
_NEEDS = {"ZK": "answers", "PK": "scores", "RK": "scores, reference models", "WB": "weights"}
_BESIDE = {"control": "the control", "documents": "the documents alone"}


def finding(decision: Decision, control: str | None, unit: Unit, *, trusted: bool) -> Finding:
    """Finding of the decision.

    Args:
        decision: On the primary subset.
        control: What the control is, or None.
        unit: Unit of privacy.
        trusted: As ``decide_membership`` takes it.
    """
    strongest = decision.strongest
    outcome = strongest.outcome
    members, others = int(outcome.attacked.sum()), int((~outcome.attacked).sum())
    asked = f" with more than {outcome.s} questions each" if outcome.s else ""
    who = f"Among {members} member and {others} non-member {unit.many}{asked}"
    beside = "".join(f", {_BESIDE[name]} {other.other.text(*PERCENT)}" for name, other in strongest.beside.items())
    what = "what" if unit is DOCUMENT else "who"
    attacks = sum(map(len, decision.by_access.values()))
    numbers = (
        f"{outcome.row.title}, with {ACCESS[outcome.row.access]}: {outcome.metric} {strongest.found.text(*PERCENT)}, "
        f"chance 50.0 %{beside}; permutation p {strongest.p_value:.4f}, adjusted for {attacks} attacks"
    )
    rates = rates_of(outcome)
    would = f"an attack with {outcome.metric} of {100 * strongest.smallest:.0f} % would have been found in four of five"
    text = {
        "leak": f"{who}, an attack distinguishes {what} was trained on. {numbers}.",
        "weak": f"{who}, there is a sign of membership. {numbers}.",
        "none": f"{who}, no attack distinguishes {what} was trained on beyond {_excluded(strongest)} "
        f"({would} such audits). {numbers}.",
        "unresolved": f"{who}, nothing can be said: {_why_unresolved(decision, would, unit)}. {numbers}.",
    }[decision.level]
    return Finding(
        level=decision.level,
        text=f"{text} {_assumed(control, trusted=trusted)}",
        remedy=" ".join(remedies(unit)),
        remedies=remedies(unit),
        plain=plain_sentence(decision, unit),
        success=rates.found,
        false_alarms=rates.accused,
        metric=outcome.metric,
        slice=_slice(outcome.row.title, "target"),
        smallest_effect=strongest.smallest,
    )


def _excluded(strongest: Judged) -> str:
    """What an attack must exceed: chance, and what else was compared."""
    *first, last = ("chance", *(_BESIDE[name] for name in strongest.beside))
    return f"{', '.join(first)} and {last}" if first else last


def _why_unresolved(decision: Decision, would: str, unit: Unit) -> str:
    attacked = decision.strongest.outcome.attacked
    if min(int(attacked.sum()), int((~attacked).sum())) < ENOUGH:
        return f"{ENOUGH} attacked {unit.many} of each class are needed"
    if decision.strongest.smallest >= 1.0:
        return "what the control or the documents alone show leaves no room for an attack to exceed it"
    return f"only {would} such audits, and {100 * LARGEST_UNSEEN:.0f} % must be"


def _assumed(control: str | None, *, trusted: bool) -> str:
    if not trusted:
        return (
            "It is assumed that members and non-members are alike but for the training, which nothing here supports: "
            "it is a weak sign at most. Give a model that saw neither (--control, or --pretrained), or declare that "
            "the classes were drawn at random (--classes-random)."
        )
    if control is None:
        return "The user declares that the classes were drawn at random; no control was run."
    return f"The control is {control}."


def metrics(decision: Decision, control: str, unit: Unit) -> list[Metric]:
    """Metrics that the finding rests on, and those that are subtracted from it."""
    strongest = decision.strongest
    name, title = strongest.outcome.metric, strongest.outcome.row.title
    count, form = len(strongest.outcome.attacked), FORMATS.get(name, "percent")
    over = resampled_over(unit.many)
    models = {"control": control, "documents": "documents alone"}

    def level(found: Estimate, model: str) -> Metric:
        return build_metric(
            name,
            found,
            format=form,
            n=count,
            **over,
            chance=0.5,
            about=_slice(title, model),
            role=role_of(name, model, unit),
        )

    found = [level(strongest.found, "target")]
    for what, other in strongest.beside.items():
        found.append(level(other.other, models[what]))
        about = _slice(title, f"target minus {models[what]}")
        gap = build_metric(f"{name} gap", other.difference, format="points", n=count, **over, chance=0.0, about=about)
        found.append(gap)
    return found


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


def _slice(attack: str, model: str) -> dict[str, SliceValue]:
    return {"attack": attack, "model": model}


def access_table(decision: Decision, accuracies: Mapping[str, pd.Series[float]], labels: Bools, unit: Unit) -> Table:
    """Every attack beside the control and the documents alone, by what the attacker sees.

    Args:
        decision: On the primary subset.
        accuracies: Model to its share of right answers about each unit.
        labels: Membership of the units, bool (n,).
    """
    rows = [_row(access, one) for access, judged in decision.by_access.items() for one in judged]
    columns = ["Needs", "Attack", "By itself", "Found, at false alarms, of 100", "Model", "Above control, points",
               "Above documents alone, points", "p", "Would have been found"]  # fmt: skip
    note = (
        f"Intervals resample {unit.many}; p is of a permutation, adjusted for the attacks of each access (max-T) and "
        "for the levels of access. Scores are confidences and losses, of the model and of the public one; BA is "
        "balanced accuracy. An attack is a leak where it also exceeds the control and the documents alone. Right "
        "answers on pages of members and of non-members: "
    )
    means = {name: found.groupby(labels).mean() for name, found in accuracies.items()}
    said = (f"{name} {100 * mean[True]:.1f} and {100 * mean[False]:.1f} %" for name, mean in means.items())
    note = f"{note}{'; '.join(said)}."
    return Table(title="Attacks by what they need, strongest first", columns=columns, rows=rows, note=note)


def _row(access: str, one: Judged) -> list[Cell]:
    rates = rates_of(one.outcome)
    return [
        _NEEDS[access],
        one.outcome.row.title,
        _LEVELS[one.level],
        f"{hundredths(rates.found)} at {hundredths(rates.accused)}",
        f"{_SHORT.get(one.outcome.metric, one.outcome.metric)} {one.found.text(*PERCENT)}",
        _beside(one, "control"),
        _beside(one, "documents"),
        f"{one.p_value:.4f}",
        f"{100 * one.smallest:.0f} %",
    ]


def _beside(one: Judged, name: str) -> str | None:
    other: Compared | None = one.beside.get(name)
    if other is None:
        return None
    gap = other.difference
    return f"{100 * gap.value:+.1f} [{100 * gap.low:.1f}, {100 * gap.high:.1f}]"
