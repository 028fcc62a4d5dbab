"""Audits of a model that leaks nothing, by how well its control reads: the curve from which COMPETENT is taken.

A model finds the key of a share of the questions; whether it then reads the value depends on how hard the page is, else
it guesses, whatever the page. Pages of members are half a deviation easier, or harder, for whoever reads them, and
nothing in the documents shows it.
"""

from __future__ import annotations

from functools import partial
from typing import Final

import numpy as np
import pandas as pd
from scipy.special import expit, log_expit

from pfl_audit.attacks.membership.rows import ROWS
from tests.attacks.noise_audits import decide
from tests.bench.rates.engine import Design, design

FOUND: Final = 0.45
"""Share of the questions whose key the model under audit finds."""
RATIOS: Final = (0.1, 1 / 3, 0.5, 0.6, 0.7, 0.8, 1.0, 1.25, 1.5, 2.0)
"""Share of the control, over that of the model."""
_ROWS: Final = tuple(row for row in ROWS if row.id in ("azk", "likelihood-ratio"))
_ASIDE: Final = 12
"""Non-members that are set aside."""


def audit(ratio: float, easier: float, companies: int, seed: int) -> str:
    """Whether the test rejects at 5 %, whatever the control reads, and whether the control is refused.

    Args:
        ratio: Of RATIOS.
        easier: By how many deviations members' pages are easier.
        companies: Of each class.
        seed: Number of the audit.
    """
    rng = np.random.default_rng([47, seed])
    labels = rng.permutation(np.arange(2 * companies + _ASIDE) < companies)
    hard = rng.normal(size=len(labels)) - easier * labels
    units = np.repeat(np.arange(len(labels)), rng.integers(6, 21, len(labels)))
    pages = hard[units] + rng.normal(size=len(units))
    order = rng.random(len(units))  # which keys are found: those of the weaker model are among those of the stronger
    target, control = (_read(order < FOUND * times, pages, rng) for times in (1.0, ratio))
    aside = np.isin(units, rng.choice(np.flatnonzero(~labels), _ASIDE, replace=False))
    reads = float(control["acc"][aside].mean() / target["acc"][aside].mean())
    kept = np.unique(units[~aside])
    tables = [one[~aside].groupby(units[~aside]).mean() for one in (target, control)]
    names = [f"provider {unit:04d}" for unit in kept]
    tables = [one.set_axis(names).assign(queries=np.bincount(units)[kept]) for one in tables]
    decision = decide(*tables, labels[kept], seed, rows=_ROWS, seeds=1, reads=reads)
    said = "rejects" if min(one.p_value for found in decision.by_access.values() for one in found) <= 0.05 else "keeps"
    return said if decision.strongest.refusal is None else f"{said}, refused"


def _read(found: np.ndarray, pages: np.ndarray, rng: np.random.Generator) -> pd.DataFrame:
    noise = 0.7 * rng.normal(size=len(pages))
    logit = np.where(found, 1.0 - pages, -2.5) + noise
    right = rng.random(len(pages)) < expit(logit)
    return pd.DataFrame({"acc": right * 1.0, "nls": right * 1.0, "llr": log_expit(logit)})


DESIGNS: tuple[Design, ...] = tuple(
    design(f"competence {ratio:.2f}, members' pages {name}", partial(audit, ratio, easier, 80), {})
    for ratio in RATIOS
    for name, easier in (("easier", 0.5), ("harder", -0.5))
)
