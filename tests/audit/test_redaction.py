from hypothesis import given
from hypothesis import strategies as st

from pfl_audit.audit.redaction import Redactor, visible


def test_names_become_pseudonyms_that_hold_within_a_run() -> None:
    one, other = Redactor("salt"), Redactor("another")
    assert one.name("WMTW") == one.name("WMTW") != one.name("KCCI")
    assert one.name("WMTW") != other.name("WMTW")
    assert "wmtw" not in one.name("WMTW").lower()


def test_values_keep_their_shape_and_nothing_else() -> None:
    assert Redactor("s").value("91-0837469") == "••-•••••••"
    assert Redactor("s").value("a.b@c.de") == "•.•@•.••"


def test_reveal_shows_but_still_defuses() -> None:
    shown = Redactor("s", reveal=True)
    assert shown.name("WMTW") == "WMTW"
    assert shown.value("a\x1b[31mb\nc\u202ed") == "a [31mb c d"


@given(st.text())
def test_no_letter_or_digit_gets_through(text: str) -> None:
    assert not any(letter.isalnum() for letter in Redactor("s").value(text))


@given(st.text())
def test_what_is_visible_is_one_line(text: str) -> None:
    line = visible(text)
    assert len(line) <= 200
    assert len(line.splitlines()) <= 1
