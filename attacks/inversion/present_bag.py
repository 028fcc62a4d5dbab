"""Metrics, table and finding of the words of an update in any order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from pfl_audit.attacks.inversion.bag import Bagged
from pfl_audit.attacks.inversion.bound import NoiseBound
from pfl_audit.attacks.inversion.controls import (
    ALL_BOXES,
    ANY_ORDER,
    COORDINATES,
    PAGES,
    PLACES,
    SAMPLES,
    WORDS,
)
from pfl_audit.attacks.inversion.decision import Decision, decide
from pfl_audit.attacks.inversion.present_decision import against, beside, closed_finding, recalled
from pfl_audit.core.attack import CheckSpec
from pfl_audit.core.context import AuditContext
from pfl_audit.core.fields import Cell
from pfl_audit.core.results import Check, Metric, Table

NAMES = {
    ANY_ORDER: "tokens",
    COORDINATES: "coordinates",
    ALL_BOXES: "boxes",
    WORDS: "words in place",
    PLACES: "tokens in place",
    PAGES: "pages",
    SAMPLES: "tokens with all before them",
}
"""What is counted, by measure."""
COLUMNS = [each for what in NAMES.values() for each in (f"{what} found", f"false {what}")]


def bag_check(
    spec: CheckSpec, context: AuditContext, bagged: Sequence[Bagged], bounds: Sequence[NoiseBound | None]
) -> Check:
    """The check of words and coordinates in any order."""
    quiet = [one.noise for one in bagged]
    decision = decide([one.counts for one in bagged], context.budget, quiet)
    pages = sum(one.pages for one in bagged)
    metrics: list[Metric] = []
    said = []
    for measure, what in NAMES.items():
        right, wanted, named = total([one.found for one in bagged], measure)
        if not wanted:
            continue
        metrics += recalled(measure, right, wanted, named, what)
        said.append(f"{right} of {wanted} different private {what} came back, {named - right} false ones beside them")
    all_words = decision is not None and decision.share == 1.0 and decision.measure == ANY_ORDER
    counted = f"{many(pages, 'page')} in {many(len(bagged), 'update')}"
    text = f"Of {counted}, {'; '.join(said) or 'nothing could be counted'}{extent(bagged, all_words=all_words)}"
    if candidates := sum(one.candidates for one in bagged):
        text += f" {candidates:,} other places of tokens are possible: candidates, which do not count."
    if errors := [one.error for one in bagged if one.error is not None]:
        text += f" The gradient of the pages, computed again, leaves {max(errors):.1e} of an update at the most."
    text += f" {beside(decision, 'private fields, each counted once', quiet)}"
    hide = context.redactor
    rows: list[list[Cell]] = [
        [one.name, one.pages,
         *cells_of(hide.part, one.found),
         "; ".join(map(str, one.limits)) or None]
        for one in bagged
    ]  # fmt: skip
    columns = ["document", "pages", *COLUMNS, "limits"]
    return spec.ran(
        metrics=[*against(decision, quiet), *metrics],
        tables=[Table(title="By update", columns=columns, rows=rows)],
        finding=closed_finding(decision, text, _counted(decision), [one.limits for one in bagged], bounds=bounds),
    )


def _counted(decision: Decision | None) -> str:
    """What the measure of a decision counts, in the plural."""
    what = "words" if decision is None or decision.measure == ANY_ORDER else NAMES[decision.measure]
    return f"different {what} of private fields"


def extent(bagged: Sequence[Bagged], *, all_words: bool) -> str:
    """What of the pages came back, words and their order, as the end of a sentence."""
    if every(bagged, WORDS, PAGES):
        return ": the whole text of the pages."
    if every(bagged, SAMPLES):
        return ": the whole answers, each with its question."
    if any(one.found.get(measure, (0,))[0] for one in bagged for measure in (WORDS, PLACES, SAMPLES)):
        return "."
    return ": every word of the pages, not its order." if all_words else ", in no order."


def every(bagged: Sequence[Bagged], *measures: str) -> bool:
    """Whether one of these was measured of every update, and all came back."""
    found = [[one.found[measure] for measure in measures if measure in one.found] for one in bagged]
    return all(some and all(right == wanted > 0 for right, wanted, _ in some) for some in found)


def many(count: int, noun: str) -> str:
    """A count with its noun, in the plural unless it is one."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def cells_of(part: Callable[[int, int], str], found: Mapping[str, tuple[int, int, int]]) -> list[str | None]:
    """By measure which share came back, and which share of those named is false: a cell for each of ``COLUMNS``."""
    counts = [found.get(measure, (0, 0, 0)) for measure in NAMES]
    shares = [(part(right, wanted) if wanted else None, part(named - right, named) if named else None)
              for right, wanted, named in counts]  # fmt: skip
    return [cell for pair in shares for cell in pair]


def total(found: Sequence[Mapping[str, tuple[int, int, int]]], measure: str) -> tuple[int, int, int]:
    """Numbers of items that came back, that exist and that were named, over all updates."""
    right, wanted, named = (sum(one.get(measure, (0, 0, 0))[at] for one in found) for at in range(3))
    return right, wanted, named
