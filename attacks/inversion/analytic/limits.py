"""Reasons why the closed form recovers less than the whole document, as sentences for the report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum, auto
from math import sqrt
from typing import Final

import numpy as np

from pfl_audit.attacks.inversion.analytic.noise import Noise
from pfl_audit.attacks.inversion.analytic.pixels import Page
from pfl_audit.attacks.inversion.update.traits import Traits
from pfl_audit.metrics.arrays import Floats

TOO_MUCH = 3.0
"""Times the error that noise explains, from which on it is not noise."""
_VISIBLE = 1 / 255


class Cause(StrEnum):
    """Cause of an incomplete recovery."""

    MISSING = auto()
    MIXED = auto()
    CROWDED = auto()
    NOISE = auto()
    SIGNS = auto()
    UNSEEN = auto()
    ROUNDED = auto()
    QUANTISED = auto()
    SPARSE = auto()
    DECAYED = auto()
    OTHER = auto()
    DROPOUT = auto()
    FORM = auto()
    PATCHES = auto()
    FIRST = auto()


CONDITIONS: Final = {
    Cause.MISSING: "it needs these tensors",
    Cause.MIXED: "it needs the gradient of one page, or of several that share no position's signal",
    Cause.CROWDED: "it needs fewer positions than the vectors have numbers",
    Cause.NOISE: "it needs less noise, or more gradients of the same page, whose mean has less",
    Cause.SIGNS: "it needs a gradient or a step of SGD instead of one of Adam",
    Cause.UNSEEN: "it needs a model that adds up absolute coordinates",
    Cause.ROUNDED: "it needs single precision",
    Cause.QUANTISED: "it needs numbers in more levels",
    Cause.SPARSE: "it needs more of the entries",
    Cause.OTHER: "it needs the weights that the client was sent",
    Cause.DECAYED: "it needs a gradient or a step of SGD instead of steps of Adam",
    Cause.DROPOUT: "it needs a gradient that was taken without dropout",
    Cause.FORM: "it needs the form that the client filled in",
    Cause.PATCHES: "it needs fewer distinct patches than a patch has numbers: larger patches, or an emptier page",
    Cause.FIRST: "it needs a message of a later round, whose adapters' halves B are not zero",
}
"""Under which condition the closed forms would recover what is missing."""


@dataclass(frozen=True)
class Limit:
    """Something that was not recovered, or not with certainty.

    Attributes:
        words: Sentence for the report.
    """

    cause: Cause
    words: str

    def __str__(self) -> str:
        return self.words


def sent(traits: Traits) -> Limit | None:
    """What was done to the update before it was sent, where that explains what is missing."""
    if traits.signs:
        return Limit(Cause.SIGNS, "all numbers are of one size, as after a step of Adam")
    if traits.levels:
        return Limit(Cause.QUANTISED, f"the update is quantised: {traits.levels} different numbers in a row at most")
    if traits.kept < 1:
        return Limit(Cause.SPARSE, f"the update is sparse: {traits.kept:.1%} of the entries were sent")
    if traits.rounded:
        return Limit(Cause.ROUNDED, f"the update is rounded to {traits.rounded}")
    return None


def restated(limits: Sequence[Limit], traits: Traits) -> tuple[Limit, ...]:
    """Limits with their true cause, where the numbers of the update show one.

    Rounding is accounted for in every test (``noise``), so that what it leaves mixed is mixed; quantised and sparse
    updates look mixed, crowded or noisy.
    """
    cause = sent(traits)
    if cause is None:
        return tuple(limits)
    hidden = (Cause.CROWDED,) if cause.cause is Cause.ROUNDED else (Cause.CROWDED, Cause.MIXED, Cause.NOISE)
    found = [
        Limit(cause.cause, f"{limit.words.split(':')[0]}: {cause.words}") if limit.cause in hidden else limit
        for limit in limits
    ]
    return tuple(dict.fromkeys(found))


def after_decay(limits: Sequence[Limit], share: float) -> tuple[Limit, ...]:
    """Limits of an update that weight decay was taken out of: AdamW's steps leave no sums."""
    words = f"steps of AdamW, whose weight decay of {share:.1e} in all was taken out, leave no sums of signals"
    return tuple(
        dict.fromkeys(
            Limit(Cause.DECAYED, f"{limit.words.split(':')[0]}: {words}")
            if limit.cause in (Cause.CROWDED, Cause.MIXED)
            else limit
            for limit in limits
        )
    )


