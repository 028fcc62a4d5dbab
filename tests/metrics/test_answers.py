import sys
from importlib.util import module_from_spec, spec_from_file_location
from types import ModuleType

import Levenshtein
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rapidfuzz.distance import Levenshtein as RapidfuzzLevenshtein

from pfl_audit.metrics import answers
from pfl_audit.metrics.answers import accuracy, anls, similarity


@pytest.mark.parametrize(
    ("answer", "accepted", "acc", "score"),
    [
        ("WMTW", ["wmtw"], 1.0, 1.0),
        ("  wmtw\n", ["WMTW "], 1.0, 1.0),
        ("wmtv", ["wmtw"], 0.0, 0.75),
        ("wm", ["wmtw"], 0.0, 0.5),
        ("w", ["wmtw"], 0.0, 0.0),
        ("", ["wmtw"], 0.0, 0.0),
        ("none", ["none"], 0.0, 0.0),
        ("wmtw", ["x", "wmtw"], 1.0, 1.0),
    ],
)
def test_by_hand(answer: str, accepted: list[str], acc: float, score: float) -> None:
    assert accuracy(answer, accepted) == acc
    assert anls(answer, accepted) == pytest.approx(score)


def edit_distance(a: str, b: str) -> int:
    """Levenshtein, by the definition."""
    if not a or not b:
        return len(a) + len(b)
    if a[0] == b[0]:
        return edit_distance(a[1:], b[1:])
    return 1 + min(edit_distance(a[1:], b), edit_distance(a, b[1:]), edit_distance(a[1:], b[1:]))


_TEXT = st.text(alphabet="ab ", max_size=6)


@given(answer=_TEXT, right=_TEXT)
def test_similarity_is_one_minus_edits_over_length(answer: str, right: str) -> None:
    a, b = answer.strip(), right.strip()
    expected = 1 - edit_distance(a, b) / max(len(a), len(b)) if a else 0.0
    assert similarity(answer, [right]) == pytest.approx(expected)


_COMBINING = "e\u0301e\u0308\u1100\u1161\u11a8\U0001f468\u200d\U0001f469\u0130\u00df\ufb03\u212b\ud83d\udc68"
_UNICODE = st.text(st.characters(exclude_categories=()) | st.sampled_from(_COMBINING), max_size=40)


def without_levenshtein() -> ModuleType:
    """The module as it is imported where python-Levenshtein is not installed."""
    spec = spec_from_file_location("answers_alone", answers.__file__)
    assert spec
    assert spec.loader
    module = module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "Levenshtein", None)
        spec.loader.exec_module(module)
    return module


_ALONE = without_levenshtein()


def test_python_levenshtein_is_used_where_it_is_installed() -> None:
    assert answers.distance is Levenshtein.distance
    assert _ALONE.distance is RapidfuzzLevenshtein.distance


@given(answer=_UNICODE, accepted=st.lists(_UNICODE, max_size=3))
def test_without_python_levenshtein_every_digit_is_equal(answer: str, accepted: list[str]) -> None:
    assert similarity(answer, accepted) == _ALONE.similarity(answer, accepted)
    assert anls(answer, accepted) == _ALONE.anls(answer, accepted)


@given(answer=_UNICODE, right=_UNICODE)
def test_similarity_is_that_of_rapidfuzz_to_the_digit(answer: str, right: str) -> None:
    one, other = answer.strip().lower(), right.strip().lower()
    expected = RapidfuzzLevenshtein.normalized_similarity(one, other) if one not in ("", "none") else 0.0
    assert similarity(answer, [right]) == expected
