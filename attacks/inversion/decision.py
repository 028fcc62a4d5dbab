"""Level of what closed forms recovered: by how much more came back of the own page than of others of its form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pfl_audit.attacks.inversion.controls import Counts, joint_p, pooled, ranks, shares
from pfl_audit.core.results import Level
from pfl_audit.core.verdict import Bound, Budget, level_of
from pfl_audit.metrics.intervals import exact_lower_bound

_ORDER: tuple[Level, ...] = ("unresolved", "weak", "leak")


@dataclass(frozen=True)
class Decision:
    """What recoveries show.

    Attributes:
        level: Never ``none``: that a method recovers nothing does not show that nothing can be recovered.
        measure: The one that shows most: of the best rank among the fillings, and of those furthest above them.
        right: Right ones by it, and of how many.
        share: Their share.
        chance: Mean share of other fillings.
        most: Largest share of any other filling.
        p: Of the joint test of all measures.
    """

    level: Level
    measure: str
    right: tuple[int, int]
    share: float
    chance: float
    most: float
    p: float

    @property
    def above(self) -> bool:
        """Whether more came back than other fillings give on average, be it by chance."""
        return self.share > self.chance


def decide(
    parts: Sequence[Mapping[str, Counts]], budget: Budget, noise: Sequence[Mapping[str, Counts]] = ()
) -> Decision | None:
    """Test all measures jointly, and hold an exact bound of the best one against chance and against noise.

    Args:
        parts: Measure to counts of each observation.
        budget: Budget of the finding.
        noise: The same of noise of each update's size: a method that reads as much of noise shows nothing.

    Returns:
        None where there is no private token, or no other filling.
    """
    counts = {name: found for name, found in pooled(parts).items() if found[0, 1] and len(found) > 1}
    if not counts:
        return None
    by_name = {name: shares(found) for name, found in counts.items()}
    p = joint_p(list(by_name.values()))
    # By the statistic of the joint test first: of a measure that no filling has, the distance to the largest is 0.
    best = min(by_name, key=lambda name: (ranks(by_name[name])[0], by_name[name][1:].max() - by_name[name][0]))
    others = by_name[best][1:]
    right, chance = (int(counts[best][0, 0]), int(counts[best][0, 1])), float(others.mean())
    above: Bound = lambda alpha: exact_lower_bound(*right, alpha) - chance  # noqa: E731
    quiet = pooled(noise).get(best)
    of_noise = 0.0 if quiet is None else float(shares(quiet)[0])
    beyond: Bound = lambda alpha: exact_lower_bound(*right, alpha) - of_noise  # noqa: E731
    level = level_of([p], [above], budget, compared=[beyond], resolved=False)
    return Decision(level, best, right, float(by_name[best][0]), chance, float(others.max()), p)


def half(budget: Budget) -> Budget:
    """Budget of one of two tests."""
    return replace(budget, leak=budget.leak / 2, weak=budget.weak / 2)


def worst(*levels: Level) -> Level:
    """The one that says most."""
    return max((level if level in _ORDER else "unresolved" for level in levels), key=_ORDER.index)
