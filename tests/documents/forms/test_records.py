"""Boxes of a form: read all at once, and refused one by one."""

import pytest

from pfl_audit.documents.document import RecordError
from pfl_audit.documents.forms.readers.records import on_page


@pytest.mark.parametrize(
    "odd", [True, None, "1", [0], 1j, 10**400, 1e31, -1e31, float("nan"), float("inf")], ids=lambda odd: repr(odd)[:9]
)
def test_what_is_no_number_is_named_by_its_word(odd: object) -> None:
    with pytest.raises(RecordError, match="the box of word 2 is not four numbers"):
        on_page([[0, 0, 1, 1], [0, 0, odd, 1]])


@pytest.mark.parametrize("odd", [[0, 0, 1], [0] * 5, "abcd", None, {1: 2, 3: 4, 5: 6, 7: 8}, 7])
def test_what_is_no_box_is_named_by_its_word(odd: object) -> None:
    with pytest.raises(RecordError, match="the box of word 1 is not four numbers"):
        on_page([odd, [0, 0, 1, 1]])


def test_whole_numbers_and_shares_are_boxes() -> None:
    assert on_page([(0, 0, 50, 100), [12.5, 0, 25, 10**0]], (100.0, 100.0)).tolist() == [
        [0, 0, 0.5, 1], [0.125, 0, 0.25, 0.009999999776482582]
    ]  # fmt: skip
    assert on_page([]).shape == (0, 4)
