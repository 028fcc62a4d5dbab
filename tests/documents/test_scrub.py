import time
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pfl_audit.documents.document import Document
from pfl_audit.documents.scrubbing.normalization import normalize_text
from pfl_audit.documents.scrubbing.residual import ResidualKind, residual_identifiers
from pfl_audit.documents.scrubbing.scrub import contains_value, find_value, scrub

Page = Callable[..., Document]


@pytest.mark.parametrize(
    ("words", "value", "found"),
    [
        ("Invoice WMTW Total", "WMTW", {1}),
        ("Invoice wmtw, Total", "WMTW", {1}),
        ("Invoice WMTVV Total", "WMTWV", {1}),
        ("from Goarn & Wadres Partners Inc today", "goarn & wadres partners inc", {1, 2, 3, 4, 5}),
        ("from Goarn&Wadres PartnersInc today", "goarn & wadres partners inc", {1, 2}),
        ("from Go arn Wad res Partners today", "goarn wadres partners", {1, 2, 3, 4, 5}),
        ("visit www.kcci.com or mail office@kcci.com now", "KCCI", {1, 4}),
        ("visit www.goarnwadres.com now", "Goarn & Wadres Partners Inc", {1}),
        ("Tax 56-0589582 total 56-0589583", "56-0589582", {1, 3}),
        ("Tax 56-0589582 total 91-1234567", "56-0589582", {1}),
        ("Phone (555) 123-4567 fax (555) 999-0000", "(555) 123-4567", {1, 2}),
        ("12 Main Street Halville CT 06511", "12 main street halville ct 06511", {0, 1, 2, 3, 4, 5}),
        ("mail billing@preangroup.net or see www.preangroup.net", "billing@preangroup.net", {1, 4}),
        ("INVOICE billing address", "billing@preangroup.net", set()),
        ("nothing of it here", "WMTW", set()),
        ("WGN www.wgn.com info@wgn.com WGN-TV WGN9 Wagner", "WGN", {0, 1, 2, 3, 4}),
        ("Tax 12 34 56 78 90 Total", "1234567890", {1, 2, 3, 4, 5}),
        ("A C M E invoice", "ACME", {0, 1, 2, 3}),
        ("株式会社ミツバ 請求書", "ミツバ", {0}),
        ("Café Zürich", "cafe zurich", {0, 1}),
    ],
)
def test_finds_every_way_a_value_can_stand(words: str, value: str, found: set[int]) -> None:
    assert find_value(tuple(words.split()), value) == found


def test_scrub_takes_words_and_blurs_their_boxes(page: Page) -> None:
    document = page("Invoice", "WMTW", "Total")
    scrubbed = scrub(document, "wmtw")
    assert scrubbed.removed == (1,)
    assert scrubbed.document.words == ("Invoice", "Total")
    np.testing.assert_array_equal(scrubbed.document.boxes, document.boxes[[0, 2]])
    assert scrubbed.document.image is not None
    assert scrubbed.document.image.blurred == (tuple(float(edge) for edge in document.boxes[1]),)
    assert scrubbed.document.digest != document.digest


def test_a_value_that_is_not_there_leaves_the_page_as_it_is(page: Page) -> None:
    document = page("Invoice", "Total")
    scrubbed = scrub(document, "WMTW")
    assert scrubbed.document is document
    assert scrubbed.removed == ()


@pytest.mark.parametrize("value", ["", " ", "---", "& ,"])
def test_a_value_without_letters_is_never_found(value: str) -> None:
    assert find_value(("---", "&", ""), value) == set()


def test_threshold_decides_what_counts_as_the_same() -> None:
    words = ("abcdefghiX",)
    assert find_value(words, "abcdefghij", threshold=0.9) == {0}
    assert find_value(words, "abcdefghij", threshold=0.95) == set()


_WORDS = st.lists(st.text(alphabet="abcdefgXYZ0189-.,@&", min_size=1, max_size=10), max_size=12)


@given(words=_WORDS, value=st.text(alphabet="abcdefgXYZ0189 -", min_size=4, max_size=20))
def test_after_scrubbing_no_word_holds_the_value(words: list[str], value: str) -> None:
    target = normalize_text(value)
    hits = find_value(tuple(words), value)
    left = [normalize_text(word) for index, word in enumerate(words) if index not in hits]
    if len(target) >= 4:
        assert not any(target in word for word in left)


@given(words=_WORDS, at=st.integers(0, 12), value=st.text(alphabet="abcdefgXYZ", min_size=4, max_size=12))
def test_a_planted_value_is_always_found(words: list[str], at: int, value: str) -> None:
    at = min(at, len(words))
    planted = (*words[:at], value, *words[at:])
    assert at in find_value(planted, value)


@pytest.mark.parametrize(
    ("words", "value", "written"),
    [
        ("Invoice KMPT", "KMPT-AM", True),
        ("Invoice KMPT-FM", "KMPT-AM", True),
        ("from Goarn Wadras Inc", "Goarn Wadres", True),
        ("FromGoarnWadres", "Goarn Wadres", True),
        ("www.kmpt.com traffic@kmpt.com", "KMPT", False),
        ("Goarn only", "Goarn Wadres", False),
        ("", "KMPT", False),
    ],
)
def test_a_domain_or_a_part_does_not_write_a_name_out(words: str, value: str, written: bool) -> None:
    assert contains_value(tuple(words.split()), value) is written


@pytest.mark.parametrize(
    "value", ["a-" * 50_000, "1" * 100_000, "a&" * 20_000, "'a" * 50_000, "@a." * 20_000, "tv" * 31]
)
def test_long_values_and_words_take_no_time(value: str) -> None:
    start = time.process_time()
    assert find_value((value, "Total"), value) == {0}
    find_value((value, "tv" * 500, "a." * 500), "KMPT-AM")
    assert time.process_time() - start < 5


@pytest.mark.parametrize(
    ("word", "value", "kind"),
    [
        ("GWPI", "Goarn Wadres Partners Inc", ResidualKind.INITIALS),
        ("www.grnwdrs.com", "Goarn Wadres", ResidualKind.DOMAIN),
        ("Wadresson", "Goarn Wadres", ResidualKind.FRAGMENT),
        ("Invoice", "Goarn Wadres", None),
        ("12-345", "Goarn Wadres", None),
    ],
)
def test_residual_identifiers(page: Page, word: str, value: str, kind: ResidualKind | None) -> None:
    found = residual_identifiers(page("Total", word), value)
    assert [identifier.kind for identifier in found] == ([kind] if kind else [])


@pytest.mark.parametrize("value", ["a" * 100, "a" * 400, "a " * 200])
def test_a_value_that_repeats_itself_over_a_page_takes_no_time(value: str) -> None:
    """Thousands of runs of words are the value, and lie over each other."""
    began = time.process_time()
    assert len(find_value(("a",) * 5_000, value)) == 5_000
    assert time.process_time() - began < 1.5
