"""Utility: accuracy on new pages of companies that the model was trained on, and of others.

A gap says that the model reads the layouts and wordings of known companies better. That is what training is for, and
gives no value away, so it is a weak sign at most. Source: privacy-aware-docvqa, Tables 1 and 9: ACC and ANLS on RED, on
its positive and on its negative part, and the difference.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pfl_audit.attacks.memorization import present
from pfl_audit.attacks.memorization.measures import ENOUGH_PAGES, LARGEST_GAP, Measure, Result, Units, judge
from pfl_audit.attacks.memorization.scores import (
    GapEstimate,
    Items,
    answers_table,
    items_of,
    mean_over_sources,
    score_gap,
    score_mean,
)
from pfl_audit.attacks.memorization.specs import GENERALISATION, in_words
from pfl_audit.attacks.questions.context import QuestionContext
from pfl_audit.core.frequencies import hundredths
from pfl_audit.core.results import Check, Finding, Metric, Role
from pfl_audit.core.verdict import Budget, at_most_weak
from pfl_audit.documents.document import Query
from pfl_audit.documents.units import DOCUMENT, Unit
from pfl_audit.metrics.arrays import Floats
from pfl_audit.metrics.contrasts import Contrast, difference, item_gap, permuted
from pfl_audit.metrics.intervals import bootstrap_counts
from pfl_audit.metrics.permutation import PERMUTATIONS
from pfl_audit.metrics.power import smallest_effect

STRATIFIED: Final = "stratified ACC gap"
TERTILES: Final = (1 / 3, 2 / 3)
_REMEDY = (
    "Nothing by itself. Where membership is found too, train with differential privacy for {many}, or on fewer "
    "pages of each {noun} and for fewer steps."
)


def strata(questions: pd.DataFrame) -> NDArray[np.intp]:
    """Key and tertile of the page's length (OCR words) of every question, as a number, int (questions,)."""
    words = questions["words"].to_numpy(dtype=np.float64)
    length = np.searchsorted(np.quantile(words, TERTILES), words)
    return np.asarray(questions.groupby([questions["key"], length]).ngroup(), dtype=np.intp)


def reading(questions: pd.DataFrame, control: pd.DataFrame | None, budget: Budget, rng: np.random.Generator) -> Result:
    """Compare members with others within strata of key and length of page.

    Args:
        questions: Table from ``answers_table``, with both classes.
        control: The same table of the control, or None.
    """
    who = Units.of(questions)
    where = strata(questions)
    scores = questions["acc"].to_numpy(dtype=np.float64)
    over = None
    if control is not None:
        other = questions["question"].map(control.set_index("question")["acc"]).to_numpy(dtype=np.float64)
        both = [np.where(np.isnan(other), np.nan, scores), other]
        over = difference(*(_contrast(who, where, part) for part in both))
    measure = Measure(STRATIFIED, 0.0, _contrast(who, where, scores), over)
    weights = bootstrap_counts(who.labels, rng).T
    tested = permuted([measure.contrast], who.labels, rng, PERMUTATIONS)
    deviation = float(tested.deviations[0])
    smallest = smallest_effect(float(tested.critical(budget.weak)[0]), deviation) if deviation > 0 else None
    enough = int(questions["member"].value_counts().min()) >= ENOUGH_PAGES
    resolved = smallest is not None and smallest <= LARGEST_GAP
    found = judge(measure, tested, 0, who.labels, weights, budget, smallest, enough, resolved)
    # Weak at most: reading known companies better is utility, and gives no value away by itself.
    return replace(found, level=at_most_weak(found.level))


def generalisation(context: QuestionContext) -> Check:
    """Ask every question of RED, as the membership attacks do: what was answered is not asked again."""
    members = context.members
    queries = [query for query in context.red.queries if query.document.unit in members]
    answers = {name: engine.ask(queries, f"new pages ({name})") for name, engine in context.models.items()}
    if not answers["target"].responses and (problems := answers["target"].problems):
        return GENERALISATION.not_run("skipped", problems[0].reason)
    tables = {name: answers_table(queries, members, found.responses) for name, found in answers.items()}
    tables = {name: table for name, table in tables.items() if table["member"].nunique() == 2}
    if "target" not in tables:
        return GENERALISATION.not_run("skipped", "new pages of members and of non-members are both needed")
    metrics: list[Metric] = []
    gaps: dict[tuple[str, str], GapEstimate] = {}
    for name, table in tables.items():
        for score in ("acc", "anls"):
            rng = context.rng("generalisation", name, score)
            gaps[name, score] = score_gap(table, score, rng)
            about: present.Slice = {"pages": present.ALL_PAGES, "model": name}
            role: Role | None = "utility" if name == "target" else None
            whole = score_mean(table, score, rng)
            metrics.append(
                present.share_metric(
                    score.upper(), whole, items_of(table), about, context.unit, unit="questions", role=role
                )
            )
            metrics += present.gap_metrics(
                score.upper(), present.ALL_PAGES, name, gaps[name, score], context.unit, unit="questions"
            )
            metrics += _by_source(queries, table, name, score, rng, context.unit)
    control = context.control_name
    beside = tables.get(control) if control else None
    found = reading(tables["target"], beside, context.budget, context.rng("generalisation", "test"))
    return in_words(GENERALISATION, context.unit).ran(
        settings={"alpha": context.budget.leak},
        metrics=metrics + _metrics(found, items_of(tables["target"]), control, context.unit),
        finding=_finding(found, gaps["target", "acc"], context.unit),
    )


