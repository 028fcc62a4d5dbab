"""Document-level permutation test between private forms and forms that are new to the model.

Perfect reconstructions are rare, and where a dozen documents hold none, resampling shows no spread. A permutation of
the documents over the two sets keeps its error rate all the same.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pfl_audit.attacks.reconstruction.attack import MembershipMetric
from pfl_audit.attacks.reconstruction.curves import Order
from pfl_audit.attacks.reconstruction.outcomes import DocumentPermutation, Evaluation, Pick
from pfl_audit.attacks.reconstruction.similarity import improvement_factor
from pfl_audit.metrics.arrays import Floats

PERMUTATIONS = 2000
_CELLS = 4_000_000
"""Fields of all permutations that are held at once."""


def permute_documents(
    private: Evaluation,
    new: Evaluation,
    documents: tuple[Sequence[str], Sequence[str]],
    epsilon: float,
    ranking: MembershipMetric,
    rng: np.random.Generator,
    permutations: int = PERMUTATIONS,
) -> DocumentPermutation:
    """Permute documents over the private and the new forms.

    Args:
        private: Evaluation of the forms that the target was trained on.
        new: Evaluation of forms that it has never seen.
        documents: Document of each field, of the private and of the new forms.
        epsilon: Smoothing constant of the improvement factor.
        ranking: Membership metric of the gain.

    Returns:
        One-sided p-values, at least 1 / (permutations + 1).
    """
    _, here = np.unique(documents[0], return_inverse=True)
    _, there = np.unique(documents[1], return_inverse=True)
    known = here.max() + 1
    place = np.concatenate([here, known + there])
    own = np.arange(place.max() + 1) < known
    drawn = np.vstack([own, rng.permuted(np.tile(own, (permutations, 1)), axis=1)])

    values = np.vstack([np.hstack([some.one_shot.attack, some.one_shot.baseline]) for some in (private, new)])
    kept = private.multi_shot[ranking], new.multi_shot[ranking]
    picks = [(kept[0].attack, kept[1].attack), (kept[0].baseline, kept[1].baseline)]

    def improvement(weights: Floats) -> Floats:
        means = weights @ values / weights.sum(axis=1, keepdims=True)
        return improvement_factor(means[:, :4], means[:, 4:], epsilon)

    def gain(weights: Floats) -> Floats:
        attack, baseline = (_area(*pair, weights) for pair in picks)
        return attack - baseline

    rows = max(1, _CELLS // len(place))
    gaps = []
    for at in range(0, len(drawn), rows):
        weights = drawn[at : at + rows][:, place].astype(np.float64)
        gaps.append(np.column_stack([of(weights) - of(1.0 - weights) for of in (improvement, gain)]))
    found = np.concatenate(gaps)
    p = (1 + (found[1:] >= found[0] - 1e-12).sum(axis=0)) / (1 + permutations)
    return DocumentPermutation(float(p[0]), float(p[1]))


def _area(here: Pick, there: Pick, weights: Floats) -> Floats:
    order = Order.by(np.concatenate([here.scores, there.scores]), weights)
    return order.area(np.concatenate([here.values[:, 0], there.values[:, 0]]))
