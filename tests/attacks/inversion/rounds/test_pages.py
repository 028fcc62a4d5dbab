"""Counts against other companies' pages are those of the oracle, and companies are permuted within their source."""

import numpy as np
import pytest

from pfl_audit.attacks.inversion.bag_readers import together
from pfl_audit.attacks.inversion.rounds.pages import Pages
from pfl_audit.documents.document import Document, Query, as_boxes
from tests.oracles.round_pages import counts


def drawn(rng: np.random.Generator, companies: int = 7) -> tuple[list[Query], list[frozenset[int]]]:
    queries, items = [], []
    for company in range(companies):
        for number in range(int(rng.integers(1, 5))):
            document = Document(
                f"d{company}-{number}",
                f"company {company}",
                (),
                as_boxes([], 0),
                client=company % 3,
                source=str(company % 2),
            )
            queries.append(Query(f"q{company}-{number}", document, "?", ("!",)))
            items.append(frozenset({1, *rng.integers(2, 40, 9).tolist()}))
    order = rng.permutation(len(queries))
    return [queries[at] for at in order], [items[at] for at in order]


@pytest.mark.parametrize("seed", range(5))
def test_counts_are_those_of_the_oracle(seed: int) -> None:
    rng = np.random.default_rng(seed)
    queries, items = drawn(rng)
    pages = Pages(queries, [{"tokens": some} for some in items])
    named = frozenset(rng.integers(0, 60, 15).tolist())
    ids = [queries[at].id for at in rng.choice(len(queries), 4, replace=False)]
    permutations, rows = pages.permutations(20, rng), pages.rows(ids)
    assert rows is not None
    found = pages.counts({"tokens": named}, rows, permutations)["tokens"]
    names = sorted({query.document.provider for query in queries})
    for row, order in zip(found.tolist(), [np.arange(len(names)), *permutations], strict=True):
        others = {name: names[at] for name, at in zip(names, order, strict=True)}
        assert tuple(row) == counts(queries, items, named, ids, others)


def test_a_measure_that_a_message_lacks_counts_as_nothing_named() -> None:
    queries, items = drawn(np.random.default_rng(0))
    pages = Pages(queries, [{"tokens": some} for some in items])
    found = pages.counts({}, np.array([0]), pages.permutations(2, np.random.default_rng(0)))["tokens"]
    assert (found[:, [0, 2]] == 0).all()
    assert (found[:, 1] > 0).all()


def test_companies_take_the_places_of_others_of_their_source() -> None:
    queries, items = drawn(np.random.default_rng(0), 20)
    pages = Pages(queries, [{"tokens": some} for some in items])
    drawn_ones = pages.permutations(50, np.random.default_rng(1))
    assert (np.sort(drawn_ones, axis=1) == np.arange(20)).all()
    sources = np.array([source for _, source in sorted({(q.document.provider, q.document.source) for q in queries})])
    assert (sources[drawn_ones] == sources).all()
    assert len({tuple(row) for row in drawn_ones.tolist()}) == 50


def test_rows_are_found_by_question_and_by_client() -> None:
    queries, items = drawn(np.random.default_rng(0))
    pages = Pages(queries, [{"tokens": some} for some in items])
    assert pages.rows(["nothing"]) is None
    of_one = {query.id for query in queries if query.document.client == 1}
    rows = pages.rows(sorted(of_one))
    assert rows is not None
    assert sorted(pages.rows_of([1]).tolist()) == sorted(rows.tolist())


def test_measures_keep_their_order() -> None:
    """Of two that show as much the first decides, in every run."""
    queries, items = drawn(np.random.default_rng(0))
    names = [f"measure {number}" for number in (3, 1, 4, 2, 5, 9, 6, 8)]
    both = [together([dict.fromkeys(names, some), {}]) for some in items]
    pages = Pages(queries, both)
    assert list(both[0]) == names
    assert list(pages.counts({}, np.array([0]), pages.permutations(2, np.random.default_rng(0)))) == names