def _by_source(
    queries: list[Query], table: pd.DataFrame, model: str, score: str, rng: np.random.Generator, unit: Unit
) -> list[Metric]:
    """Scores of each source of a corpus that was made of several, numbered in the order of names, and their mean."""
    sources = table["question"].map({query.id: query.document.source for query in queries})
    if sources.nunique() < 2:
        return []
    mean, each = mean_over_sources(table, score, sources, rng)
    rows = [(mean, items_of(table), "mean over sources")]
    rows += [
        (found, items_of(table[sources == name]), f"source {at + 1}") for at, (name, found) in enumerate(each.items())
    ]
    return [
        present.share_metric(score.upper(), found, items, {"pages": what, "model": model}, unit, unit="questions")
        for found, items, what in rows
    ]


def _contrast(who: Units, where: NDArray[np.intp], scores: Floats) -> Contrast:
    """Stratified gap of scores, float (questions,), NaN for those that do not count."""
    size = int(where.max()) + 1
    totals = [who.totals(np.where(where == stratum, scores, np.nan)) for stratum in range(size)]
    return item_gap(np.stack([sums for sums, _ in totals], axis=1), np.stack([counts for _, counts in totals], axis=1))


def _metrics(found: Result, items: Items, control: str | None, unit: Unit) -> list[Metric]:
    about: present.Slice = {"pages": present.ALL_PAGES, "model": "target"}
    note = f"p = {found.p_value:.2g} (permutation over {unit.many}); like questions and lengths of page compared"
    gap = partial(present.share_metric, STRATIFIED, behind=items, over=unit, unit="questions", format="points")
    metrics = [gap(found.value, about=about, note=note)]
    if found.over_control is not None:
        metrics.append(gap(found.over_control, about=about | {"model": f"target minus {control}"}))
    return metrics


def _plain(found: Result, shares: GapEstimate, unit: Unit) -> str:
    if found.level == "unresolved" or shares.both is None:
        return f"Whether the model reads {unit.nouns} in training better than others cannot be said with these pages."
    members, others = (hundredths(one.value) for one in shares.both)
    counts = f"{members} of 100 questions right, of others {others}"
    better = "better than others" if found.level == "weak" else _no_better(found)
    return f"The model reads {unit.nouns} in training {better}: {counts}. That alone gives no value away."


def _no_better(found: Result) -> str:
    """What the gap does not exceed: chance, or the gap of a model that was not trained on these units."""
    return "no better than a control does" if found.explained else "no better than others on like questions"


def _finding(found: Result, plain: GapEstimate, unit: Unit) -> Finding:
    shares = (
        f"{both[0].value:.1%} of {plain.pages[0]} questions about {unit.nouns} that it was trained on against "
        f"{both[1].value:.1%} of {plain.pages[1]} about others"
        if (both := plain.both)
        else ""
    )
    apart = (
        f"like questions about pages of like length are {found.value.text(*present.POINTS)} apart"
        if np.isfinite(found.value.value)
        else "no like questions about pages of like length were asked of both"
    )
    if found.explained and found.over_control is not None:
        apart += f", {found.over_control.text(*present.POINTS)} above the control"
    numbers = f"{shares}; {apart}".replace("%", " %")
    power = (
        f" Four of five such audits would have found {100 * found.smallest:.1f} points."
        if found.smallest is not None
        else ""
    )
    pages = "pages" if unit is DOCUMENT else "new pages"
    text = {
        "weak": f"The model reads {pages} of {unit.nouns} that it knows better: it answers {numbers}. That is utility, "
        "and gives no value away by itself.",
        "none": f"The model reads {pages} of known {unit.nouns} {_no_better(found)}: it answers {numbers}.{power}",
        "unresolved": f"Too few questions to compare known {unit.nouns} with others: it answers {numbers}.{power}",
    }[found.level]
    return Finding(
        level=found.level,
        text=text,
        remedy=_REMEDY.format(many=unit.many, noun=unit.noun),
        plain=_plain(found, plain, unit),
        metric=STRATIFIED,
        slice={"pages": present.ALL_PAGES, "model": "target"},
        smallest_effect=found.smallest,
    )
