"""Who holds what, and parties that are not as they must be."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from pfl_audit.documents.document import Document, Query
from pfl_audit.errors import AuditError
from pfl_audit.training.federated.clients import merged, partition

Page = Callable[..., Document]


def query(page: Page, name: str, provider: str, client: int | None) -> Query:
    return Query(name, replace(page("a", provider=provider, name=name), client=client), "What?", ("a",))


def test_providers_are_sorted_into_their_clients(page: Page) -> None:
    queries = [query(page, "p_1", "Beta", 1), query(page, "p_2", "Alpha", 1), query(page, "p_3", "Gamma", 0)]
    queries.append(query(page, "p_4", "Beta", 1))
    first, second = partition(queries)
    assert (first.number, first.providers) == (0, ((2,),))
    assert (second.number, second.providers) == (1, ((1,), (0, 3)))
    assert merged(queries)[0].providers == ((1,), (0, 3), (2,))
    assert len(set(merged(queries)[0].tags)) == 3
    assert merged(queries)[0].tags[:2] == second.tags  # the number of a provider does not depend on its place


def test_without_privacy_a_provider_may_be_in_two_clients(page: Page) -> None:
    queries = [query(page, "p_1", "Beta", 1), query(page, "p_2", "Beta", 0)]
    assert [client.providers for client in partition(queries, disjoint=False)] == [((1,),), ((0,),)]


@pytest.mark.parametrize(
    ("clients", "complaint"),
    [
        ([("Secret Corp", 0), ("Secret Corp", 1)], "is in client 0 and in 1"),
        ([("Alpha", 0), ("Beta", 2)], "client 1 has no training document"),
        ([("Alpha", 0), ("Beta", 2**62)], "client 1 has no training document"),
        ([("Alpha", None)], "belongs to no client"),
    ],
)
def test_parties_that_cannot_be(page: Page, clients: list[tuple[str, int | None]], complaint: str) -> None:
    queries = [query(page, f"p_{at}", provider, client) for at, (provider, client) in enumerate(clients)]
    with pytest.raises(AuditError, match=complaint) as caught:
        partition(queries)
    assert "Secret" not in str(caught.value)
    assert caught.value.remedy
