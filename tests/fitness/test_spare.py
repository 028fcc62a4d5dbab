"""Non-members that are taken out of a corpus to train a control on."""

from dataclasses import replace

import numpy as np
import pytest

from pfl_audit.documents.corpus import Corpus
from pfl_audit.documents.document import Document, Membership, Query
from pfl_audit.errors import NotAuditableError
from pfl_audit.fitness.page_duplicates import ALIKE
from pfl_audit.fitness.spare import FEWEST, SHARE, Spared, spare_non_members
from pfl_audit.progress import Silent


def corpus(members: int = 12, others: int = 90, pages: int = 2) -> Corpus:
    """Companies whose pages share no two words in a row."""
    queries, labels = [], {}
    for number in range(members + others):
        name = f"company {number:03}"
        labels[name] = Membership.MEMBER if number < members else Membership.NON_MEMBER
        for page in range(pages):
            words = tuple(f"w{number}x{page}x{at}" for at in range(20))
            queries.append(Query(f"q{number}-{page}", _page(f"{number}x{page}_1", name, words), "Who?", (name,)))
    return Corpus(tuple(queries), labels)


def _page(name: str, provider: str, words: tuple[str, ...]) -> Document:
    return Document(name, provider, words, np.zeros((len(words), 4), np.float32), split="red_test")


def spared(
    red: Corpus, groups: dict[str, str] | None = None, *, seed: int = 0, others: tuple[Document, ...] = ()
) -> Spared:
    return spare_non_members(red, groups or {}, np.random.default_rng(seed), Silent(), others)


def are_duplicates(one: Document, other: Document) -> bool:
    """Jaccard index of the pairs of consecutive words, as sets."""
    pairs = [set(zip(page.words, page.words[1:], strict=False)) for page in (one, other)]
    return len(pairs[0] & pairs[1]) >= ALIKE * len(pairs[0] | pairs[1])


def require_disjoint(found: Spared, others: tuple[Document, ...] = ()) -> None:
    attacked = [*found.audited.documents, *others]
    assert not set(found.training.units) & set(found.audited.units)
    assert not {page.id for page in found.training.documents} & {page.id for page in attacked}
    assert not [one.id for one in found.training.documents for page in attacked if are_duplicates(one, page)]


def test_a_third_of_the_non_members_leaves_and_nothing_else() -> None:
    red = corpus()
    found = spared(red)
    require_disjoint(found)
    assert len(found.training.units) == 30 == int(SHARE * len(red.non_members()))
    assert found.audited.members() == red.members()
    assert {*found.training.units, *found.audited.non_members()} == set(red.non_members())
    assert spared(red).training.units == found.training.units != spared(red, seed=1).training.units


def test_no_page_that_resembles_an_attacked_one_is_trained_on() -> None:
    """Each has a page like another company's, and one like a page that the target was trained on."""
    red = corpus(pages=4)
    pages = {query.id: query.document for query in red.queries}
    trained = _page("blue_1", "company 000", tuple(f"b{at}" for at in range(20)))
    queries = []
    for query in red.queries:
        number, page = map(int, query.id[1:].split("-"))
        words = {2: pages[f"q{(number + 1) % 102}-3"].words, 1: trained.words}.get(page, query.document.words)
        queries.append(replace(query, document=replace(query.document, words=(*words[:19], f"own{number}"))))
    red = replace(red, queries=tuple(queries))
    found = spared(red, others=(trained,))
    require_disjoint(found, (trained,))
    assert len(found.training.documents) < 3 * 30
    assert len(found.training.units) == 30, "their first pages are their own"


def test_groups_move_as_wholes_and_mixed_ones_stay() -> None:
    red = corpus()
    others = red.non_members()
    groups = {unit: f"group {at // 5}" for at, unit in enumerate(others)} | {red.members()[0]: "group 0"}
    for seed in range(20):
        found = spared(red, groups, seed=seed)
        taken = set(found.training.units)
        assert all(len(taken & {unit for unit in others if groups[unit] == name}) in (0, 5) for name in groups.values())
        assert not taken & {unit for unit in others if groups[unit] == "group 0"}
        assert {groups.get(unit, unit) for unit in taken}.isdisjoint(
            groups.get(unit, unit) for unit in found.audited.units
        )


def test_a_unit_whose_membership_is_unknown_is_not_spared() -> None:
    red = corpus()
    unknown = {unit for at, unit in enumerate(red.non_members()) if at % 4 == 0}
    red = replace(red, membership={unit: label for unit, label in red.membership.items() if unit not in unknown})
    assert not set(spared(red).training.units) & unknown


@pytest.mark.parametrize(
    ("red", "groups", "said"),
    [
        (corpus(others=59), {}, f"19 of 59 non-members can be spared to train a control, and {FEWEST} are needed: 60 "),
        (corpus(), dict.fromkeys(corpus().non_members(), "one"), "0 of 90 non-members can be spared"),
    ],
)
def test_too_few_non_members_are_one_line(red: Corpus, groups: dict[str, str], said: str) -> None:
    with pytest.raises(NotAuditableError, match=said) as caught:
        spared(red, groups)
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 3
