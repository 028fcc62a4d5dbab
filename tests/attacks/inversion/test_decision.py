"""The level of what closed forms recovered, from counts alone: what is a leak, and what is said where it is none."""

import numpy as np
import pytest

from pfl_audit.attacks.inversion.controls import ALL_BOXES, ANY_ORDER, FILLINGS, TOKENS, Counts
from pfl_audit.attacks.inversion.decision import decide
from pfl_audit.attacks.inversion.present_decision import NOT_SHOWN, beside, closed_finding
from pfl_audit.core.verdict import Budget

BUDGET = Budget.shared(3)


def counts(own: int, others: list[int], of: int = 100) -> Counts:
    """Of the own page and of other fillings, of ``of`` tokens each; fillings that are not given have a third."""
    rest = [of // 3] * (FILLINGS - len(others))
    return np.array([[right, of] for right in (own, *others, *rest)])


def test_a_measure_of_which_nothing_is_named_hides_no_other() -> None:
    """Two of 999 fillings match more by chance: their distance is below that of a measure that is always 0."""
    some, none = counts(90, [95, 94]), counts(0, [0] * FILLINGS)
    alone, both = decide([{ANY_ORDER: some}], BUDGET), decide([{ANY_ORDER: some, ALL_BOXES: none}], BUDGET)
    assert alone is not None
    assert alone.level == "leak"
    assert both == alone


@pytest.mark.parametrize(("of_noise", "level"), [(0, "leak"), (60, "leak"), (88, "unresolved"), (100, "unresolved")])
def test_what_noise_gives_as_well_is_no_leak(of_noise: int, level: str) -> None:
    found = decide([{TOKENS: counts(90, [])}], BUDGET, [{TOKENS: counts(of_noise, [])[:1]}])
    assert found is not None
    assert found.level == level


@pytest.mark.parametrize(
    ("named", "said"),
    [
        (100, "Noise of the update's size gives 27 right ones."),
        (590, "gives 27 right ones among 590 that are named."),
    ],
)
def test_how_many_tokens_noise_names_is_said(named: int, said: str) -> None:
    """Noise that moves every row of a table names all of its tokens, the right ones among them."""
    found = decide([{ANY_ORDER: counts(90, [])}], BUDGET)
    text = beside(found, "private fields", [{ANY_ORDER: counts(27, [], of=named)[:1]}])
    assert text.endswith(said)


def test_noise_without_the_measure_is_no_control() -> None:
    found = decide([{TOKENS: counts(90, [])}], BUDGET, [{}])
    assert found is not None
    assert found.level == "leak"


@pytest.mark.parametrize("own", [0, 33, 100])
def test_equal_shares_of_all_fillings_are_no_evidence(own: int) -> None:
    found = decide([{TOKENS: counts(own, [own] * FILLINGS)}], BUDGET)
    assert found is not None
    assert (found.level, found.p, found.above) == ("unresolved", 1.0, False)
    assert closed_finding(found, "", "tokens", [()]).plain == NOT_SHOWN


def test_what_came_back_is_not_called_nothing() -> None:
    """One token, which came back: too little to tell from a chance of 3 in 10."""
    found = decide([{TOKENS: np.array([[1, 1]] + [[int(at < 300), 1] for at in range(FILLINGS)])}], BUDGET)
    assert found is not None
    assert (found.level, found.right) == ("unresolved", (1, 1))
    made = closed_finding(found, "", "tokens of private fields", [()])
    assert made.plain is not None
    assert made.plain.startswith("1 of 1 tokens of private fields came back; other fillings of the form would have")
    assert "too little to tell it from chance" in made.text
    assert "no cause was found" not in made.text
