from hypothesis import given
from hypothesis import strategies as st

from pfl_audit.core.redaction import Redactor, visible


def test_names_become_pseudonyms_that_hold_within_a_run() -> None:
    one, other = Redactor("salt"), Redactor("another")
    assert one.name("WMTW") == one.name("WMTW") != one.name("KCCI")
    assert one.name("WMTW") != other.name("WMTW")
    assert "wmtw" not in one.name("WMTW").lower()


def test_checks_have_pseudonyms_of_their_own() -> None:
    one = Redactor("salt")
    assert one.within("a").name("WMTW") == one.within("a").name("WMTW") != one.within("b").name("WMTW")
    assert Redactor("salt", reveal=True).within("a").name("WMTW") == "WMTW"


def test_a_mask_is_the_same_for_all_of_its_kind() -> None:
    hide = Redactor("s")
    hindi, arabic, thai = "कि कु के", "بِسْمِ", "ที่อยู่"
    assert {hide.value(text, "provider_name") for text in ("A", "Acme & Sons, Inc.", "", hindi, arabic, thai)} == {
        "•••••••• (name)"
    }
    assert hide.value("91-0837469", "tax_number") == "•••••••• (tax number)"
    assert hide.value("anything") == "•••••••• (value)"


def test_numbers_of_one_company_are_coarse() -> None:
    hide, shown = Redactor("s"), Redactor("s", reveal=True)
    assert [hide.count(number) for number in (0, 1, 2, 4, 5, 900)] == ["0", "1", "2 to 4", "2 to 4", *["5 or more"] * 2]
    assert [hide.part(number, 7) for number in (0, 3, 4, 7)] == ["none", "some", "most", "all"]
    assert [hide.share(value) for value in (0.0, 0.899, 1.0)] == ["0.0 to 0.1", "0.8 to 0.9", "0.9 to 1.0"]
    assert hide.share(None) is None
    assert (shown.count(7), shown.part(3, 7), shown.share(0.1234)) == (7, "3 of 7", 0.123)


def test_the_order_of_names_is_keyed() -> None:
    names = [f"name {number:03d}" for number in range(200)]
    one, other = (sorted(names, key=Redactor(salt).order) for salt in ("a", "b"))
    assert names != one != other
    assert sum(name == again for name, again in zip(names, one, strict=True)) < 10


def test_reveal_shows_but_still_defuses() -> None:
    shown = Redactor("s", reveal=True)
    assert shown.name("WMTW") == "WMTW"
    assert shown.value("a\x1b[31mb\nc\u202ed") == "a [31mb c d"


@given(st.text())
def test_nothing_of_a_value_gets_through(text: str) -> None:
    assert Redactor("s").value(text) == Redactor("s").value("")


@given(st.text())
def test_what_is_visible_is_one_line(text: str) -> None:
    line = visible(text)
    assert len(line) <= 200
    assert len(line.splitlines()) <= 1


def test_marks_do_not_pile_up_over_other_lines() -> None:
    assert visible("e" + "\u0301" * 200 + "x") == "e" + "\u0301" * 4 + "x"
    assert visible("\u0301\u0489" * 10**6) == "\u0301\u0489" * 2
    written = "\u0e17\u0e35\u0e48 \u0915\u094d\u0937\u093f \u1ec7"  # Thai, Hindi, Vietnamese
    assert visible(written) == written
