import pytest

from pfl_audit.core.frequencies import hundredths, out_of


@pytest.mark.parametrize(
    ("share", "said"),
    [(0.0, "0"), (0.001, "fewer than 1"), (0.79, "79"), (0.996, "more than 99"), (1.0, "100"), (0.006, "1")],
)
def test_a_share_is_a_count_of_100(share: float, said: str) -> None:
    assert hundredths(share) == said


def test_few_cases_are_counted_themselves() -> None:
    assert out_of(0.5, 6, "words", "word") == ("of 6 words", "3")
    assert out_of(1.0, 1, "words", "word") == ("of 1 word", "1")
    assert out_of(0.79, 100, "companies") == ("of 100 companies", "79")
    assert out_of(0.79, None, "companies") == ("of 100 companies", "79")
