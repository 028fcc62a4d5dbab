"""Membership scores of before and of now, side by side: python docs/results/scores_table.py WORK.

WORK is the folder of scores.sh; corpora whose audit is not finished are left out. Answers come from the stores of the
audits, and nothing is asked again. Every score ranks companies without any label. AUC and TPR are over all companies of
the subset that the audit decides on. Intervals (95 %) resample companies within each class, the same for all scores of
a corpus; those of a mean resample each corpus by itself.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from pfl_audit.attacks.membership.classifiers import ratio_scores
from pfl_audit.attacks.membership.evaluation import subset
from pfl_audit.attacks.membership.features import aggregate, memory_features, query_features
from pfl_audit.attacks.membership.question_scores import LARGEST_LOSS
from pfl_audit.attacks.membership.rows import ROWS, SCRUBBED_RATIO
from pfl_audit.attacks.questions.corpora import audited_corpus
from pfl_audit.attacks.questions.engine import QueryEngine
from pfl_audit.attacks.questions.inputs import QuestionInputs
from pfl_audit.core.results import Check, Results, read_results
from pfl_audit.core.store import ResponseStore
from pfl_audit.documents.corpus import Corpus
from pfl_audit.documents.document import Membership, Query
from pfl_audit.documents.scrubbing.questions import scrubbed_questions
from pfl_audit.metrics.answers import accuracy
from pfl_audit.metrics.arrays import Bools, Floats
from pfl_audit.metrics.intervals import Estimate, bootstrap_counts, estimate
from pfl_audit.metrics.ranking import roc_curves, sweep
from pfl_audit.models.open import open_model
from pfl_audit.models.protocol import Response
from pfl_audit.progress import Silent

FIXTURES = Path("fixtures")
CORPORA = ("demo", "fcc", "freight", "utility", "german")
OLD: Mapping[str, tuple[str, ...]] = {
    "accuracy (orders the clusters of AZK)": ("acc",),
    "likelihood ratio, whole answers": ("llr",),
    "likelihood ratio, whole answers, and scrubbed": ("llr", SCRUBBED_RATIO),
    "likelihood ratio, mean loss": ("delta_loss",),
    "likelihood ratio, mean loss, and scrubbed": ("delta_loss", SCRUBBED_RATIO),
}
"""Scores of before without labels, by their columns: means over a company of losses, none of them transformed."""
NEW: Mapping[str, tuple[str, ...]] = {
    row.id: row.features for row in ROWS if row.kind == "ratio" and row.id not in ("lira", "rmia")
}
NAMED = tuple(row.id for row in ROWS if row.decides)
RATE = 0.05


@dataclass(frozen=True)
class Measured:
    """Numbers of the scores on one corpus.

    Attributes:
        results: Of the audit.
        facts: Sizes, and the accuracy of the models on pages of members and of non-members.
        seconds: CPU seconds of the audit, and of all scores from answers that are known.
        auc: Score to its AUC.
        tpr: Score to its TPR at RATE.
        every: Score to its AUC over all companies, with however few questions.
    """

    results: Results
    facts: tuple[str, ...]
    seconds: tuple[str, str]
    auc: Mapping[str, Estimate]
    tpr: Mapping[str, Estimate]
    every: Mapping[str, Estimate]


def measure(work: Path, name: str) -> Measured:
    """Take the answers of an audit from its store, and score them."""
    model, control, red = work / f"{name}-model", work / f"{name}-out", work / name
    if name == "demo":
        model, control, red = (FIXTURES / one for one in ("vt5-finetuned", "vt5-out", "red"))
    corpus = audited_corpus(QuestionInputs(red=red))
    pages = scrubbed_questions(corpus, "provider_name", seed=0).queries
    with ResponseStore(work / f"{name}.sqlite") as store:
        models = model, FIXTURES / "vt5-pretrained", control
        engines = [QueryEngine(open_model(str(folder)), store, Silent()) for folder in models]
        target, before, out = (one.ask(corpus.queries, "questions").responses for one in engines)
        scrubbed = [one.ask(pages, "scrubbed pages").responses for one in engines]
        if any(one.asked for one in engines):
            sys.exit(f"error: the audit of {name} has left questions open. Run scores.sh again.")
    begun = time.process_time()
    memory = memory_features(pages, scrubbed[0], [], {}, scrubbed[1], scrubbed[2])
    table = aggregate(query_features(corpus.queries, target, before, out=out), memory)
    seconds = time.process_time() - begun
    units = [query.document.unit for query in corpus.queries]
    ratios = _logliks(corpus.queries, target) - _logliks(corpus.queries, before)
    table["llr"] = pd.Series(ratios).groupby(units).mean()
    labels = np.array([corpus.label(unit) is Membership.MEMBER for unit in table.index])
    results = read_results(work / f"{name}-audit")
    kept = subset(table, labels, int(str(_check(results, "answers-g4").settings["decided at s"])))
    read = (_right(corpus, found) for found in (before, target, out))
    facts = _sizes(labels), str(len(corpus.queries)), _sizes(kept[1]), *read
    auc, tpr = _estimates(*kept)
    return Measured(
        results, facts, (_cpu(work / f"{name}.cpu"), f"{seconds:.1f}"), auc, tpr, _estimates(table, labels)[0]
    )


def _logliks(queries: Sequence[Query], responses: Mapping[str, Response]) -> Floats:
    """Log-likelihood of each whole answer, as the scores of before had it."""
    found = (responses[query.id] for query in queries)
    return np.array([-min(one.loss or 0.0, LARGEST_LOSS) * (one.tokens or 1) for one in found])


def _right(corpus: Corpus, responses: Mapping[str, Response]) -> str:
    """Share of right answers about members and about non-members, in per cent."""
    right = pd.Series([accuracy(responses[query.id].answer, query.answers) for query in corpus.queries])
    means = right.groupby([corpus.label(query.document.unit) is Membership.MEMBER for query in corpus.queries]).mean()
    return f"{100 * means[True]:.1f} / {100 * means[False]:.1f}"


def _sizes(labels: Bools) -> str:
    return f"{labels.sum()} / {(~labels).sum()}"


def _estimates(table: pd.DataFrame, labels: Bools) -> tuple[dict[str, Estimate], dict[str, Estimate]]:
    """AUC and TPR of every score, resampled alike."""
    counts, areas, rates = bootstrap_counts(labels, np.random.default_rng(0)), {}, {}
    for name, columns in {**OLD, **NEW}.items():
        scores = ratio_scores(table[[one for one in columns if one in table]].to_numpy(dtype=np.float64))
        curve, (area, (rate,)) = roc_curves(scores, labels), sweep(scores, labels).resampled(counts, (RATE,))
        areas[name] = estimate(float(curve.area()[0]), area)
        rates[name] = estimate(float(curve.tpr_at(RATE)[0][0]), rate)
    return areas, rates


def _check(results: Results, name: str) -> Check:
    return next(check for check in results.checks if check.id == f"membership.{name}")


def _cpu(kept: Path) -> str:
    """Seconds of user and system time that the shell's ``times`` noted."""
    parts = re.findall(r"(\d+)m([\d.]+)s", kept.read_text(encoding="utf-8"))
    return f"{sum(60 * int(minutes) + float(rest) for minutes, rest in parts):.0f}"


