"""Metrics, tables, picture and finding of the messages of a federation."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from pfl_audit.attacks.inversion.analytic.limits import Limit
from pfl_audit.attacks.inversion.bound import NoiseBound, together
from pfl_audit.attacks.inversion.controls import ALL_BOXES, ANY_ORDER, FILLINGS, Counts, pooled, shares
from pfl_audit.attacks.inversion.decision import Decision, decide
from pfl_audit.attacks.inversion.present import percent
from pfl_audit.attacks.inversion.present_bag import COLUMNS, NAMES, cells_of, many, total
from pfl_audit.attacks.inversion.present_decision import REMEDIES, counted, not_shown, recalled, unresolved
from pfl_audit.attacks.inversion.rounds.opened import RoundContext, Sent
from pfl_audit.attacks.inversion.rounds.read import ReadMessage
from pfl_audit.core.attack import CheckSpec
from pfl_audit.core.fields import Cell
from pfl_audit.core.frequencies import hundredths, out_of
from pfl_audit.core.results import Check, Curve, Finding, Metric, Series, Table
from pfl_audit.metrics.intervals import exact_share

_WHAT = {**NAMES, ANY_ORDER: "pieces of words", ALL_BOXES: "boxes of words"}
SAFE = "The noise hides a company's documents, even from an observer of all audited messages who knows two candidates."
_REMEDIES = REMEDIES[:-1]  # the last is about templates


def messages_check(spec: CheckSpec, context: RoundContext, read: Sequence[ReadMessage]) -> Check:
    """The check of kept messages."""
    decision = decide([one.counts for one in read], context.budget, [one.noise for one in read])
    return spec.ran(
        metrics=[metric for measure in NAMES if _has(read, measure) for metric in _metrics(read, measure)],
        tables=[_by_round(read), _by_message(context, read)],
        curves=[_picture(read, measure) for measure in NAMES if _has(read, measure)],
        finding=_finding(context, decision, read),
    )


def _has(read: Sequence[ReadMessage], measure: str) -> bool:
    """Whether there is something to count; of the span, whether it named something."""
    at = 2 if measure == ALL_BOXES else 1
    return any(one.found.get(measure, (0, 0, 0))[at] for one in read)


def _metrics(read: Sequence[ReadMessage], measure: str) -> list[Metric]:
    """Recall and precision, and the share by which pages and other companies' pages are compared."""
    own, quiet = _pooled([one.counts for one in read], measure), _pooled([one.noise for one in read], measure)
    if own is None or quiet is None:
        return []
    right, wanted, named = total([one.found for one in read], measure)
    unit, none = NAMES[measure], "none was named"
    return [
        counted(measure, int(own[0, 0]), int(own[0, 1]), unit, chance=float(shares(own)[1:].mean()), missing=none),
        counted(f"{measure}, of noise", int(quiet[0, 0]), int(quiet[0, 1]), unit, missing=none),
        *recalled(measure, right, wanted, named, unit),
    ]


def _pooled(parts: Sequence[Mapping[str, Counts]], measure: str) -> Counts | None:
    """Counts of a measure over messages, or None where there is nothing to count."""
    counts = pooled(parts).get(measure)
    return counts if counts is not None and counts[0, 1] else None


def _by_round(read: Sequence[ReadMessage]) -> Table:
    rows: list[list[Cell]] = []
    for number, some in _rounds(read).items():
        row: list[Cell] = [number, len(some)]
        for measure in NAMES:
            counts = _pooled([one.counts for one in some], measure)
            share = shares(counts) if counts is not None else None
            row += [None, None] if share is None else [percent(share[0]), percent(share[1:].mean())]
        rows.append([*row, "; ".join(_causes(one.limits for one in some)) or None])
    shown = [each for what in NAMES.values() for each in (what, f"{what} of others")]
    columns = ["round", "messages", *shown, "limits"]
    return Table(
        title="By round",
        columns=columns,
        rows=rows,
        note="Shares are the lower of precision and recall; of others: against other companies' pages.",
    )


def _by_message(context: RoundContext, read: Sequence[ReadMessage]) -> Table:
    part = context.redactor.part
    rows: list[list[Cell]] = []
    for one in read:
        clients = ", ".join(map(str, one.sent.clients))
        row = [one.sent.round, clients, 0 if one.sent.rows is None else len(one.sent.rows), *cells_of(part, one.found)]
        left = f"{one.sent.left_out} tensors are none of the finished model" if one.sent.left_out else None
        rows.append([*row, "; ".join([*map(str, one.limits), *([left] if left else [])]) or None])
    return Table(title="By message", columns=["round", "client", "questions", *COLUMNS, "limits"], rows=rows)


