import pytest
from hypothesis import given
from hypothesis import strategies as st

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
