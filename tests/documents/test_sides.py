"""Members and non-members given apart become one corpus, grouped by the unit of privacy."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from pfl_audit.documents.corpus import Corpus
from pfl_audit.documents.document import Document, Query
from pfl_audit.documents.sides import join_sides, regroup
from pfl_audit.documents.units import DOCUMENT, PERSON, PROVIDER, UNITS, Unit
from pfl_audit.errors import AuditError

Page = Callable[..., Document]


def side(*pages: Document, ids: str = "") -> Corpus:
    return Corpus(tuple(Query(f"{page.id}{ids}?", page, "?", ("x",)) for page in pages), format="jsonl")


def test_membership_follows_the_side_whatever_the_corpora_say(page: Page) -> None:
    members = side(page("a", name="one_1", provider="A"), page("b", name="one_2", provider="A"))
    others = side(page("c", name="two_1", provider="B"))
    found = join_sides(members, others)
    assert (found.unit, found.members(), found.non_members()) == ("provider", ("A",), ("B",))
    assert [query.document.split for query in found.queries] == ["members", "members", "non-members"]
    given = (*members.documents, *others.documents)
    assert all(query.document.boxes is page.boxes for query, page in zip(found.queries, given, strict=True))


@pytest.mark.parametrize("unit", [DOCUMENT, PERSON], ids=lambda unit: unit.name)
def test_another_unit_groups_pages_of_the_same_provider(unit: Unit, page: Page) -> None:
    pages = [replace(page(word, name=f"{word}_1", provider="A"), person=f"p-{word}") for word in ("a", "b")]
    more = replace(page("c", name="a_2", provider="A"), person="p-a")
    found = join_sides(side(pages[0], more), side(pages[1]), unit)
    names = {"document": ("a", "b"), "person": ("p-a", "p-b")}[unit.name]
    assert (found.unit, found.members(), found.non_members()) == (unit.name, names[:1], names[1:])
    assert {name: len(queries) for name, queries in found.by_unit().items()} == {names[0]: 2, names[1]: 1}
    assert found.providers == ("A",)


def test_a_page_image_that_is_gone_stops_no_audit(page: Page) -> None:
    members, others = side(page("a", name="one_1", provider="A")), side(page("b", name="two_1", provider="B"))
    image = others.documents[0].image
    assert image is not None
    image.path.unlink()
    assert join_sides(members, others).non_members() == ("B",)


def test_a_unit_on_both_sides_is_named(page: Page) -> None:
    members, others = side(page("a", name="one_1", provider="A")), side(page("b", name="two_1", provider="A"))
    with pytest.raises(AuditError, match=r"1 provider is among the members and among the non-members.*finer --unit"):
        join_sides(members, others, PROVIDER)
    split = side(page("b", name="one_2", provider="A"))
    with pytest.raises(AuditError, match=r"1 document is among the members and among the non-members\. Leave each"):
        join_sides(members, split, DOCUMENT)


def test_what_is_on_both_sides_is_counted_and_not_quoted(page: Page) -> None:
    members = side(page("secret", name="one_1"), page("x", name="three_1"))
    cases = {
        "1 page id is used by": side(page("other", name="one_1")),
        "2 page ids are used by": side(page("other", name="one_1"), page("y", name="three_1")),
        "1 question id is used by": Corpus((replace(members.queries[0], document=page("z", name="z_1")),)),
        "1 page with the same content is among": side(page("secret", name="two_1")),
    }
    for said, others in cases.items():
        with pytest.raises(AuditError, match=said) as caught:
            join_sides(members, others, DOCUMENT)
        assert "secret" not in str(caught.value)


def test_documents_without_a_person_are_refused(page: Page) -> None:
    with pytest.raises(AuditError, match="names no person"):
        join_sides(side(page("a", name="a_1")), side(page("b", name="b_1")), PERSON)


def test_ids_that_give_one_document_two_providers_are_refused(page: Page) -> None:
    members = side(page("a", name="scan_1", provider="A"), page("b", name="scan_2", provider="B"))
    with pytest.raises(AuditError, match="the page ids give 1 document pages of several providers"):
        join_sides(members, side(page("c", name="c_1")), DOCUMENT)


def test_a_training_corpus_is_grouped_without_labels(page: Page) -> None:
    found = regroup(side(page("a", name="a_1"), page("b", name="b_1")), DOCUMENT)
    assert (found.unit, found.units, found.members()) == ("document", ("a", "b"), ())


def test_every_unit_is_known_by_its_name() -> None:
    assert [(name, unit.name) for name, unit in UNITS.items()] == [(name, name) for name in UNITS]
