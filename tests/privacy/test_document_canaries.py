"""Guesses of the coins of document canaries, and what follows from them."""

from math import exp, inf
from statistics import mean

import numpy as np
import pytest
from scipy.stats import binom

from pfl_audit.errors import AuditError
from pfl_audit.privacy.canary_coins import Manifest
from pfl_audit.privacy.document_canaries import bound_epsilon, contradicted, guess_coins, smallest_epsilon
from pfl_audit.privacy.guarantee import PrivacyGuarantee
from pfl_audit.privacy.lower_bounds import ERROR, Guesses, epsilon_lower_bound
from tests.privacy.test_guarantee import HONEST

CLAIM = PrivacyGuarantee.model_validate(HONEST)


def test_the_ends_of_the_scores_are_guessed() -> None:
    manifest = Manifest.draw(101, 21)
    scores = np.where(manifest.coins, 1.0, 0.0)
    assert guess_coins(scores, manifest).correct == 21
    assert guess_coins(-scores, manifest).correct == 0
    assert guess_coins(np.zeros(101), Manifest.draw(101, 101)).made == 101


def test_half_of_the_guesses_are_of_canaries_that_are_left_out() -> None:
    """Five of 100 canaries are included: ten guesses of a coin of 1 find them, ten of a coin of 0 are right."""
    coins = np.zeros(100, dtype=bool)
    coins[:5] = True
    manifest = Manifest("", 20, "00" * 32, 100, np.packbits(coins).tobytes().hex())
    assert guess_coins(coins.astype(float), manifest) == Guesses(100, 20, 5 + 10)


def test_both_lower_bounds_hold_together() -> None:
    guesses = Guesses(400, 300, 200)
    found = bound_epsilon(guesses, CLAIM)
    assert found.epsilon == epsilon_lower_bound(guesses, CLAIM.delta, ERROR / 2)
    assert 0 < found.epsilon < epsilon_lower_bound(guesses, CLAIM.delta, ERROR)


def test_noise_has_a_bound_above_zero_as_rarely_as_is_said() -> None:
    """At 95 %, 500 models that saw no canary: at most 33 bounds above 0."""
    rng = np.random.default_rng(0)
    found = [guess_coins(rng.normal(size=200), Manifest.draw(200, 40)).correct for _ in range(500)]
    bounds = {correct: bound_epsilon(Guesses(200, 40, correct), None).epsilon for correct in set(found)}
    assert sum(bounds[correct] > 0 for correct in found) <= 40  # 25 are expected at most; above 40 once in 500
    assert abs(mean(found) - 20) < 1


def test_perfect_guesses_contradict_a_guarantee_once_there_are_enough() -> None:
    few, many = Guesses(8, 6, 6), Guesses(400, 300, 300)
    assert contradicted(few, CLAIM) is None
    assert contradicted(many, CLAIM) == "the guesses are better than the stated mechanism allows"
    assert bound_epsilon(many, CLAIM).largest > CLAIM.epsilon > bound_epsilon(few, CLAIM).largest > 0
    small = CLAIM.model_copy(update={"epsilon": 0.5})
    assert contradicted(many, small) == "epsilon is above the stated 0.5"


def test_the_smallest_epsilon_is_found_in_four_of_five_audits() -> None:
    for made, error in ((40, 0.1), (200, 0.005)):
        epsilon = smallest_epsilon(made, error)
        critical = min(v for v in range(made + 1) if binom.sf(v - 1, made, 0.5) <= error)
        assert binom.sf(critical - 1, made, 1 / (1 + exp(-epsilon))) == pytest.approx(0.8)
    assert smallest_epsilon(4, 0.01) == inf


def test_coins_that_cannot_be_are_no_manifest() -> None:
    for manifest in (
        Manifest("", 2, "00" * 31, 8, "ff"),
        Manifest("", 2, "zz" * 32, 8, "ff"),
        Manifest("", 2, "00 " * 32, 8, "ff"),  # of which no page can be drawn
        Manifest("", 2, "00" * 32, 8, "ffff"),
        Manifest("", 9, "00" * 32, 8, "ff"),
        Manifest("a\nb", 2, "00" * 32, 8, "ff"),
    ):
        with pytest.raises(AuditError, match="do not have the hash"):
            Manifest.check(manifest.revealed(), manifest.commitment)
    one = Manifest.draw(8, 2)
    with pytest.raises(AuditError, match="do not have the hash"):
        Manifest.check({**one.revealed(), "nonce": "\ud800"}, one.commitment)
