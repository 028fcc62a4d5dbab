import numpy as np
import pytest

from pfl_audit.attacks.guesses.field import Occurrences
from pfl_audit.attacks.reconstruction.secrets import Texts
from pfl_audit.documents.document import Document
from pfl_audit.documents.forms.form import Field, Form


def form(name: str, before: str, value: str, after: str = "") -> Form:
    words = tuple(f"{before} {value} {after}".split())
    start = len(before.split())
    field = Field("a", "answer", start, start + len(value.split()))
    return Form(Document(name, "", words, np.zeros((len(words), 4), np.float32)), (field,))


def where(one: Form, others: list[Form] | None = None, public: list[Form] | None = None) -> Occurrences:
    return Texts([one, *(others or [])], public or []).occurrences(one, one.fields[0])


ONE = form("one_1", "Invoice of", "Harrow Mills Ltd", "amount 4,310.55")


def test_a_value_that_stands_in_its_field_alone_is_a_secret() -> None:
    others = [form("two_1", "Invoice of", "Other Works", "amount 12.00")]
    assert where(ONE, others, others) == Occurrences(0, 0, 0)
    assert where(ONE, others, others).secret


@pytest.mark.parametrize(
    "after", ["signed Harrow Mills Ltd", "signed HARROW MILLS LTD.", "signed Harow Mills Ltd", "mail@harrowmills.com"]
)
def test_a_value_that_is_left_on_the_page_is_none(after: str) -> None:
    """Exactly, in other case and punctuation, with a typing error, and as a domain."""
    found = where(form("one_1", "Invoice of", "Harrow Mills Ltd", after))
    assert found.on_page > 0
    assert not found.secret


def test_a_value_before_its_field_counts_and_the_field_itself_does_not() -> None:
    assert where(form("one_1", "Harrow Mills Ltd bills", "Harrow Mills Ltd")).on_page == 3
    assert where(form("one_1", "", "Harrow Mills Ltd")).on_page == 0


@pytest.mark.parametrize(("text", "count"), [("HARROW mills, ltd", 1), ("Harrow Mills Ltd Harrow Mills Ltd", 2)])
def test_occurrences_in_the_text_of_other_forms(text: str, count: int) -> None:
    """Whether a field there is labelled does not matter."""
    other = form("two_1", f"seen {text} here", "nothing")
    assert where(ONE, [other]) == Occurrences(0, count, 0)
    assert where(ONE, [], [other]) == Occurrences(0, 0, count)
    assert where(ONE, [], [other, form("three_1", text, "nothing")]).public == 2 * count


def test_a_part_of_a_word_is_no_occurrence() -> None:
    one = form("one_1", "Total", "310.55")
    assert where(one, [form("two_1", "Total 4,310.55 paid", "x")]).secret
    assert where(one, [form("two_1", "Total 31055 paid", "x")]).elsewhere == 1


def test_a_value_of_punctuation_is_no_secret() -> None:
    """Dashes in a blank are printed on many forms, and have no letters by which they could be counted there."""
    one, other = (form(name, "Balance", "- - -") for name in ("one_1", "two_1"))
    assert where(one, [other]) == Occurrences(0, 0, 0, empty=True)
    assert not where(one, [other]).secret
