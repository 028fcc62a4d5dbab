"""Audits of pure noise at the level of scores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd

from pfl_audit.attacks.membership.basis import Basis, Reading
from pfl_audit.attacks.membership.decision import Decision, decide_membership
from pfl_audit.attacks.membership.evaluation import Outcome, evaluate, subset
from pfl_audit.attacks.membership.rows import OUT, ROWS, SCORES, AttackRow
from pfl_audit.attacks.membership.specs import MembershipSettings
from pfl_audit.core.verdict import Budget
from pfl_audit.documents.units import PROVIDER
from pfl_audit.fitness.blind import blind_baseline
from pfl_audit.fitness.document_features import DocumentFeatures

from .simulated import table

BUDGET = Budget.shared(1)
"""Of an audit that asks for provider membership alone: the largest that a finding may have."""
PERMUTATIONS = 19
"""Of the documents alone: enough that a declaration is believed."""
Tables = tuple[pd.DataFrame, pd.DataFrame | None, np.ndarray]


def judge(
    target: pd.DataFrame,
    control: pd.DataFrame | None,
    labels: np.ndarray,
    seed: int,
    *,
    rows: tuple[AttackRow, ...] = ROWS,
    budget: Budget = BUDGET,
    seeds: int = 2,
    documents: np.ndarray | None = None,
    reads: float = 1.0,
    declared: Literal["units", "groups"] | None = None,
    groups: Sequence[str] | None = None,
    s: int = 0,
) -> tuple[Decision, Basis]:
    """Judge features as an audit does: every attack, on one subset.

    Args:
        target: Features under the model under audit.
        control: The same providers under the control, or None.
        labels: bool (n,), membership.
        seed: Of bootstrap and permutation.
        rows: The attacks.
        budget: Of the finding.
        seeds: Draws of known providers.
        documents: Features of the documents, float (n, columns), in the order of the rows; none differ if None.
        reads: ANLS of the control, where that of the target is 1.
        declared: What the user declares to be drawn at random; the units, where there is no control.
        groups: Name of the group of each row; each by itself if None.
        s: Subset.
    """
    chosen, kept = subset(target, labels, s)
    belong = pd.Series(target.index if groups is None else list(groups), index=target.index)

    def outcomes(frame: pd.DataFrame) -> dict[str, Outcome]:
        found: dict[str, Outcome] = {}
        for row in rows:
            found[row.id] = evaluate(
                row, frame, labels, s, seeds=range(seeds), settings=MembershipSettings(),
                rng=np.random.default_rng([seed, s]), groups=belong.tolist(),
            )  # fmt: skip
        return found

    found = outcomes(target)
    attacked = next(iter(found.values())).trials[0].test
    features = pd.DataFrame(np.zeros((len(target), 1)) if documents is None else documents, index=target.index)
    described = DocumentFeatures(
        tuple(chosen.index), {"counts": features.loc[chosen.index]}, np.zeros((len(chosen), 0))
    )
    rng = np.random.default_rng([seed, 99])
    basis = Basis(
        unit=PROVIDER,
        attacked=attacked,
        labels=kept[attacked],
        groups=belong[chosen.index[attacked]].tolist(),
        declared=declared or (None if control is not None else "units"),
        subtracted=None if control is None else "control",
        readings={
            name: Reading("the control", 1.0, reads, 100, 10)
            for name in ("control", "references")
            if control is not None
        },
        blind=blind_baseline(described, kept, rng, PERMUTATIONS, belong[chosen.index].tolist()),
    )
    beside = outcomes(control) if control is not None else {}
    return decide_membership([*found.values()], beside, basis, budget, rng), basis


def decide(target: pd.DataFrame, control: pd.DataFrame | None, labels: np.ndarray, seed: int, **how: Any) -> Decision:
    """The decision alone."""
    return judge(target, control, labels, seed, **how)[0]


def drawn_anew(frame: pd.DataFrame) -> pd.Index:
    """Columns that a case makes up; scores against out-models stay the noise that they are."""
    return frame.columns.drop(["queries", *OUT, *SCORES])


def equal(rng: np.random.Generator) -> Tables:
    """Eighty providers of each class, a control as good as the model."""
    frame, labels = table(80, 80, rng)
    control, _ = table(80, 80, rng)
    return frame, control.set_axis(frame.index).assign(queries=frame["queries"].to_numpy()), labels


def unequal(rng: np.random.Generator) -> Tables:
    """Twenty-four members among 216 others, and no control."""
    frame, labels = table(24, 216, rng)
    return frame, None, labels


def ties(rng: np.random.Generator) -> Tables:
    """Features of few values: four answers of each provider, right or wrong."""
    frame, labels = table(60, 60, rng)
    for column in drawn_anew(frame):
        frame[column] = rng.binomial(4, 0.3, len(frame)) / 4
    return frame, None, labels


def correlated(rng: np.random.Generator) -> Tables:
    """All features are nearly the same one, and so are the control's."""
    frame, labels = table(60, 60, rng)
    common = rng.normal(size=len(frame))
    control = frame.copy()
    for one in (frame, control):
        for column in drawn_anew(one):
            one[column] = common + 0.3 * rng.normal(size=len(one))
    return frame, control, labels


def heavy(rng: np.random.Generator) -> Tables:
    """Numbers of questions with a long tail, and means that are the less sure the fewer there are."""
    frame, labels = table(60, 60, rng)
    queries = np.minimum(rng.geometric(0.12, len(frame)) + 1, 200)
    for column in drawn_anew(frame):
        frame[column] = rng.normal(size=len(frame)) / np.sqrt(queries)
    return frame.assign(queries=queries), None, labels


def unlike(rng: np.random.Generator) -> Tables:
    """Members' pages are easier, for the model and for the control alike."""
    frame, labels = table(80, 80, rng)
    easier = 0.8 * labels + 0.5 * rng.normal(size=len(frame))
    control = frame.copy()
    for one in (frame, control):
        for column in drawn_anew(one).drop(["nls_mem", "delta_nls_mem"]):
            sign = -1.0 if column == "loss" else 1.0
            one[column] = sign * easier + rng.normal(size=len(one))
    return frame, control, labels


CASES: dict[str, Callable[[np.random.Generator], Tables]] = {
    case.__name__: case for case in (equal, unequal, ties, correlated, heavy, unlike)
}
