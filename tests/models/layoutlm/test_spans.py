import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pfl_audit.models.layoutlm.spans import best_span, find_answer

LOGS = st.lists(st.tuples(st.integers(-40, 0), st.integers(-40, 0)), min_size=1, max_size=12)


@given(LOGS, st.integers(1, 5))
def test_the_best_span_is_the_best_of_all(logs: list[tuple[int, int]], longest: int) -> None:
    starts, ends = (np.array([pair[side] for pair in logs], dtype=np.float64) for side in (0, 1))
    best = (0, 0, -np.inf)
    for first in range(len(logs)):
        for last in range(first, min(first + longest, len(logs))):
            if starts[first] + ends[last] > best[2]:
                best = (first, last, starts[first] + ends[last])
    assert best_span(starts, ends, longest) == best


def test_no_tokens_no_span() -> None:
    assert best_span(np.zeros(0), np.zeros(0)) is None


@pytest.mark.parametrize(
    ("words", "answer", "place"),
    [
        (("a", "Acme", "Media", "acme", "media"), "ACME  media ", (1, 2)),
        (("Acme", "Acme", "Media"), "acme media", (1, 2)),
        (("new york", "times"), "york times", (0, 1)),
        (("new york",), "new", (0, 0)),
        (("acmemedia",), "acme media", None),
        (("acme",), "acme media", None),
        (("a",), "  ", None),
        ((), "a", None),
    ],
)
def test_where_an_answer_stands(words: tuple[str, ...], answer: str, place: tuple[int, int] | None) -> None:
    assert find_answer(words, answer) == place


@given(st.lists(st.sampled_from(["a", "b", "c d"]), max_size=8), st.integers(0, 8), st.integers(0, 8))
def test_what_stands_there_is_found_and_no_later_than_there(words: list[str], first: int, count: int) -> None:
    wanted = words[first : first + count]
    place = find_answer(words, " ".join(wanted).upper())
    if not wanted:
        assert place is None
        return
    assert place is not None
    assert place[0] <= first
    assert " ".join(wanted) in " ".join(words[place[0] : place[1] + 1])
