"""Membership scores of before and of now, side by side: python docs/results/scores_table.py WORK.

WORK is the folder of scores.sh. Answers come from the stores of the audits; what is not in them is asked. Corpora
without a model are left out, and so are scores beside the out-model where there is none yet. Every score orders the
companies without any label. AUC and TPR are over all companies of the subset that the audit decides on. For intervals
companies are resampled within each class, alike for all scores of a corpus; for those of a mean, each corpus by itself.
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
from pfl_audit.cli.console import make_progress
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

FIXTURES = Path("fixtures")
MEANS: Mapping[str, tuple[str, ...]] = {"mean": (), "mean without the demo": ("demo",)}
"""Corpora that a mean leaves out: the rows that decide were chosen on the demo."""
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
DECIDED = 5
"""Companies have more questions than this, as where the audit decides."""
MODELS = ("model", "pre-trained", "out-model")
RATE, RATE_NAME = 0.05, "TPR at 5 % FPR"


@dataclass(frozen=True)
class Measured:
    """Numbers of the scores on one corpus.

    Attributes:
        results: Results of the audit; None if it has not ended.
        facts: Sizes, and the accuracy of the models on pages of members and of non-members.
        seconds: CPU seconds of the audit, and of all scores from answers that are known.
        auc: Score to its AUC.
        tpr: Score to its TPR at RATE.
        every: Score to its AUC over all companies, with however few questions.
    """

    results: Results | None
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
        folders = [one for one in (model, FIXTURES / "vt5-pretrained", control) if _is_trained(one)]
        engines = [QueryEngine(open_model(str(one)), store, make_progress(quiet=False)) for one in folders]
        answers = [one.ask(corpus.queries, "questions").responses for one in engines]
        scrubbed = [one.ask(pages, "scrubbed pages").responses for one in engines]
    target, before, *out = answers
    begun = time.process_time()
    memory = memory_features(pages, scrubbed[0], [], {}, *scrubbed[1:])
    table = aggregate(query_features(corpus.queries, target, before, out=out[0] if out else None), memory)
    seconds = time.process_time() - begun
    units = [query.document.unit for query in corpus.queries]
    ratios = _logliks(corpus.queries, target) - _logliks(corpus.queries, before)
    table["llr"] = pd.Series(ratios).groupby(units).mean()
    labels = np.array([corpus.label(unit) is Membership.MEMBER for unit in table.index])
    run = work / f"{name}-audit" / "results.json"
    kept = subset(table, labels, DECIDED)
    read = [_right(corpus, found) for found in answers]
    facts = _sizes(labels), str(len(corpus.queries)), _sizes(kept[1]), *read, *["–"] * (len(MODELS) - len(read))
    auc, tpr = _estimates(*kept)
    results = read_results(run.parent) if run.is_file() else None
    return Measured(
        results, facts, (_cpu(work / f"{name}.cpu"), f"{seconds:.1f}"), auc, tpr, _estimates(table, labels)[0]
    )


def _is_trained(folder: Path) -> bool:
    return (folder / "model.safetensors").is_file()


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
        if not {*columns} <= {*table}:
            continue
        scores = ratio_scores(table[list(columns)].to_numpy(dtype=np.float64))
        curve, (area, (rate,)) = roc_curves(scores, labels), sweep(scores, labels).resampled(counts, (RATE,))
        areas[name] = estimate(float(curve.area()[0]), area)
        rates[name] = estimate(float(curve.tpr_at(RATE)[0][0]), rate)
    return areas, rates


def _check(results: Results, name: str) -> Check:
    return next(check for check in results.checks if check.id == f"membership.{name}")


def _cpu(kept: Path) -> str:
    """Seconds of user and system time that the shell's ``times`` noted, where it did."""
    if not kept.is_file():
        return "–"
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
    yield from _head("corpus", "companies", "questions", "more than five", *(f"accuracy: {one}" for one in MODELS),
                     "finding", "AZK, %", "APK, %", "audit, CPU s", "scores, CPU s")  # fmt: skip
    texts = []
    for name, one in found.items():
        level, attacks = "–", ["–", "–"]
        if one.results and (finding := _check(one.results, "provider").finding):
            level, attacks = finding.level, [by_attack(one.results, row) for row in ("azk", "apk")]
            texts.append(f"\n{name}: {finding.text}")
        yield _row(name, *one.facts, level, *attacks, *one.seconds)
    yield from texts
    oldest = max(OLD, key=lambda score: np.mean([one.auc[score].value for one in found.values()]))
    for title, numbers in (("AUC", "auc"), (RATE_NAME, "tpr")):
        yield f"\n{title}:\n"
        yield from _head("score", *found, *MEANS)
        for score in (*OLD, *NEW):
            yield _line(score, {name: getattr(one, numbers).get(score) for name, one in found.items()}, ".3f")
    for title, numbers in (("AUC", "auc"), ("AUC over all companies (s = 0)", "every"), (RATE_NAME, "tpr")):
        yield f"\n{title}, less that of '{oldest}':\n"
        yield from _head("score", *found, *MEANS)
        for score in NEW:
            apart = {name: _apart(getattr(one, numbers), score, oldest) for name, one in found.items()}
            yield _line(score, apart, "+.3f")


def _apart(numbers: Mapping[str, Estimate], score: str, old: str) -> Estimate | None:
    return numbers[score].minus(numbers[old]) if score in numbers else None


def _line(score: str, cells: Mapping[str, Estimate | None], form: str) -> str:
    """A score on each corpus that has it, with its means; in bold if the finding rests on it."""
    texts = [cell.text(form) if cell else "–" for cell in cells.values()]
    for left in MEANS.values():
        known = [cell for name, cell in cells.items() if cell and name not in left]
        texts.append(f"{mean(known).text(form)} ({len(known)})" if known else "–")
    return _row(f"**{score}**" if score in NAMED else score, *texts)


def _head(*names: str) -> Iterator[str]:
    yield _row(*names)
    yield _row(*["---"] * len(names))


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    known = [name for name in CORPORA if name == "demo" or _is_trained(folder / f"{name}-model")]
    print("\n".join(lines({name: measure(folder, name) for name in known})))
