import time

from hypothesis import given
from hypothesis import strategies as st

from pfl_audit.documents.scrubbing.residual import SuffixAutomaton


def slow(a: str, b: str) -> int:
    """By the table of all pairs of letters."""
    best = 0
    row = [0] * (len(b) + 1)
    for letter in a:
        previous = 0
        for column, other in enumerate(b, start=1):
            previous, row[column] = row[column], (previous + 1 if letter == other else 0)
            best = max(best, row[column])
    return best


@given(st.text("abc", max_size=30), st.lists(st.text("abcd", max_size=30), max_size=4))
def test_the_longest_run_is_that_of_all_pairs(text: str, others: list[str]) -> None:
    runs = SuffixAutomaton(text)
    assert [runs.longest_common_substring(other) for other in others] == [slow(other, text) for other in others]


def test_long_texts_take_no_time() -> None:
    began = time.process_time()
    assert SuffixAutomaton("ab" * 50_000).longest_common_substring("ba" * 50_000) == 99_999
    assert time.process_time() - began < 5