def missing(what: str, lost: str) -> Limit:
    """The limit of a missing tensor."""
    return Limit(Cause.MISSING, f"no gradient of {what} (frozen, or not shared): {lost}")


def signs() -> Limit:
    """The limit of an update of Adam, which holds signs alone."""
    return Limit(
        Cause.SIGNS,
        "all values are of one size, as after a step of Adam: no sums are left, so tokens are the likeliest by their "
        "signs, and boxes and pixels are unknown",
    )


def mixture(sums: Floats, signals: Floats, noise: Noise) -> float:
    """Energy of sums outside the span of their signals, relative to the noise.

    About 1 for one sample. Of a batch each sample adds signals of its own, and the position table shows only
    what they add up to.

    Args:
        sums: float64 (rows, width).
        signals: float64 (n, width).

    Returns:
        1 where there are as many signals as coordinates, and nothing can be recovered.
    """
    (count, width), rows = signals.shape, len(sums)
    if not rows or not 0 < count < width:
        return 1.0
    basis, _ = np.linalg.qr(signals.T)
    rest = sums - (sums @ basis) @ basis.T
    mass = float(np.linalg.norm(sums) + np.linalg.norm(signals))
    return float(np.linalg.norm(rest) / sqrt(rows * (width - count) * noise.variance(1 + count / rows, mass, width)))


def reading_limits(
    what: str, unsure: int, count: int, width: int, spread: float, noise: Noise, *, complete: bool
) -> list[Limit]:
    """Limits of tokens or boxes that are not all sure.

    Args:
        what: "tokens" or "boxes".
        unsure: Number of positions that are not sure.
        count: Number of positions.
        width: Width of the vectors that distinguish them.
        spread: Value of ``mixture``.
        complete: Whether the tables are explained.
    """
    if spread > TOO_MUCH:
        return [
            Limit(
                Cause.MIXED,
                f"{what}: the signals of the positions do not add up to the tables' rows ({unsure} of {count} unsure): "
                "more than one sample in the batch, or more than one step",
            )
        ]
    if complete and not unsure:
        return []
    if noise.everywhere:
        return [Limit(Cause.NOISE, f"{what}: noise of {noise.sigma:.0e} an entry leaves {unsure} of {count} unsure")]
    return [
        Limit(
            Cause.CROWDED,
            f"{what}: {unsure} of {count} cannot be separated, {count} positions in vectors of {width} numbers, "
            "or more than one sample",
        )
    ]


def page_limits(page: Page, noise: Noise) -> list[Limit]:
    """Limits of the recovered page."""
    found = []
    if page.excess > TOO_MUCH:
        found.append(
            Limit(
                Cause.MIXED,
                f"pixels: no page explains the projection's gradient, {page.residual:.1%} of it is left: more than "
                "one sample in the batch, or more than one step",
            )
        )
    if noise.everywhere and page.error > _VISIBLE:
        found.append(Limit(Cause.NOISE, f"pixels: noise of {noise.sigma:.0e} an entry, {page.error:.1%} off at least"))
    if page.rank < page.patches:
        found.append(
            Limit(
                Cause.NOISE if noise.everywhere else Cause.CROWDED,
                f"pixels: the signals tell {page.rank} of {page.patches} patches apart; the others stand as they were "
                "expected to where nothing speaks against it",
            )
        )
    return found
