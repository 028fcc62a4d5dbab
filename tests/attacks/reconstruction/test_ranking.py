import math

import pytest

from pfl_audit.attacks.reconstruction import evaluation as ranking
from pfl_audit.attacks.reconstruction.search import Guess
from pfl_audit.attacks.reconstruction.specs import ReconstructionSettings


def guess(target: tuple[float, ...], public: tuple[float, ...]) -> Guess:
    return Guess((7,) * len(target), tuple(map(math.log, target)), tuple(map(math.log, public)))


HALF = guess((0.5, 0.5), (0.25, 0.04))
"""Perplexities 2 and 10."""


def test_each_by_hand() -> None:
    assert math.exp(-ranking.target_perplexity(HALF)) == pytest.approx(2)
    assert math.exp(ranking.raw_perplexity(HALF)) == pytest.approx(10)
    assert math.exp(ranking.perplexity_ratio(HALF)) == pytest.approx(10 / 2)
    assert math.exp(ranking.raw_and_ratio(HALF)) == pytest.approx(10 * 5)
    assert ranking.max_likelihood_gap(HALF) == pytest.approx(0.46)
    assert math.exp(ranking.max_likelihood_ratio(HALF)) == pytest.approx(12.5)
    assert math.exp(-ranking.public_likelihood(HALF)) == pytest.approx(10)


def test_every_metric_of_the_settings_is_there() -> None:
    named = ReconstructionSettings.model_fields["ranking"].annotation.__args__  # type: ignore[union-attr]
    assert tuple(ranking.WITH_REFERENCE) == named
    assert set(named) - set(ranking.METRICS) == {"ratio to the public target"}


@pytest.mark.parametrize(
    "name", [name for name in ranking.METRICS if name.startswith(("perplexity", "raw and", "max"))]
)
def test_what_the_target_alone_finds_likely_comes_first(name: ranking.MembershipMetric) -> None:
    score = ranking.METRICS[name]
    memorised, common, unknown = guess((0.9, 0.9), (0.01, 0.01)), guess((0.9, 0.9), (0.8, 0.8)), guess((0.1,), (0.1,))
    assert score(memorised) > max(score(common), score(unknown))


def test_what_public_knowledge_finds_unlikely_comes_first_by_raw_perplexity() -> None:
    assert ranking.raw_perplexity(guess((0.1,), (0.01,))) > ranking.raw_perplexity(guess((0.9,), (0.8,)))


def test_of_equal_attempts_the_first_is_kept() -> None:
    low = guess((0.5,), (0.5,))
    assert ranking.best_attempt([low, HALF, HALF], ranking.perplexity_ratio)[0] == 1


def test_very_unlikely_tokens_do_not_overflow() -> None:
    far = Guess((7,), (-0.1,), (-700.0,))
    assert all(math.isfinite(score(far)) for score in ranking.METRICS.values())
