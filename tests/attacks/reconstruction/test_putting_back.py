"""Level of the fields that guesses put back."""

from dataclasses import replace

import numpy as np
import pytest

from pfl_audit.attacks.guesses.field import Guessed, Rank
from pfl_audit.attacks.guesses.present import Words, why_weak
from pfl_audit.attacks.guesses.putting_back import PutBack, outcome_of, put_back, reported
from pfl_audit.core.verdict import Budget
from pfl_audit.metrics.intervals import Estimate

BUDGET = Budget(0.05, 0.10)
FOUND, LOST = Rank(0, False, 3), Rank(64, False, 3)


def guessed(unit: object, attack: Rank, public: Rank = LOST) -> Guessed:
    return Guessed(str(unit), attack, public, True)


def sides(right: int, units: int = 20, each: int = 1) -> list[Guessed]:
    """Fields of units, of which the first are put back by the attack alone."""
    return [guessed(unit, FOUND if unit < right else LOST) for unit in range(units) for _ in range(each)]


def audit(private: list[Guessed], new: list[Guessed], guesses: int = 64, seed: int = 0) -> PutBack:
    return put_back(private, new, guesses, np.random.default_rng(seed), resamples=400, permutations=999)


def test_secrets_that_come_back_are_a_leak() -> None:
    found = audit(sides(10), sides(0))
    assert (found.private.attack.value, found.private.public.value, found.different) == (0.5, 0.0, 10)
    assert found.sign_flip == 2.0**-10
    assert found.level(BUDGET) == "leak"


def test_what_the_public_model_finds_with_as_many_guesses_is_none() -> None:
    both = [guessed(unit, FOUND, FOUND if unit < 8 else LOST) for unit in range(9)] + sides(0)[9:]
    found = audit(both, sides(0))
    assert (found.different, found.sign_flip) == (1, 0.5)
    assert found.level(BUDGET) == "none"


def test_what_new_forms_give_as_well_is_none() -> None:
    found = audit(sides(10), sides(10))
    assert found.sign_flip < 0.01
    assert found.level(BUDGET) == "none"


def test_new_forms_without_a_secret_are_not_called_missing() -> None:
    words = Words("fields", "hold", "forms", "private forms", "new forms", "the attack", "public knowledge alone",
                  "public model", "over public knowledge", "forms", unseen="without forms that are new")  # fmt: skip
    secrets, plain = sides(10), [replace(one, secret=False) for one in sides(0)]
    for new, said in ((plain, "of new forms no value is a secret"), ([], "without forms that are new")):
        outcome = outcome_of(secrets, new, (), 64, lambda what, k: np.random.default_rng(k))
        found = outcome.secrets[64]
        assert (found.permutation, found.level(BUDGET)) == (None, "weak")
        assert why_weak(words, found, outcome).startswith(said)


def test_below_five_units_that_differ_it_is_a_sign_at_most() -> None:
    """However many fields they have."""
    loose = Budget(0.2, 0.3)
    assert audit(sides(4, 12, each=9), sides(0, 40)).level(loose) == "weak"
    assert audit(sides(5, 12), sides(0, 40)).level(loose) == "leak"


def test_fields_of_a_unit_are_no_evidence_of_their_own() -> None:
    one = audit(sides(3, each=30), sides(0))
    assert one.sign_flip == 1 / 8
    assert one.level(BUDGET) == "none"


def test_without_new_forms_it_is_a_sign() -> None:
    found = audit(sides(10), [])
    assert (found.new, found.permutation, found.level(BUDGET)) == (None, None, "weak")


def test_too_few_units_decide_nothing() -> None:
    assert audit(sides(9, 9), sides(0)).level(BUDGET) == "unresolved"
    assert audit(sides(10), sides(0, 9)).level(BUDGET) == "unresolved"


def test_none_is_said_only_where_something_would_have_been_found() -> None:
    """With 10 private and 200 new units five suffice; with 10 of 10 and a strict budget nothing would."""
    found = audit(sides(0, 10), sides(0, 200))
    assert (found.level(BUDGET), found.smallest(BUDGET.weak)) == ("none", 5)
    strict = Budget(1e-7, 1e-6)
    found = audit(sides(0, 10), sides(0, 10))
    assert (found.level(strict), found.smallest(strict.weak)) == ("unresolved", None)


