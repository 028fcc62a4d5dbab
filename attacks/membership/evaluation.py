"""Evaluation of membership attacks over seeds, subsets and resampled providers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from pfl_audit.attacks.membership import classifiers
from pfl_audit.attacks.membership.rows import ALONE, AttackRow
from pfl_audit.attacks.membership.specs import MembershipSettings
from pfl_audit.core.power import ENOUGH
from pfl_audit.errors import NotAuditableError
from pfl_audit.metrics import ranking
from pfl_audit.metrics.arrays import Bools, Counts, Floats, Integers
from pfl_audit.metrics.intervals import Estimate, bootstrap_counts, estimate

FPR_LIMITS = (0.01, 0.03, 0.10)


@dataclass(frozen=True)
class Trial:
    """Calls and scores of one seed.

    Attributes:
        test: Rows that were attacked.
        calls: bool (len(test),).
        scores: float (len(test),); equal to the calls where the attack gives nothing finer.
        order: float (len(test),), what is compared with the control: the scores, and for clusters what says which of
            them the members are. Two models of the same competence may be divided in different ways, so that calls
            differ where neither leaks.
    """

    test: Integers
    calls: Bools
    scores: Floats
    order: Floats


@dataclass(frozen=True)
class Outcome:
    """An attack on the providers with more than ``s`` queries.

    Attributes:
        s: Subset: providers with more than ``s`` queries.
        labels: bool (n,), of the subset.
        trials: One a seed.
        estimates: Metric name to its estimate; no entry where it cannot be resolved.
        spread: Metric name to its deviation over the seeds.
        notes: Metric name to why it cannot be resolved.
        chance: Accuracy of always naming the more frequent class of the attacked providers.
        units: Names of the subset.
    """

    row: AttackRow
    s: int
    labels: Bools
    trials: tuple[Trial, ...]
    estimates: dict[str, Estimate]
    spread: dict[str, float]
    notes: dict[str, str]
    chance: float
    units: tuple[str, ...] = ()

    @property
    def attacked(self) -> Bools:
        """Membership of the providers that the first draw left to be attacked."""
        return self.labels[self.trials[0].test]

    @property
    def metric(self) -> str:
        """Metric that it is judged by: AUC for a score without a threshold, else balanced accuracy.

        Accuracy itself is reported beside it, as the paper does. Where the classes differ in size it is no
        test: always naming the larger class beats an attack that finds half of the members.
        """
        return "AUC" if self.row.kind in ("ratio", "external") else "balanced accuracy"


def subset(table: pd.DataFrame, labels: Bools, s: int) -> tuple[pd.DataFrame, Bools]:
    """T_s: the providers with more than ``s`` queries, sorted by name whatever the order of the rows."""
    order = np.argsort(table.index.to_numpy(dtype=str), kind="stable")
    table, labels = table.iloc[order], labels[order]
    keep = table["queries"].to_numpy() > s
    return table[keep], labels[keep]


def columns_used(row: AttackRow, table: pd.DataFrame) -> list[str]:
    """Columns that an attack decides by: those of its features that the table has.

    In place of a likelihood ratio, a model that was not held against the public one has its log-likelihood.

    Raises:
        NotAuditableError: The table has none of them.
    """
    wanted = (column if column in table else ALONE.get(column, column) for column in row.features)
    found = [column for column in wanted if column in table]
    if not found:
        raise NotAuditableError(
            f"{row.title}: a model gave none of {', '.join(row.features)}",
            "Use models that give losses, or leave it out",
        )
    return found


def run_trial(
    row: AttackRow,
    table: pd.DataFrame,
    labels: Bools,
    seed: int,
    settings: MembershipSettings,
) -> Trial:
    """Attack the subset once: draw who is known, decide on the rest.

    Labels of the attacked providers are used for nothing but the draw that leaves them out.

    Args:
        table: Features of the subset.
        labels: bool (n,), membership.
        settings: Share of the providers that are known, and how classifiers work.
    """
    known = classifiers.draw_known(labels, settings.share, seed, settings.equal_known)
    raw, search = settings.kmeans == "raw", settings.forest_search
    test = np.setdiff1d(np.arange(len(labels)), known)
    columns = columns_used(row, table)
    features = table[columns].to_numpy(dtype=np.float64)
    scores: Floats | None = None
    # acc decides which cluster are the members; nls breaks its ties.
    orient = table["acc"].to_numpy() + 1e-6 * table["nls"].to_numpy()
    if row.kind.startswith("clusters"):
        called = classifiers.predict_kmeans(features[test], orient[test], seed, raw=raw)
    elif row.kind.startswith("forest"):
        scores = classifiers.forest_scores(features[known], labels[known], features[test], seed, search=search)
        called = scores > 0.5
    else:
        if row.scores is not None:
            scores = np.asarray(row.scores(features, known, labels[known], seed), dtype=np.float64)[test]
        else:
            scores = classifiers.ratio_scores(features[test])
        called = classifiers.predict_kmeans(scores[:, None], scores, seed)
    if row.kind.endswith("vote"):
        change = table["delta_nls_mem"].to_numpy()[test]
        memorized = table["nls_mem"].to_numpy()[test] > 0.0  # the name was answered without being on the page (CLS1)
        clustered = classifiers.predict_kmeans(change[:, None], -change, seed, raw=raw)
        called = classifiers.majority_vote(called, memorized, clustered)
        scores = None
    return Trial(
        test,
        called,
        called.astype(np.float64) if scores is None else scores,
        orient[test] if scores is None else scores,
    )


def evaluate(
    row: AttackRow,
    table: pd.DataFrame,
    labels: Bools,
    s: int,
    *,
    seeds: Sequence[int],
    settings: MembershipSettings,
    rng: np.random.Generator,
    groups: Sequence[str] | None = None,
) -> Outcome:
    """Run an attack with every seed and put intervals around what it achieves.

    Args:
        table: One row a provider, from ``features.aggregate``.
        labels: bool (n,), membership of the rows.
        s: Providers with ``s`` queries or fewer are left out.
        seeds: Seeds of the draws and classifiers.
        settings: Share of the providers that a supervised attacker knows, while the rest is attacked by all; and how
            classifiers work.
        groups: Name of the group of each row, which is resampled as a whole; each by itself if None.
    """
    chosen, chosen_labels = subset(table, labels, s)
    trials = tuple(run_trial(row, chosen, chosen_labels, seed, settings) for seed in seeds)
    belong = None if groups is None else pd.Series(groups, index=table.index)[chosen.index].tolist()
    return replace(measure(row, s, chosen_labels, trials, rng, belong), units=tuple(chosen.index))


def measure(
    row: AttackRow,
    s: int,
    labels: Bools,
    trials: tuple[Trial, ...],
    rng: np.random.Generator,
    groups: Sequence[str] | None = None,
) -> Outcome:
    """Put intervals around what the trials achieved on average: over the providers and over the draws of the known.

    A resample is evaluated on one draw, so that the interval holds the spread over the draws as well.

    Args:
        s: Subset: providers with more than ``s`` queries.
        labels: bool (n,), of the subset.
        trials: One a seed.
        rng: Random generator of the bootstrap; from the same state, attacks on the same providers are resampled alike.
        groups: As of ``evaluate``.
    """
    numbers = None if groups is None else np.unique(groups, return_inverse=True)[1]
    counts = bootstrap_counts(labels, rng, groups=numbers)
    once = np.ones((len(labels), 2), dtype=np.float32)  # two columns: of one alone NumPy sums in another order
    values = [{name: found[0] for name, found in _resampled(trial, labels, once).items()} for trial in trials]
    draws = len(trials)
    samples = [_resampled(trial, labels, counts[:, at::draws]) for at, trial in enumerate(trials)]
    estimates: dict[str, Estimate] = {}
    spread: dict[str, float] = {}
    notes: dict[str, str] = {}
    for limit in FPR_LIMITS:
        reasons = (ranking.resolvable(trial.scores, labels[trial.test], limit) for trial in trials)
        if (reason := next(filter(None, reasons), None)) is not None:
            notes[tpr_name(limit)] = reason
    for name in [name for name in values[0] if name not in notes]:
        every = np.array([found[name] for found in values])
        drawn = np.empty(counts.shape[1])
        for at, found in enumerate(samples):
            drawn[at::draws] = found[name]
        estimates[name] = estimate(float(every.mean()), drawn)
        spread[name] = float(every.std())
    members = np.array([labels[trial.test].mean() for trial in trials])
    chance = float(np.maximum(members, 1 - members).mean())
    return Outcome(row, s, labels, trials, estimates, spread, notes, chance)


def enough(labels: Bools) -> bool:
    """Whether there are enough providers of both classes for a test."""
    return min(int(labels.sum()), int((~labels).sum())) >= ENOUGH


def _resampled(trial: Trial, labels: Bools, counts: Counts) -> dict[str, Floats]:
    """Every metric on every resample, float (resamples,) each.

    Args:
        labels: bool (n,), of all providers.
        counts: float32 (n, resamples), likewise.
    """
    attacked = labels[trial.test]
    area, rates = ranking.sweep(trial.scores, attacked, trial.test).resampled(counts, FPR_LIMITS)
    accuracy, balanced = ranking.right_calls(trial.calls, attacked, trial.test, counts)
    found = {"accuracy": accuracy, "balanced accuracy": balanced, "AUC": area}
    return found | dict(zip(map(tpr_name, FPR_LIMITS), rates, strict=True))


def tpr_name(limit: float) -> str:
    """Name of the metric: ``TPR at 1 % FPR``."""
    return f"TPR at {limit:.0%} FPR".replace("%", " %")
