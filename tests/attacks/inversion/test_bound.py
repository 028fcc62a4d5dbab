"""What noise allows: against normal distributions drawn and counted, and against what is stated."""

from pathlib import Path

import numpy as np
import pytest
import torch

from pfl_audit.attacks.inversion.bound import HALF, SMALL, NoiseBound, together
from pfl_audit.attacks.inversion.clients import clipped, norm_of
from pfl_audit.attacks.inversion.decision import Decision
from pfl_audit.attacks.inversion.inputs import GradientInputs
from pfl_audit.attacks.inversion.present_decision import closed_finding
from pfl_audit.attacks.inversion.statement import require_stated
from pfl_audit.errors import UsageError

NOTHING = Decision("unresolved", "tokens exact", (1, 40), 0.025, 0.03, 0.1, 0.6)


@pytest.mark.parametrize("prior", [0.5, 0.1])
@pytest.mark.parametrize("apart", [0.1, 1.0, 3.0])
def test_no_rule_is_right_more_often_than_the_bound(apart: float, prior: float) -> None:
    """The likelihood ratio is the best rule; 200,000 draws of it come within a hundredth of the bound."""
    rng = np.random.default_rng(0)
    threshold = np.quantile(rng.standard_normal(200_000), 1 - prior)
    right = float((apart + rng.standard_normal(200_000) > threshold).mean())
    assert NoiseBound(1.0, apart).largest(prior) == pytest.approx(right, abs=0.01)
    assert NoiseBound(2.0, 2 * apart).largest(prior) == pytest.approx(NoiseBound(1.0, apart).largest(prior))


def test_nothing_is_shown_without_enough_noise() -> None:
    few, much = NoiseBound(0.1, 1.0), NoiseBound(100.0, 1.0)
    assert (few.shows, much.shows) == (False, True)
    assert NoiseBound(few.needed, 1.0).largest(HALF) == pytest.approx(HALF + SMALL)
    assert f"Noise of {few.needed:.2g}" in few.words


def test_distances_that_were_measured_show_nothing() -> None:
    """Other pages may be farther apart than those that were tried."""
    measured = NoiseBound(100.0, 1.0, 16)
    assert "16 other fillings, for which alone this holds" in measured.words
    assert "would bring" not in measured.words
    assert not measured.shows
    made = closed_finding(NOTHING, "Little came back.", "tokens", [()], bounds=[measured])
    assert made.level == "unresolved"
    assert "is only shown by noise of a stated size and clipping" in made.text


@pytest.mark.parametrize(("sigma", "level"), [(0.1, "unresolved"), (100.0, "none")])
def test_none_is_said_on_the_ground_of_a_bound_alone(sigma: float, level: str) -> None:
    made = closed_finding(NOTHING, "Little came back.", "tokens", [()], bounds=[NoiseBound(sigma, 1.0)])
    assert made.level == level
    assert closed_finding(NOTHING, "Little came back.", "tokens", [()], bounds=[None]).level == "unresolved"
    two = [NoiseBound(100.0, 1.0), NoiseBound(sigma, 1.0)]
    assert closed_finding(NOTHING, "Little came back.", "tokens", [()], bounds=two).level == level


def test_a_leak_stays_one_whatever_is_stated() -> None:
    found = Decision("leak", "tokens exact", (40, 40), 1.0, 0.03, 0.1, 0.001)
    assert closed_finding(found, "All came back.", "tokens", [()], bounds=[NoiseBound(100.0, 1.0)]).level == "leak"


def test_a_clipped_gradient_has_the_norm_and_the_direction() -> None:
    given = {"a": torch.tensor([3.0, 0.0]), "b": torch.tensor([[4.0]])}
    assert norm_of(given) == 5.0
    assert {name: part.tolist() for name, part in clipped(given, 1.0).items()} == {
        "a": pytest.approx([0.6, 0.0]),
        "b": [pytest.approx([0.8])],
    }
    for norm in (None, 7.0):
        assert all(torch.equal(clipped(given, norm)[name], part) for name, part in given.items())


def test_a_wrong_statement_is_noticed() -> None:
    given = {"a": torch.full((200,), 0.1), "small": torch.zeros(3)}
    require_stated(Path("g"), given, GradientInputs(noise=0.1, clip=0.1))
    require_stated(Path("g"), given, GradientInputs(clip=2.0))
    with pytest.raises(UsageError, match="cannot hold noise of 1 an entry: a has 0"):
        require_stated(Path("g"), given, GradientInputs(noise=1.0))
    with pytest.raises(UsageError, match="above the 1 that it was clipped to"):
        require_stated(Path("g"), given, GradientInputs(clip=1.0))


def test_updates_of_one_client_are_held_together() -> None:
    """A hundred updates that show nothing one by one are like one with a tenth of the noise."""
    one = NoiseBound(100.0, 10.0)
    hundred = together([one] * 100)
    assert (one.shows, hundred.shows) == (True, False)
    assert hundred.largest(HALF) == pytest.approx(NoiseBound(10.0, 10.0).largest(HALF))
    assert "an observer of 100 messages who chooses" in hundred.words
    assert together([one, NoiseBound(50.0, 10.0)]).largest(HALF) == pytest.approx(
        NoiseBound(1.0, 0.05**0.5).largest(HALF)
    )
