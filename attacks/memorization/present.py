"""Metrics, tables and finding of the memorization test."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from math import isfinite

import pandas as pd

from pfl_audit.attacks.memorization.measures import (
    ACC,
    ANLS,
    BY_REPETITION,
    ENOUGH_PAGES,
    FORMATS,
    LARGEST_AREA,
    LARGEST_GAP,
    RATIO,
    Memory,
    Result,
)
from pfl_audit.attacks.memorization.plain import plain_sentence
from pfl_audit.attacks.memorization.scores import GapEstimate, Items
from pfl_audit.core.fields import Cell
from pfl_audit.core.metric import bootstrap_over, build_metric, resampled_over
from pfl_audit.core.redaction import Redactor
from pfl_audit.core.remedies import NO_DUPLICATES, ONLY_FROM_THE_PAGE, private_training
from pfl_audit.core.results import Finding, Format, Metric, Role, Table
from pfl_audit.documents.corpus import Problem
from pfl_audit.documents.document import Query
from pfl_audit.documents.scrubbing.residual import ResidualKind
from pfl_audit.documents.units import PROVIDER, Unit
from pfl_audit.metrics.intervals import Estimate

POINTS = (".1f", 100.0, " points")
ALL_PAGES = "all pages"
CLEAN_PAGES = "no residual clue"
"""Pages on which the second look found nothing; the finding rests on them."""
_MASK = "Mask the value in a share of the training pages together with its answer."
_SCORE = "ACC"
_EMPTY = "no page of one class"
_NO_SPREAD = "no interval: no resample differs"
_MORE = "Give pages of more {nouns} of both classes"
LISTED = 1000
"""Rows of a table at most."""

Slice = dict[str, str | int | float]


def gap_metrics(
    score: str, slice_: str, model: str, gap: GapEstimate, over: Unit, *, unit: str = "pages"
) -> list[Metric]:
    """A score on members, on non-members, and the gap, with intervals over a unit of privacy."""
    about: Slice = {"pages": slice_, "model": model}
    inside, outside = gap.items
    parts = (("members", gap.members, inside), ("non-members", gap.non_members, outside))
    metrics = [share_metric(f"{score} {name}", found, some, about, over, unit=unit) for name, found, some in parts]
    both = [*inside, *outside]
    return [*metrics, share_metric(f"{score} gap", gap.gap, both, about, over, unit=unit, format="points")]


def share_metric(
    name: str,
    found: Estimate | None,
    behind: Items | int,
    about: Slice,
    over: Unit,
    *,
    unit: str = "pages",
    role: Role | None = None,
    format: Format = "percent",  # noqa: A002 - the field of the schema
    note: str | None = None,
) -> Metric:
    """A share, or in points a difference of shares, with its interval over resampled units of privacy.

    Args:
        behind: Pages or questions that it is about, or the number of what it is about.
    """
    n, items = (behind, ()) if isinstance(behind, int) else (len(behind), behind)
    method, chance = bootstrap_over(over.many), 0.0 if format == "points" else None
    return build_metric(
        name,
        found,
        format=format,
        n=n,
        unit=unit,
        method=method,
        chance=chance,
        about=about,
        role=role,
        note=note,
        missing=note or _EMPTY,
        items=items,
    )


def memory_metrics(found: Memory, control: str, unit: Unit, items: Items = ()) -> list[Metric]:
    """The likelihood ratio and the exposure, and how far each measure lies above the control.

    ACC and ANLS themselves are in ``gap_metrics``.
    """
    metrics = []
    over = resampled_over(unit.many)
    for one in found.results:
        rows: list[tuple[str, Estimate | float, float, str | None]] = []
        if one.name not in (ACC, ANLS):
            note = f"p = {one.p_value:.2g} (permutation over {unit.many}, largest of {len(found.results)} measures)"
            rows.append(("target", one.value, one.chance, note))
        if (beyond := one.over_control) is not None:
            moves, model = beyond.low < beyond.high, f"target minus {control}"
            rows.append((model, beyond, 0.0, None) if moves else (model, beyond.value, 0.0, _NO_SPREAD))
        for model, value, chance, said in rows:
            about: Slice = {"pages": CLEAN_PAGES, "model": model}
            whole = one.training_pages is None
            metrics.append(
                build_metric(
                    one.name,
                    value,
                    format=one.format,
                    n=sum(found.units) if whole else one.units + found.units[1],
                    **over,
                    chance=chance,
                    about=about,
                    note=said,
                    items=items if whole else (),
                )
            )
    return metrics


def repetition_table(found: Memory, unit: Unit) -> Table:
    """Every measure by the number of training pages that hold the value, with the trend below."""
    names = [one.name for one in found.results if one.name in BY_REPETITION]
    rows: list[list[Cell]] = [
        [one.pages, one.units, *(_text(FORMATS[name], one.values[name]) for name in names)] for one in found.repeated
    ]
    note = f"{found.units[1]} others each, 95 % intervals over {unit.many}.{_trend(found)}"
    title = "Members by the number of training pages that hold their value"
    return Table(title=title, columns=["Training pages", unit.many.capitalize(), *names], rows=rows, note=note)


def _trend(found: Memory) -> str:
    """Sentence on the trend; empty where there is none."""
    if found.trend is None or not isfinite(found.trend.correlation):
        return ""
    return (
        f" Rank correlation of the number of training pages and the score: {found.trend.correlation:.2f} over "
        f"{found.trend.units} members (p = {found.trend.p_value:.2g})."
    )


def _repeated(found: Memory, unit: Unit) -> str:
    """Sentences on the repeated values that are remembered, and on the trend."""
    tested = [one for one in found.results if one.training_pages is not None and one.level in ("leak", "weak")]
    if not tested:
        return _trend(found)
    worst = max(tested, key=lambda one: one.strength)
    where = f"{worst.training_pages} or more training pages ({worst.units} {unit.nouns})"
    return f" Most at risk are values on {where}: {_text(worst.format, worst.value)}.{_trend(found)}"


def memory_finding(
    key: str, found: Memory, scores: Mapping[str, GapEstimate], control: str | None, unit: Unit = PROVIDER
) -> Finding:
    """Finding on the pages of a key.

    Args:
        key: Key that was asked for.
        found: The test, on pages without residual clues.
        scores: ``ACC`` and ``ANLS`` of the target on these pages.
        control: Name of the control, or None.
        unit: Unit of privacy.
    """
    actions = [private_training(unit.many), ONLY_FROM_THE_PAGE, _MASK, NO_DUPLICATES]
    remedy = " ".join(actions)
    name, head = key.replace("_", " "), found.headline
    if head is None:
        return Finding(
            level="unresolved",
            text=f"Pages of members and of non-members from which the {name} could be taken off without a trace are "
            "both needed.",
            remedy=remedy,
            plain=f"Whether the model remembers the {name} cannot be said: there are too few pages without it.",
        )
    answers = scores.get(_SCORE)
    rates = answers.both if answers else None
    numbers = _numbers(head, found, scores.get(head.name.removesuffix(" gap")), unit)
    others = "a control would seem to" if head.explained else "of others"
    text = {
        "leak": f"The {name} was taken off the page, and the model remembers it of the {unit.nouns} it was trained on: "
        f"{numbers}.",
        "weak": f"There is a sign that the model remembers the {name}, too weak for one of several checks: {numbers}.",
        "none": f"The model does not remember the {name} of members more than {others}: {numbers}.",
        "unresolved": f"There are too few pages to say whether the {name} is remembered: {numbers}.",
    }[found.level]
    if found.level in ("leak", "weak") or head.explained:
        text += _control_sentence(head, control, unit)
    if found.level not in ("leak", "weak") and min(found.pages) >= ENOUGH_PAGES:
        text += f" {power_sentence(found.results)}"
    text += _repeated(found, unit)
    return Finding(
        level=found.level,
        text=text,
        remedy=f"{_MORE.format(nouns=unit.nouns)}. {remedy}" if found.level == "unresolved" else remedy,
        metric=head.name,
        slice={"pages": CLEAN_PAGES, "model": "target"},
        smallest_effect=head.smallest,
        remedies=actions if found.level in ("leak", "weak") else [],
        plain=plain_sentence(name, found, answers, unit),
        success=rates[0].value if rates else None,
        false_alarms=rates[1].value if rates else None,
    )


def power_sentence(results: Sequence[Result]) -> str:
    """Sentence on the smallest effects that four of five such audits would have found."""
    wanted = [one for one in results if one.name in (ACC, RATIO)]
    would = " or ".join(_smallest(one) for one in wanted if one.smallest is not None)
    sentence = f"Four of five such audits would have found {would}" if would else "No effect would have been found"
    most = {ACC: LARGEST_GAP, RATIO: LARGEST_AREA}
    if any(one.smallest is None or one.smallest > most[one.name] for one in wanted):
        sentence += (
            f"; to say that there is no evidence, gaps of {100 * LARGEST_GAP:.0f} points and an AUC of {LARGEST_AREA} "
            "must be found"
        )
    return sentence + "."


def _smallest(one: Result) -> str:
    value = one.smallest or 0.0
    return f"an ACC gap of {100 * value:.1f} points" if one.name == ACC else f"an AUC of {value:.2f}"


def _numbers(head: Result, found: Memory, gap: GapEstimate | None, unit: Unit) -> str:
    value = head.value
    if head.training_pages is not None:
        size = f"{head.units} {unit.nouns} against {found.units[1]} others"
        return f"the {head.name} is {_text(head.format, value)} for {size}"
    if head.name in (ACC, ANLS) and gap and gap.gap and gap.both:
        score, (members, others) = "" if head.name == ACC else "ANLS of ", gap.both
        return (
            f"{score}{members.value:.1%} of {gap.pages[0]} pages of member {unit.many} against "
            f"{others.value:.1%} of {gap.pages[1]} pages of others: a gap of {gap.gap.text(*POINTS)}"
        ).replace("%", " %")
    size = f"{found.units[0]} {unit.nouns} against {found.units[1]} others"
    if head.name == RATIO:
        return (
            f"the likelihood of the true value, against that under the control, orders {size} with an AUC of "
            f"{value.text()}, whether or not the value comes out as an answer"
        )
    return f"among the values of other {unit.nouns} the true one ranks {_text(head.format, value)} higher for {size}"


def _control_sentence(head: Result, control: str | None, unit: Unit) -> str:
    if control is None or head.over_control is None:
        return (
            " No control was asked (--control, --pretrained), so it is assumed that members' values are no easier to "
            "guess."
        )
    by = _text(head.format, head.over_control)
    return f" That is {by} above the {control} model on the same {unit.nouns}."


def _text(form: Format, value: Estimate) -> str:
    """A number of a measure, with its interval where resamples differ."""
    text = value.text(*{"points": POINTS, "bits": (".2f", 1.0, " bits")}.get(form, ()))
    return text if value.low < value.high else text.partition(" [")[0]


def giveaway_table(units: pd.DataFrame, redactor: Redactor, unit: Unit = PROVIDER) -> Table:
    """Units whose every page gives the value away."""
    found = sorted(
        (not row["member"], redactor.name(row["unit"], unit.name), int(row["pages"]))
        for row in units.to_dict("records")
    )
    rows: list[list[Cell]] = [
        [name, "non-member" if other else "member", redactor.count(pages)] for other, name, pages in found
    ]
    title = f"{unit.many.capitalize()} whose every page gives the value away (two pages or more)"
    note = f"the first {LISTED} of {len(rows)}" if len(rows) > LISTED else None
    return Table(title=title, columns=[unit.name.capitalize(), "Class", "Pages"], rows=rows[:LISTED], note=note)


def skipped_table(problems: Sequence[Problem], redactor: Redactor) -> Table:
    """Pages that could not be tested, with the reason."""
    reasons = Counter(problem.reason for problem in problems)
    found = sorted((redactor.page(problem.record), problem.reason) for problem in problems)
    rows: list[list[Cell]] = [[*row] for row in found[:LISTED]]
    counts = "; ".join(f"{count}: {reason}" for reason, count in reasons.most_common())
    return Table(title="Pages that could not be tested", columns=["Page", "Reason"], rows=rows, note=counts or "none")


def clue_table(
    queries: Sequence[Query], clues: Mapping[str, Sequence[ResidualKind]], redactor: Redactor, *, ocr: bool
) -> Table:
    """What a second look still found on the scrubbed pages."""
    kinds = Counter(kind for found in clues.values() for kind in set(found))
    rows: list[list[Cell]] = [
        [page, ", ".join(left)]
        for page, left in sorted(
            (redactor.page(query.document.id), sorted(set(clues[query.id]))) for query in queries if clues[query.id]
        )
    ]
    counts = ", ".join(f"{kind} on {count}" for kind, count in kinds.most_common()) or "none"
    looked = "words and pictures" if ocr else "words (--ocr looks at the pictures too)"
    note = (
        f"Looked at {looked}; {len(rows)} of {len(clues)} pages still hold a clue ({counts}); the metrics give the gap "
        "on the others apart"
    )
    return Table(
        title="Residual clues found by a second look", columns=["Page", "Clues"], rows=rows[:LISTED], note=note
    )
