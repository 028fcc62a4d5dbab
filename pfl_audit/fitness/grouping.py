"""Units that belong together: groups by their classes, and whether a permutation test of them can be significant."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Final

import numpy as np

from pfl_audit.core.redaction import Redactor
from pfl_audit.documents.corpus import Corpus
from pfl_audit.documents.document import Membership
from pfl_audit.documents.group_table import groups_line
from pfl_audit.metrics.arrangements import FEWEST, Arrangements, arrangements_of
from pfl_audit.provider_identity import provider_identity

_MOST: Final = 1_000_000
"""Arrangements from which on their number is not printed."""


@dataclass(frozen=True)
class Grouping:
    """Groups of the units that are asked about.

    Attributes:
        line: Number of groups, and of units without one, in a sentence.
        by_client: Whether federated clients are the groups, since classes and clients coincide.
        joined: Names of groups that are one, because units are in several.
        arrangements: Groups of labelled units by their classes.
    """

    line: str
    by_client: bool
    joined: tuple[tuple[str, ...], ...]
    arrangements: Arrangements

    @property
    def counted(self) -> str:
        """Groups of each kind and arrangements of the labels, in a sentence."""
        found = self.arrangements
        number = f"{found.count:,}" if found.count <= _MOST else f"more than {_MOST:,}"
        return (
            f"groups of members alone: {found.members}, of non-members alone: {found.others}, of both: "
            f"{len(found.mixed)}; arrangements of the labels that keep groups: {number}"
        )

    @property
    def too_few(self) -> str | None:
        """Why no test of the groups can be significant, with the number of groups needed; None where one can."""
        if self.arrangements.count >= FEWEST:
            return None
        return (
            f"{self.arrangements.count} arrangements of the labels that keep groups, and fewer than {FEWEST} can never "
            f"be significant: each class needs {self.arrangements.groups_needed()} groups of its own at least"
        )

    def to_dict(self, redactor: Redactor) -> dict[str, object]:
        """As JSON, with names masked; the number of arrangements ends at a million."""
        found = self.arrangements
        return {
            "by_client": self.by_client,
            "of_members": found.members,
            "of_non_members": found.others,
            "mixed": len(found.mixed),
            "arrangements": min(found.count, _MOST),
            "groups_needed": found.groups_needed(),
            "joined": [[redactor.name(name, "group") for name in names] for names in self.joined],
        }


def grouping_of(asked: Corpus) -> Grouping | None:
    """Count the groups of a corpus; None where there are none.

    Args:
        asked: Pages that a model is asked about.
    """
    if (line := groups_line(asked)) is None:
        return None
    labelled = [unit for unit in asked.units if asked.label(unit) is not Membership.UNKNOWN]
    labels = np.array([asked.label(unit) is Membership.MEMBER for unit in labelled], dtype=np.bool_)
    names: defaultdict[str, dict[str, str]] = defaultdict(dict)
    for unit, stated in (asked.stated_groups or asked.client_groups).items():
        names[asked.groups[unit]] |= {provider_identity(name): name for name in sorted(stated)}
    return Grouping(
        line=line,
        by_client=bool(asked.client_groups),
        joined=tuple(tuple(one.values()) for one in names.values() if len(one) > 1),
        arrangements=arrangements_of(labels, [asked.groups[unit] for unit in labelled]),
    )
