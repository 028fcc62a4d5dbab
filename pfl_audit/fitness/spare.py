"""Non-members to spare: whole groups that leave a corpus, so that a model is trained on nothing that is attacked."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Final

import numpy as np

from pfl_audit.documents.corpus import Corpus, is_asked
from pfl_audit.documents.document import Document
from pfl_audit.documents.units import UNITS
from pfl_audit.errors import NotAuditableError
from pfl_audit.fitness.page_duplicates import duplicates
from pfl_audit.fitness.page_look import PageLooks
from pfl_audit.progress import Progress

SHARE: Final = 1 / 3
"""Largest share of the non-members that leaves the corpus. The others are attacked, and set the power of the audit."""
FEWEST: Final = 20
"""Fewest units to train on. Set by us: a model that saw fewer layouts reads hardly better than its start."""


@dataclass(frozen=True)
class Spared:
    """A corpus in two parts without a unit, a group or a near-duplicate page in common.

    Attributes:
        training: Queries of the non-members to spare.
        audited: All other queries; none of a unit that was taken for training.
    """

    training: Corpus
    audited: Corpus


def spare_non_members(
    corpus: Corpus,
    groups: Mapping[str, str],
    rng: np.random.Generator,
    progress: Progress,
    others: Sequence[Document] = (),
) -> Spared:
    """Draw whole groups of non-members that leave a corpus.

    A group with a unit that is no known non-member stays. Pages with a near-duplicate among those that stay, or among
    ``others``, are left out of the training and of the audit.

    Args:
        corpus: Pages that a model is asked about.
        groups: Unit to its group; a unit without one is a group by itself.
        rng: Draws the groups.
        progress: Progress of the search for near-duplicates.
        others: Further pages that the training must not resemble, such as those that the target was trained on.

    Raises:
        NotAuditableError: There are too few to spare.
    """
    others_known = set(corpus.non_members())
    joined: defaultdict[tuple[bool, str], list[str]] = defaultdict(list)
    for unit in corpus.units:
        joined[unit in groups, groups.get(unit, unit)].append(unit)
    pure = [units for _, units in sorted(joined.items()) if others_known.issuperset(units)]
    room, taken = int(SHARE * len(others_known)), set[str]()
    for place in rng.permutation(len(pure)).tolist():
        if len(taken) + len(pure[place]) <= room:
            taken.update(pure[place])
    audited = corpus.where(lambda query: query.document.unit not in taken)
    asked = corpus.where(lambda query: query.document.unit in taken and is_asked(query.document))
    seen = _resembling(asked.documents, [*audited.documents, *others], progress)
    training = asked.where(lambda query: query.document.id not in seen)
    if len(training.units) < FEWEST:
        many = UNITS[corpus.unit].many
        raise NotAuditableError(
            f"{len(training.units)} of {len(others_known)} non-members can be spared to train a control, and {FEWEST} "
            f"are needed: {ceil(FEWEST / SHARE)} non-member {many} of which none belong together and no pages are "
            "near-duplicates",
            "Add non-members, or give --control in place of --train-control",
        )
    return Spared(training, audited)


def _resembling(pages: Sequence[Document], others: Sequence[Document], progress: Progress) -> frozenset[str]:
    """Ids of pages that are near-duplicates of others."""
    looks, every = PageLooks(), [*pages, *others]
    with progress.task("looks of pages", len(every)) as task:
        for page in every:
            looks.unusable(page)
            task.advance()
    sides = np.repeat(np.array([0, 1]), [len(pages), len(others)])
    found = duplicates(every, sides, looks, progress)
    return frozenset(page.id for page, row in zip(pages, found, strict=False) if row[-1] >= 0)
