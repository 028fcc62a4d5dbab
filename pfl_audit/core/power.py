"""How often an audit of a corpus would find a leak of a stated size: the power table, before anything is asked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from statistics import NormalDist
from typing import Final, TypedDict

import numpy as np
from scipy.special import ndtr, ndtri

from pfl_audit.core.verdict import COMPARED, LEAK_BUDGET
from pfl_audit.documents.corpus import Corpus, is_asked
from pfl_audit.documents.document import Membership
from pfl_audit.metrics.arrays import Floats
from pfl_audit.metrics.power import effect_found, power_at

ATTACKED: Final = 0.85
"""Share of each class that is attacked; the rest is known to attacks with partial knowledge."""
ENOUGH: Final = 20
"""Attacked providers of each class below which an audit leaves an accuracy unresolved."""
NEEDED: Final = ceil((ENOUGH - 0.5) / ATTACKED)
"""Providers of each class that leave so many to attack."""
FINDINGS: Final = 10
"""Findings that share the error budget of an audit with all checks of pages."""
NAMED: Final = 3
"""Attacks of a membership finding that are tested together: one of each level of access."""
ACCURACIES: Final = (0.55, 0.60, 0.70, 0.80)
"""AUC of the score of an attack on providers, or balanced accuracy of its calls."""
GAPS: Final = (0.01, 0.03, 0.10)
"""Gaps in how often a value that was taken off the page is given back, members minus non-members."""
BASE: Final = 0.05
"""How often such a value is given back for non-members."""
WITHIN: Final = 0.7
"""Correlation between the answers on two pages of one provider: 0.76 for names given back by fixtures/vt5-finetuned
(144 scrubbed pages of 82 members, one-way analysis of variance), 0.73 for those of an earlier one."""

_Power = Callable[[float, bool], float]


class PowerRow(TypedDict):
    """Power against one effect.

    Attributes:
        leak: ``accuracy`` of an attack on providers, or ``gap`` between answers on pages of members and of others.
        effect: Balanced accuracy, or gap.
        alone: Share of audits without a control that find it, 0 to 1.
        with_control: Share of audits with a control that find it.
    """

    leak: str
    effect: float
    alone: float
    with_control: float


@dataclass(frozen=True)
class PowerTable:
    """Shares of audits that find an effect.

    Attributes:
        members: Pages of each member provider.
        others: Pages of each non-member provider.
        rows: A row an effect; none where there are too few providers.
        smallest: Leak to the smallest effect that 80 % of audits find, ``alone`` and ``with_control``; None where
            no effect is found that often.
    """

    members: tuple[int, ...]
    others: tuple[int, ...]
    rows: tuple[PowerRow, ...]
    smallest: Mapping[str, Mapping[str, float | None]]

    def to_dict(self) -> dict[str, object]:
        """As JSON."""
        return {
            "members": len(self.members),
            "non_members": len(self.others),
            "pages_of_members": sum(self.members),
            "pages_of_non_members": sum(self.others),
            "needed": NEEDED,
            "rows": [dict(row) for row in self.rows],
            "smallest": {leak: dict(found) for leak, found in self.smallest.items()},
        }


def power_table(corpus: Corpus) -> PowerTable | None:
    """The power of an audit with this corpus, or None where it does not hold members and non-members.

    The rule that is modelled: an attack on providers is found where the AUC of its score, or with a control of the
    difference to a control's score that shares nothing with it, is significant at LEAK_BUDGET / FINDINGS / NAMED. A
    control that shares what makes pages hard finds more. Without a control the classes must have been drawn at random.
    A gap is found where a permutation of the labels is significant at LEAK_BUDGET / FINDINGS, one-sided, and, with a
    control, where the paired difference to what the control shows is significant at COMPARED. Statistics are taken as
    normal, and the documents alone as showing nothing.

    ATTACKED of the providers of each class are attacked. A gap lies between BASE and BASE + gap; answers on pages of
    one provider are correlated by WITHIN.

    Args:
        corpus: All of it; training pages and held-out parts of BLUE are left out.
    """
    asked = (page for page in corpus.documents if is_asked(page))
    pages = Counter(page.unit for page in asked)
    members, others = (
        tuple(pages[unit] for unit in sorted(pages) if corpus.label(unit) is label)
        for label in (Membership.MEMBER, Membership.NON_MEMBER)
    )
    return table_of(members, others) if members and others else None


def table_of(members: Sequence[int], others: Sequence[int]) -> PowerTable:
    """The power table for numbers of pages.

    Args:
        members: Pages of each member, each at least one.
        others: Pages of each non-member.
    """
    rows: list[PowerRow] = []
    smallest: dict[str, Mapping[str, float | None]] = {}
    if min(len(members), len(others)) >= NEEDED:
        attacked = [round(ATTACKED * len(pages)) for pages in (members, others)]
        powers: dict[str, tuple[Sequence[float], _Power, float]] = {
            "accuracy": (ACCURACIES, lambda effect, control: accuracy_power(effect, *attacked, control=control), 0.5),
            "gap": (GAPS, lambda effect, control: gap_power(effect, members, others, control=control), 0.0),
        }
        for leak, (effects, power, nothing) in powers.items():
            rows += [
                {"leak": leak, "effect": effect, "alone": power(effect, False), "with_control": power(effect, True)}
                for effect in effects
            ]
            smallest[leak] = {
                name: _smallest(power, nothing, control=control)
                for name, control in (("alone", False), ("with_control", True))
            }
    return PowerTable(tuple(members), tuple(others), tuple(rows), smallest)


def accuracy_power(area: float, members: int, others: int, *, control: bool) -> float:
    """Share of audits that find an attack on providers whose score has a given AUC.

    The deviation of an AUC is that of Hanley and McNeil (1982), and under the null that of the rank-sum test.

    Args:
        area: AUC of the score, 0.5 to 1; of calls it is the balanced accuracy.
        members: Attacked ones.
        others: Attacked non-members.
        control: Whether the score of a control is subtracted that shares nothing with the model's.
    """
    if control:  # twice the variance; both scores are taken as normal
        area = float(ndtr(ndtri(area) / np.sqrt(2)))
    pairs = area / (2 - area), 2 * area**2 / (1 + area)
    variance = area * (1 - area) + (members - 1) * (pairs[0] - area**2) + (others - 1) * (pairs[1] - area**2)
    null = np.sqrt((members + others + 1) / (12 * members * others))
    return power_at(area - 0.5, float(_critical(NAMED) * null), float(np.sqrt(variance / (members * others))))


def gap_power(gap: float, members: Sequence[int], others: Sequence[int], *, control: bool) -> float:
    """Share of audits that find a gap between the values given back for members and for non-members.

    Args:
        gap: Above BASE, at most 1 - BASE.
        members: Pages of each member.
        others: Pages of each non-member.
        control: Whether a control model is asked as well.
    """
    inside, outside = _variance(members), _variance(others)
    pooled = BASE + gap * sum(members) / (sum(members) + sum(others))
    deviation = np.sqrt(_spread(BASE + gap) * inside + _spread(BASE) * outside)
    permuted = np.sqrt(_spread(pooled) * (inside + outside))
    compared = np.sqrt(_spread(BASE) * (inside + outside)) if control else None
    return power_at(gap, float(_critical() * permuted), float(deviation), compared, COMPARED)


def _critical(tests: int = 1) -> float:
    return NormalDist().inv_cdf(1 - LEAK_BUDGET / FINDINGS / tests)


def _spread(share: float) -> float:
    """Variance of one answer that is right with this probability."""
    return share * (1 - share)


def _variance(pages: Sequence[int]) -> float:
    """Variance of the mean over pages of which those of one provider are correlated, for answers of variance one."""
    sizes: Floats = np.asarray(pages, dtype=np.float64)
    return float(WITHIN * (sizes**2).sum() / sizes.sum() ** 2 + (1 - WITHIN) / sizes.sum())


def _smallest(power: _Power, nothing: float, *, control: bool) -> float | None:
    largest = 0.5 if nothing else 1 - BASE
    found = effect_found(lambda effect: power(nothing + effect, control), largest)
    return nothing + found if np.isfinite(found) else None