def _picture(read: Sequence[ReadMessage], measure: str) -> Curve:
    """Round by round, with the spread of other companies' pages."""
    rounds, own, other = list[float](), list[list[float]](), list[list[float]]()
    for number, some in _rounds(read).items():
        counts = _pooled([one.counts for one in some], measure)
        if counts is None:
            continue
        found, others = exact_share(int(counts[0, 0]), int(counts[0, 1])), shares(counts)[1:]
        rounds.append(number)
        own.append([found.value, found.low, found.high])
        other.append([float(others.mean()), *np.quantile(others, [0.025, 0.975]).tolist()])
    series = []
    for name, points in (("pages of the client", own), ("pages of other companies", other)):
        y, low, high = ([point[at] for point in points] for at in range(3))
        series.append(Series(name=name, x=rounds, y=y, low=low, high=high))
    title = f"{NAMES[measure].capitalize()} in the messages of each round"
    return Curve(title=title, kind="line", x_label="round", y_label="share that came back", series=series)


def _finding(context: RoundContext, decision: Decision | None, read: Sequence[ReadMessage]) -> Finding:
    rounds, causes = len(_rounds(read)), list(dict.fromkeys(limit for one in read for limit in one.limits))
    sums = sum(len(one.sent.clients) > 1 for one in read)
    of = f"{many(len(read), 'message')} of {many(rounds, 'round')}"
    of += f", {sums} of them sums of clients" if sums else ""
    said = []
    for measure, what in NAMES.items():
        if _has(read, measure):
            right, wanted, named = total([one.found for one in read], measure)
            said.append(f"{right:,} of {wanted:,} different {what} came back, {named - right:,} false ones beside them")
    text = f"Of {of}: {'; '.join(said) or 'nothing could be counted'}. {_beside(context, decision, read)}"
    level = decision.level if decision is not None else "unresolved"
    bounds = _bounds(context.sent)
    if bounds:
        weakest = max(bounds, key=lambda bound: bound.apart / bound.sigma)
        text = f"{text} {weakest.words}"
        if level == "unresolved" and weakest.shows and all(one.bound is not None for one in context.sent):
            level = "none"
    if level == "unresolved":
        text = f"{text} {unresolved(causes, above=decision is not None and decision.above)}"
    leaks = level in ("leak", "weak")
    return Finding(
        level=level,
        text=text,
        remedy=" ".join(_REMEDIES),
        remedies=_REMEDIES if leaks else [],
        plain=_plain(decision) if leaks and decision is not None else SAFE if level == "none" else _not_shown(decision),
        success=decision.share if decision is not None else None,
        false_alarms=decision.chance if decision is not None else None,
        metric=decision.measure if decision is not None else ANY_ORDER,
    )


def _bounds(sent: Sequence[Sent]) -> list[NoiseBound]:
    """What the stated noise of all messages of a client together allows, of each client."""
    found: dict[int, list[NoiseBound]] = defaultdict(list)
    for one in sent:
        if one.bound is not None:
            for client in one.clients:
                found[client].append(one.bound)
    return [together(bounds) for bounds in found.values()]


def _beside(context: RoundContext, decision: Decision | None, read: Sequence[ReadMessage]) -> str:
    """What pages of other companies would have given, and noise."""
    if decision is None:
        return "There is nothing that could be counted."
    quiet = _pooled([one.noise for one in read], decision.measure)
    companies = context.pages.companies if context.pages is not None else 0
    return (
        f"By the lower of precision and recall that is {100 * decision.share:.1f} % ({decision.measure}); with the "
        f"companies' pages permuted among {companies} companies {100 * decision.chance:.1f} % on average, "
        f"{100 * decision.most:.1f} % at most of {FILLINGS} (joint p {decision.p:.3f}); of noise of the messages' size "
        f"{100 * float(shares(quiet)[0]) if quiet is not None else 0:.1f} %."
    )


def _plain(decision: Decision) -> str:
    what = f"different {_WHAT[decision.measure]}"
    cases, came = out_of(decision.share, decision.right[1], f"{what} of the pages behind a message", "piece")
    return (
        f"{cases[:1].upper()}{cases[1:]}, whoever receives the message of a client reads {came}, without their order; "
        f"pages of other companies would have given {hundredths(decision.chance)} of 100."
    )


def _not_shown(decision: Decision | None) -> str:
    what = "tokens" if decision is None else f"different {_WHAT[decision.measure]} of the pages behind messages"
    return not_shown(decision, what, "pages of other companies")


def _rounds(read: Sequence[ReadMessage]) -> dict[int, list[ReadMessage]]:
    found: dict[int, list[ReadMessage]] = defaultdict(list)
    for one in read:
        found[one.sent.round].append(one)
    return dict(found)


def _causes(limits: Iterable[Sequence[Limit]]) -> list[str]:
    """Causes, each with the number of messages."""
    return [f"{cause}: {count}" for cause, count in Counter(str(one.cause) for some in limits for one in some).items()]
