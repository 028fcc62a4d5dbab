"""Independent units of forms: providers, and near-duplicates where no provider is known; and a permutation of them.

Forms of one provider, and forms that differ in a few words, are put back together or not at all. Resampled or permuted
one by one they would count as many times as they occur. Perfect reconstructions are rare, and where a dozen units hold
none, resampling shows no spread. A permutation of the units over private and new forms keeps its error rate all the
same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pfl_audit.attacks.reconstruction.measures import Order
from pfl_audit.attacks.reconstruction.outcomes import Evaluation, Pick, UnitPermutation
from pfl_audit.attacks.reconstruction.specs import MembershipMetric
from pfl_audit.documents.forms.form import Form
from pfl_audit.documents.forms.partition import THRESHOLD, group_forms
from pfl_audit.metrics.arrays import Floats, permuted_rows
from pfl_audit.provider_identity import provider_identity

PERMUTATIONS = 2000
_CELLS = 4_000_000
"""Fields of all permutations that are held at once."""


@dataclass(frozen=True)
class Units:
    """Units of private and of new forms.

    Attributes:
        of: Form id to its unit.
        name: What a unit is, in the plural.
        apart: Whether providers are known and none has forms on both sides. Then a difference between providers cannot
            be distinguished from memory of a few of them.
    """

    of: Mapping[str, str]
    name: str
    apart: bool


def units_of(private: Sequence[Form], new: Sequence[Form]) -> Units:
    """The provider of each form, else its group of near-duplicates and pages of one document."""
    forms = [*private, *new]
    of = {form.id: f"provider {provider}" for form in forms if (provider := _provider(form))}
    groups, _ = group_forms([form for form in forms if form.id not in of], THRESHOLD)
    name = " or ".join([*(["providers"] if of else []), *(["documents"] if groups else [])])
    sides = [{_provider(form) for form in some} - {""} for some in (private, new)]
    of |= {form.id: f"document {group[0].document.file}" for group in groups for form in group}
    return Units(of, name, bool(sides[0] and sides[1]) and sides[0].isdisjoint(sides[1]))


def permute_units(
    private: Evaluation,
    new: Evaluation,
    units: tuple[Sequence[str], Sequence[str]],
    ranking: MembershipMetric,
    rng: np.random.Generator,
    *,
    alpha: float = 0.05,
    permutations: int = PERMUTATIONS,
) -> UnitPermutation:
    """Permute units over the private and the new forms.

    Args:
        private: Evaluation of the forms that the target was trained on.
        new: Evaluation of forms that it has never seen.
        units: Unit of each field, of the private and of the new forms; one that has fields on both sides counts as two.
        ranking: Membership metric of the gain.
        alpha: Level of the smallest differences that are significant.

    Returns:
        One-sided p-values, at least 1 / (permutations + 1).
    """
    _, here = np.unique(units[0], return_inverse=True)
    _, there = np.unique(units[1], return_inverse=True)
    known = here.max() + 1
    place = np.concatenate([here, known + there])
    own = np.arange(place.max() + 1) < known
    drawn = permuted_rows(own, rng, permutations)

    values = np.concatenate([some.one_shot.baseline[:, 1] - some.one_shot.attack[:, 1] for some in (private, new)])
    kept = private.multi_shot[ranking], new.multi_shot[ranking]
    picks = [(kept[0].attack, kept[1].attack), (kept[0].baseline, kept[1].baseline)]

    def tokens(weights: Floats) -> Floats:
        return weights @ values / weights.sum(axis=1)

    def gain(weights: Floats) -> Floats:
        attack, baseline = (_area(*pair, weights) for pair in picks)
        return attack - baseline

    rows = max(1, _CELLS // len(place))
    gaps = []
    for at in range(0, len(drawn), rows):
        weights = drawn[at : at + rows][:, place].astype(np.float64)
        gaps.append(np.column_stack([of(weights) - of(1.0 - weights) for of in (tokens, gain)]))
    found = np.concatenate(gaps)
    p = (1 + (found[1:] >= found[0] - 1e-12).sum(axis=0)) / (1 + permutations)
    smallest = np.quantile(found[1:], 1 - alpha, axis=0)
    return UnitPermutation(*map(float, (*p, *smallest)))


def _provider(form: Form) -> str:
    return provider_identity(form.document.provider)


def _area(here: Pick, there: Pick, weights: Floats) -> Floats:
    order = Order.by(np.concatenate([here.scores, there.scores]), weights)
    return order.area(np.concatenate([here.values[:, 0], there.values[:, 0]]))