@pytest.mark.parametrize(("private", "new"), [(12, 10), (40, 20), (15, 60)])
def test_the_smallest_effect_is_found_and_one_secret_less_is_not(private: int, new: int) -> None:
    fewest = audit(sides(0, private), sides(0, new)).smallest(BUDGET.weak)
    assert fewest is not None
    assert audit(sides(fewest, private), sides(0, new)).level(BUDGET) in ("weak", "leak")
    assert audit(sides(fewest - 1, private), sides(0, new)).level(Budget(0.02, 0.02)) == "none"


def test_of_units_with_many_secrets_more_are_needed() -> None:
    """Their share is smaller, and the exact bound of a public model that puts none back goes by units."""

    def one_each(right: int) -> list[Guessed]:
        fields = sides(0, 30, each=5)
        return [replace(field, attack=FOUND) if at % 5 == 0 and at < 5 * right else field
                for at, field in enumerate(fields)]  # fmt: skip

    budget = Budget.shared(3)
    fewest = audit(one_each(0), sides(0, 30, each=5)).smallest(budget.weak)
    assert fewest is not None
    assert fewest > 10
    assert audit(one_each(fewest + 1), sides(0, 30, each=5)).level(budget) in ("weak", "leak")
    assert audit(one_each(5), sides(0, 30, each=5)).level(budget) == "none"


def test_where_one_of_each_unit_is_too_few_they_are_spread_over_all() -> None:
    """With 30 secrets a unit, one of each is a share that the public model may reach."""

    def spread(right: int) -> list[Guessed]:
        return [guessed(at % 20, FOUND if at < right else LOST) for at in range(600)]

    fewest = audit(spread(0), sides(0, 20, each=30)).smallest(BUDGET.weak)
    assert fewest is not None
    assert fewest > 20
    assert audit(spread(fewest + 5), sides(0, 20, each=30)).level(BUDGET) in ("weak", "leak")
    assert audit(spread(20), sides(0, 20, each=30)).level(BUDGET) == "none"


def test_a_search_that_was_cut_off_counts_against_the_attack() -> None:
    cut = Rank(3, True, 50)
    found = audit([guessed(unit, cut, cut) for unit in range(12)], sides(0, 12))
    assert (found.private.attack.value, found.private.public.value) == (0.0, 1.0)
    assert found.private.difference.low == -1.0


def test_fewer_guesses_find_less() -> None:
    private = [guessed(unit, Rank(unit, False, 3)) for unit in range(20)]
    assert [audit(private, sides(0), guesses).private.attack.value for guesses in (1, 8, 64)] == [0.05, 0.4, 1.0]
    assert [list(reported(guesses)) for guesses in (1, 5, 64)] == [[1], [1, 5], [1, 8, 64]]


def test_no_hit_is_no_certainty() -> None:
    """Beta bounds over the units, not over the fields."""
    few, many = (audit(sides(0, 20, each), sides(0)).private for each in (1, 9))
    assert few.attack.high == many.attack.high == pytest.approx(1 - 0.025 ** (1 / 20), abs=0.01)


@pytest.mark.parametrize("test", ["sign_flip", "permutation"])
def test_each_of_the_two_tests_alone_can_acquit(test: str) -> None:
    found = audit(sides(12), sides(0))
    assert found.level(BUDGET) == "leak"
    assert replace(found, **{test: 0.3}).level(BUDGET) == "none"
    assert replace(found, **{test: (BUDGET.leak + BUDGET.weak) / 2}).level(BUDGET) == "weak"


@pytest.mark.parametrize("bound", ["difference", "excess"])
def test_each_of_the_two_bounds_alone_can_acquit(bound: str) -> None:
    found = audit(sides(12), sides(0))
    around = Estimate(0.1, -0.2, 0.4, np.linspace(-0.2, 0.4, 100))
    if bound == "difference":
        found = replace(found, private=replace(found.private, difference=around))
    else:
        found = replace(found, excess=around)
    assert found.level(BUDGET) == "none"
