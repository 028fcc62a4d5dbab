"""Whether a corpus can carry an audit: everything that is measured before a model is asked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from rapidfuzz import fuzz

from pfl_audit.documents.corpus import Corpus, is_asked, is_training
from pfl_audit.documents.document import Document, Membership, Query
from pfl_audit.documents.scrubbing.normalization import normalize_text
from pfl_audit.documents.units import DOCUMENT, PROVIDER, UNITS, Unit
from pfl_audit.fitness.blind import PERMUTATIONS
from pfl_audit.fitness.classes import ClassComparison, compare_classes, describe, is_testable, labels_of, sample
from pfl_audit.fitness.grouping import Grouping, grouping_of
from pfl_audit.fitness.page_duplicates import duplicates
from pfl_audit.fitness.page_look import PageLooks
from pfl_audit.fitness.spellings import Spelling, normal_name, spellings
from pfl_audit.progress import Progress

MEMBER, NON_MEMBER, TRAINING = range(3)
GROUPS: Final = ("members", "non-members", "training pages")
_SIMILAR: Final = 90
"""Smallest similarity of a long answer and a passage, 0 to 100: one letter in ten may be misread."""
_LONG: Final = 8
"""Letters from which an answer may be misread."""


@dataclass(frozen=True)
class Duplicates:
    """Pages of one group that have a near-duplicate in another.

    Attributes:
        group: Group of the pages, a position in GROUPS.
        among: Group of the near-duplicates.
        pages: Number of pages in ``group``.
        pairs: Ids of a page and of a near-duplicate, in the order of the corpus.
    """

    group: int
    among: int
    pages: int
    pairs: tuple[tuple[str, str], ...]

    @property
    def share(self) -> float:
        """Share of the pages of the group, 0 to 1."""
        return len(self.pairs) / self.pages


@dataclass(frozen=True)
class Units:
    """Units of privacy, by what is said of them in several places.

    Attributes:
        unit: What the unit of privacy is.
        spellings: Names of one provider or person, or of what may be one; none of documents.
        both_sides: Names that belong to a member and a non-member but for their spelling.
        trained_others: Non-members that have training pages.
        untrained_members: Members without training pages; empty where there are no training pages.
        members: Number of members.
        others: Number of non-members.
    """

    unit: Unit
    spellings: tuple[Spelling, ...]
    both_sides: tuple[str, ...]
    trained_others: tuple[str, ...]
    untrained_members: tuple[str, ...]
    members: int
    others: int


@dataclass(frozen=True)
class Findings:
    """What was measured.

    Attributes:
        classes: Comparison of the classes, or None where there are too few units for any test.
        duplicates: Pages with a near-duplicate in another group, for every two groups that have pages.
        units: Spellings and contradictions.
        values: Pages without text, and answers that are not on their page.
        groups: Groups of the units, or None where there are none.
    """

    classes: ClassComparison | None
    duplicates: tuple[Duplicates, ...]
    units: Units
    values: PageValues
    groups: Grouping | None


def measure(
    corpus: Corpus,
    looks: PageLooks,
    rng: np.random.Generator,
    progress: Progress,
    training: Sequence[Document] = (),
    permutations: int = PERMUTATIONS,
) -> Findings:
    """Measure what would make an audit with a corpus worthless.

    Args:
        corpus: Pages that a model is asked about, and training pages (``corpus.is_training``).
        looks: Looks of the pages whose images are compared.
        rng: Source of all random draws.
        training: More training pages, of another corpus, grouped by the same unit.
        permutations: Labellings of each permutation test.
    """
    asked = corpus.where(lambda query: is_asked(query.document))
    trained = [page for page in corpus.documents if is_training(page)] + list(training)
    classes = None
    if is_testable(len(asked.members()), len(asked.non_members())):
        compared = sample(asked, rng)
        described = describe(compared, looks, progress)
        classes = compare_classes(described, labels_of(compared, described), rng, permutations)
    return Findings(
        classes,
        _duplicates(asked, trained, looks, progress),
        compare_units(asked, trained),
        page_values(corpus.queries, progress),
        grouping_of(asked),
    )


def compare_units(asked: Corpus, trained: Sequence[Document]) -> Units:
    """Compare the names of members, non-members and units of training pages.

    Args:
        asked: Pages that a model is asked about.
        trained: Training pages, grouped by the same unit.
    """
    unit = UNITS[asked.unit]
    members, others = asked.members(), asked.non_members()
    names = {*asked.units, *(page.unit for page in trained)}
    forms = {name: name if unit is DOCUMENT else normal_name(name) for name in names}
    inside, outside = ({forms[name] for name in names} for names in (members, others))
    known = {forms[page.unit] for page in trained}
    return Units(
        unit=unit,
        spellings=() if unit is DOCUMENT else tuple(spellings(forms)),
        both_sides=tuple(name for name in sorted({*members, *others}) if forms[name] in inside & outside),
        trained_others=tuple(name for name in others if forms[name] in known - inside),
        untrained_members=tuple(name for name in members if known and forms[name] not in known),
        members=len(members),
        others=len(others),
    )


def _duplicates(
    asked: Corpus, trained: Sequence[Document], looks: PageLooks, progress: Progress
) -> tuple[Duplicates, ...]:
    sides = {Membership.MEMBER: MEMBER, Membership.NON_MEMBER: NON_MEMBER}
    labelled = [(page, side) for page in asked.documents if (side := sides.get(asked.label(page.unit))) is not None]
    labelled += [(page, TRAINING) for page in trained]
    pages, groups = [page for page, _ in labelled], np.array([group for _, group in labelled], dtype=np.int64)
    if len(np.unique(groups)) < 2:
        return ()
    found = duplicates(pages, groups, looks, progress)
    rows = []
    compared = [(MEMBER, NON_MEMBER), (NON_MEMBER, MEMBER), (NON_MEMBER, TRAINING)]
    if asked.unit == PROVIDER.name:  # members of another unit are the training pages themselves
        compared.append((MEMBER, TRAINING))
    for group, among in compared:
        own = np.flatnonzero(groups == group)
        if len(own) and (groups == among).any():
            pairs = [(pages[one].id, pages[found[one, among]].id) for one in own if found[one, among] >= 0]
            rows.append(Duplicates(group, among, len(own), tuple(pairs)))
    return tuple(rows)


@dataclass(frozen=True)
class PageValues:
    """Answers and the text of their pages.

    Attributes:
        without_text: Ids of pages without a word, in the order of the corpus.
        asked: Key to the number of questions on pages with text.
        missing: Key to the number of these of which no accepted answer occurs on the page.
    """

    without_text: tuple[str, ...]
    asked: Mapping[str, int]
    missing: Mapping[str, int]


def page_values(queries: Sequence[Query], progress: Progress) -> PageValues:
    """Search the answers of questions on their pages, without case, accents, spaces and punctuation."""
    asked: Counter[str] = Counter()
    missing: Counter[str] = Counter()
    without_text: dict[str, None] = {}
    page, text = "", ""
    with progress.task("answers on their pages", len(queries)) as task:
        for query in queries:
            task.advance()
            if not query.document.words:
                without_text[query.document.id] = None
                continue
            if query.document.id != page:
                page, text = query.document.id, "".join(map(normalize_text, query.document.words))
            asked[query.key] += 1
            missing[query.key] += not any(_occurs(normalize_text(answer), text) for answer in query.answers)
    return PageValues(tuple(without_text), asked, +missing)


def _occurs(answer: str, text: str) -> bool:
    return answer in text or (
        _LONG <= len(answer) <= len(text)  # of two texts, the shorter is what partial_ratio looks for
        and fuzz.partial_ratio(answer, text, score_cutoff=_SIMILAR) >= _SIMILAR
    )
