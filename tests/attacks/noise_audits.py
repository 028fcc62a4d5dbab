"""Audits of pure noise at the level of scores."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd

from pfl_audit.attacks.membership import present
from pfl_audit.attacks.membership.decision import Decision, decide_membership
from pfl_audit.attacks.membership.evaluation import Outcome, evaluate
from pfl_audit.attacks.membership.rows import OUT, ROWS, SCORES, AttackRow
from pfl_audit.core.verdict import Budget

from .simulated import table

BUDGET = Budget.shared(1)
"""Of an audit that asks for provider membership alone: the largest that a finding may have."""
Tables = tuple[pd.DataFrame, pd.DataFrame | None, np.ndarray]


def decide(
    target: pd.DataFrame,
    control: pd.DataFrame | None,
    labels: np.ndarray,
    seed: int,
    *,
    rows: tuple[AttackRow, ...] = ROWS,
    budget: Budget = BUDGET,
    seeds: int = 2,
    blind: np.ndarray | None = None,
    trusted: bool = True,
    s: tuple[int, ...] = (0, 5),
) -> Decision:
    """Judge features as an audit does: every attack, on the subset that the finding rests on.

    Args:
        target: Features under the model under audit.
        control: The same providers under the control, or None.
        labels: bool (n,), membership.
        seed: Of bootstrap and permutation.
        rows: The attacks.
        budget: Of the finding.
        seeds: Draws of known providers.
        blind: Score of each provider from its documents alone, or None.
        trusted: As ``decide_membership`` takes it.
        s: Subsets.
    """

    def outcomes(frame: pd.DataFrame) -> dict[str, Outcome]:
        found: dict[str, list[Outcome]] = {}
        for row in rows:
            found[row.id] = [
                evaluate(
                    row, frame, labels, one, seeds=range(seeds), share=0.15, rng=np.random.default_rng([seed, one]),
                    base=found[row.base][at] if row.base in found else None,
                )
                for at, one in enumerate(s)
            ]  # fmt: skip
        return {name: present.primary(every) for name, every in found.items()}

    documents = None
    if blind is not None:
        row = AttackRow("documents", "Documents", "ratio", ("score",), "ZK+U")
        frame = pd.DataFrame({"score": blind, "queries": target["queries"].to_numpy()}, index=target.index)
        documents = evaluate(
            row, frame, labels, s[0], seeds=range(seeds), share=0.15, rng=np.random.default_rng([seed, s[0]])
        )
    beside = outcomes(control) if control is not None else {}
    rng = np.random.default_rng([seed, 99])
    return decide_membership([*outcomes(target).values()], beside, documents, budget, rng, trusted=trusted)


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