def mean(found: Sequence[Estimate]) -> Estimate:
    """Mean over corpora, resampled in each by itself."""
    return estimate(float(np.mean([one.value for one in found])), np.mean([one.samples for one in found], axis=0))


def by_attack(results: Results, name: str) -> str:
    """Balanced accuracy of an attack as the audit prints it."""
    check = _check(results, name)
    wanted = {"s": check.settings["decided at s"], "model": "target"}
    found = next(one for one in check.metrics if one.name == "balanced accuracy" and one.slice == wanted)
    low, high = found.ci or (float("nan"), float("nan"))
    return f"{100 * (found.value or 0):.1f} [{100 * low:.1f}, {100 * high:.1f}]"


def lines(found: Mapping[str, Measured]) -> Iterator[str]:
    """The tables as Markdown."""
    yield from _head("corpus", "companies", "questions", "decided on", "accuracy: pre-trained", "model", "out-model",
                     "finding", "AZK, %", "APK, %", "audit, CPU s", "scores, CPU s")  # fmt: skip
    for name, one in found.items():
        finding = _check(one.results, "provider").finding
        level = finding.level if finding else "–"
        yield _row(name, *one.facts, level, *(by_attack(one.results, row) for row in ("azk", "apk")), *one.seconds)
    for name, one in found.items():
        finding = _check(one.results, "provider").finding
        yield f"\n{name}: {finding.text if finding else '–'}"
    oldest = max(OLD, key=lambda score: np.mean([one.auc[score].value for one in found.values()]))
    for title, numbers in (("AUC", "auc"), (f"TPR at {RATE:.0%} FPR", "tpr")):
        yield f"\n{title}:\n"
        yield from _head("score", *found, "mean")
        for score in (*OLD, *NEW):
            cells = [getattr(one, numbers)[score] for one in found.values()]
            yield _row(f"**{score}**" if score in NAMED else score, *(one.text(".3f") for one in (*cells, mean(cells))))
    for title, numbers in (("", "auc"), (", all companies (s = 0)", "every"), (f", TPR at {RATE:.0%} FPR", "tpr")):
        yield f"\nDifference to {oldest}{title}:\n"
        yield from _head("score", *found, "mean")
        for score in NEW:
            apart = [getattr(one, numbers)[score].minus(getattr(one, numbers)[oldest]) for one in found.values()]
            cells = [one.text("+.3f") for one in (*apart, mean(apart))]
            yield _row(f"**{score}**" if score in NAMED else score, *cells)


def _head(*names: str) -> Iterator[str]:
    yield _row(*names)
    yield _row(*["---"] * len(names))


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    finished = [name for name in CORPORA if (folder / f"{name}-audit" / "results.json").is_file()]
    print("\n".join(lines({name: measure(folder, name) for name in finished})))
