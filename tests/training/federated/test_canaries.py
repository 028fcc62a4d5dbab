"""The private trainer under canaries: the correct one is not contradicted, and broken ones are."""

import hashlib
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.linalg import hadamard
from scipy.stats import norm

from pfl_audit.errors import AuditError, NotAuditableError, UsageError
from pfl_audit.privacy.accounting import privacy_spent
from pfl_audit.privacy.canary_coins import Manifest
from pfl_audit.privacy.guarantee import GuaranteeSampling, PrivacyGuarantee
from pfl_audit.privacy.lower_bounds import Guesses, contradicts, detectable_share, p_value
from pfl_audit.privacy.pld import SampledGaussian
from pfl_audit.privacy.sampling import Sampling
from pfl_audit.training.federated import worker
from pfl_audit.training.federated.canaries import run
from pfl_audit.training.federated.canaries.directions import Directions
from pfl_audit.training.federated.canaries.estimates import estimate as estimates_of
from pfl_audit.training.federated.canaries.report import (
    family_of,
    holm,
    log_likelihood_ratio,
    report_on,
)
from pfl_audit.training.federated.canaries.run import Observation
from pfl_audit.training.federated.gaussian_mechanism import GaussianNoise
from tests.bench.canary_mutants import FAULTS, SETTINGS, contradictions
from tests.training.federated.canary_runs import (
    CLAIM,
    DUAL,
    GROUPS,
    audited,
    changed,
    manifest,
    run_canaries,
)

TOTAL_VARIATION = 0.35216
"""Of the mechanism of CLAIM, by numerical composition."""


def test_the_correct_trainer_has_the_accuracy_of_the_theory() -> None:
    report, _ = audited(1, canaries=10_000, clients=10)
    assert report.accuracy == pytest.approx((1 + TOTAL_VARIATION) / 2, abs=0.01)
    assert 2 < report.epsilon < CLAIM.epsilon
    assert report.contradictions == ()
    found = report.estimates
    for estimate, truth, width in (
        (found.noise_multiplier, 0.7715, 0.02),
        (found.sampling_rate, 0.2, 0.06),
        (found.clip, 1.0, 0.2),
        (found.correlation, 0.0, 0.2),
    ):
        assert estimate.low < truth < estimate.high
        assert estimate.high - estimate.low < width


def unclipped(update: torch.Tensor, bound: float) -> tuple[torch.Tensor, str]:
    return update, "kept"


def without_noise(self: GaussianNoise, size: int, number: int, client: int, participants: int) -> torch.Tensor:
    return torch.zeros(size)


correct_share = GaussianNoise.share


def divided_by_clients(self: GaussianNoise, size: int, number: int, client: int, participants: int) -> torch.Tensor:
    return correct_share(self, size, number, client, participants) / math.sqrt(participants)


def reused(self: GaussianNoise, size: int, number: int, client: int, participants: int) -> torch.Tensor:
    return correct_share(self, size, 1, client, participants)


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(
    ("name", "broken", "sentence"),
    [
        ("clip", unclipped, "times the stated norm"),
        ("share", without_noise, "the noise multiplier is"),
        ("share", divided_by_clients, "the noise multiplier is 0.3"),
        ("share", reused, "the noise of two sums or messages has a correlation of 1"),
    ],
)
def test_a_broken_trainer_is_contradicted(
    monkeypatch: pytest.MonkeyPatch, name: str, broken: object, sentence: str, seed: int
) -> None:
    monkeypatch.setattr(worker if name == "clip" else GaussianNoise, name, broken)
    report, _ = audited(seed)
    assert any(sentence in found for found in report.contradictions), report.contradictions


@pytest.mark.sampled(1)
@pytest.mark.parametrize("claim", [GROUPS, DUAL, DUAL.model_copy(update={"sampling": GROUPS.sampling})])
def test_a_larger_run_of_groups_and_duals_measures_the_mechanism(claim: PrivacyGuarantee) -> None:
    report, observation = audited(3, canaries=4000, claim=claim)
    assert report.contradictions == ()
    assert 0.5 < report.epsilon < claim.epsilon
    assert 0.5 < report.epsilon_of_family < claim.epsilon
    for name, truth, width in (
        ("noise_multiplier", claim.noise_multiplier, 0.05),
        ("sampling_rate", claim.sampling.provider_rate, 0.15),
        ("clip", 1.0, 0.4),
        ("correlation", 0.0, 0.4),
    ):
        found = getattr(report.estimates, name)
        assert found.low < truth < found.high
        assert found.high - found.low < width
    assert len(observation.noise) == claim.rounds if claim.noise == "sum" else len(observation.noise) > claim.rounds


@pytest.mark.sampled(1)
@pytest.mark.parametrize("noise", ["sum", "message"])
def test_without_sampling_a_replacement_has_the_accuracy_of_the_theory(noise: str) -> None:
    sigma = 4 * math.sqrt(2 / 4)  # over 2 rounds as much as 4 over 4
    sampling = GROUPS.sampling.model_copy(update={"client_rate": 1.0, "provider_rate": 1.0})
    claim = GROUPS.model_copy(update={"sampling": sampling, "rounds": 2, "noise_multiplier": sigma, "noise": noise})
    theory = SampledGaussian(claim.sampled(), sigma, "fixed-size").total_variation
    report, _ = audited(2, canaries=10_000, claim=claim)
    assert report.accuracy == pytest.approx((1 + theory) / 2, abs=0.01)
    assert report.accuracy == pytest.approx(norm.cdf(0.5), abs=0.01)


def a_share_of_the_noise(self: GaussianNoise, size: int, number: int, client: int, participants: int) -> torch.Tensor:
    return correct_share(self, size, number, client, 4)


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("claim", "name", "broken", "sentence"),
    [
        (GROUPS, "clip", unclipped, "times the stated norm"),
        (GROUPS, "share", without_noise, "the noise multiplier is"),
        (GROUPS, "share", divided_by_clients, "the noise multiplier is 0.6"),
        (GROUPS, "share", reused, "the noise of two sums or messages has a correlation of 1"),
        (
            DUAL,
            "clip",
            unclipped,
            "the noise of two sums or messages has a correlation of -1",
        ),  # the dual carries it on
        (DUAL, "share", without_noise, "the noise multiplier is"),
        (DUAL, "share", a_share_of_the_noise, "the noise multiplier is 0.38"),
        (DUAL, "share", reused, "the noise of two sums or messages has a correlation of 1"),
    ],
)
def test_broken_trainers_of_groups_and_duals_are_contradicted(
    monkeypatch: pytest.MonkeyPatch, claim: PrivacyGuarantee, name: str, broken: object, sentence: str
) -> None:
    monkeypatch.setattr(worker if name == "clip" else GaussianNoise, name, broken)
    report, _ = audited(0, claim=claim)
    assert any(sentence in found for found in report.contradictions), report.contradictions


def test_a_forged_guarantee_of_groups_is_contradicted() -> None:
    """The competition's figure takes fixed-size draws of clients and providers for Poisson draws."""
    sampling = GROUPS.sampling.model_copy(update={"client_rate": 0.5, "provider_rate": 1.0})
    claim = GROUPS.model_copy(update={"sampling": sampling, "noise_multiplier": 0.6, "epsilon": 1.0})
    report, _ = audited(0, canaries=2000, claim=claim)
    assert "epsilon is above the stated 1" in report.contradictions


def test_correlation_is_that_of_the_pair_with_the_largest() -> None:
    """An oracle by pairs."""
    rng = np.random.default_rng(3)
    noise = rng.normal(size=(4, 60))
    noise[2] = noise[0] + 0.3 * rng.normal(size=60)
    drawn = Observation(np.zeros((4, 2)), np.ones((4, 2), bool), noise)
    found = estimates_of(drawn, np.array([True, False]), 0.01).correlation
    assert found.value == pytest.approx(noise[0] @ noise[2] / np.sqrt(noise[0] @ noise[0] * (noise[2] @ noise[2])))
    assert found.low > 0


def test_covariance_of_draws_is_the_mean_over_pairs_of_rounds() -> None:
    """An oracle by pairs, over the rounds in which both are there."""
    rng = np.random.default_rng(4)
    seen, there = rng.normal(size=(5, 8)), rng.random((5, 8)) < 0.7
    found = estimates_of(Observation(seen, there, rng.normal(size=(5, 9))), np.ones(8, bool), 0.01).draws
    centred = np.array([row - row[active].mean() for row, active in zip(seen, there, strict=True)])
    products = [
        centred[first, one] * centred[second, one]
        for one in range(8)
        for first in range(5)
        for second in range(first)
        if there[first, one] and there[second, one]
    ]
    assert found.value == pytest.approx(np.mean(products))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("name", ["one draw for the whole run", "shuffled passes for Poisson draws", "noise halved"])
def test_faults_of_the_whole_mechanism_are_contradicted(name: str, setting: str) -> None:
    (fault,) = (one for one in FAULTS if one.name == name)
    assert contradictions(fault, 1, setting)


def test_rounded_messages_and_an_adaptive_server_are_no_contradiction() -> None:
    assert contradictions(None, 1, "messages, NF4, FedAdam") == ()


def test_canaries_without_effect_show_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "LENGTH", 0.0)
    monkeypatch.setattr(worker.Worker, "_check", lambda self: None)
    report, _ = audited(3)
    assert report.epsilon == 0
    assert abs(report.accuracy - 0.5) < 0.06
    assert report.estimates.clip.value is None
    assert report.to_dict()["estimates"]["clip"]["high"] is None


@pytest.mark.slow
def test_without_sampling_the_trade_off_curve_is_gaussian() -> None:
    sampling = CLAIM.sampling.model_copy(update={"provider_rate": 1.0})
    claim = changed(sampling=sampling, rounds=4, noise_multiplier=2.0, epsilon=4.38)
    report, observation = audited(2, canaries=4000, claim=claim)
    assert report.accuracy == pytest.approx(norm.cdf(0.5), abs=0.03)
    assert report.contradictions == ()
    assert 0 < report.epsilon < report.epsilon_of_family < claim.epsilon
    forged = claim.model_copy(update={"noise_multiplier": 8.0})
    contradictions = report_on(forged, report.manifest, observation, family_of(forged)).contradictions
    assert "the guesses are better than the stated mechanism allows" in contradictions
    assert any("noise multiplier is 2" in found or "noise multiplier is 1.9" in found for found in contradictions)


@dataclass(frozen=True)
class OneRound:
    """One round in which a provider is drawn with probability 0.5: (1 - q) N(0, s²) + q N(1, s²) against N(0, s²)."""

    strength: float

    def trade_off(self, fprs: NDArray[np.float64]) -> NDArray[np.float64]:
        return 0.5 * fprs + 0.5 * norm.cdf(norm.ppf(fprs) + self.strength)

    def epsilon(self, delta: float) -> float:
        return privacy_spent(Sampling(1.0, 0.5, 1), 1 / self.strength, delta).epsilon


def test_a_trade_off_curve_may_be_given() -> None:
    sampling = CLAIM.sampling.model_copy(update={"provider_rate": 0.5})
    claim = changed(sampling=sampling, rounds=1, noise_multiplier=0.5, epsilon=OneRound(2.0).epsilon(1e-5))
    drawn = manifest(5, 10_000, 500)
    observation = run_canaries(claim, drawn, 1, 5)
    report = report_on(claim, drawn, observation, OneRound)
    assert report.contradictions == ()
    assert report.epsilon < report.epsilon_of_family < claim.epsilon
    assert not contradicts(OneRound(2.0).trade_off, report.guesses)
    assert contradicts(OneRound(0.5).trade_off, report.guesses)


def test_rounds_without_the_client_are_left_out() -> None:
    sampling = GuaranteeSampling(kind="poisson", scheme="clients", client_rate=0.4, provider_rate=0.5)
    report, observation = audited(1, canaries=2000, claim=changed(sampling=sampling, epsilon=15.0))
    assert 0.2 < observation.active.mean() < 0.6
    assert not observation.active.any(axis=1).all()  # a round without clients
    assert report.estimates.sampling_rate.low < 0.5 < report.estimates.sampling_rate.high
    assert report.contradictions == ()


def test_the_score_is_the_likelihood_ratio() -> None:
    rng = np.random.default_rng(0)
    nothing = np.empty((3, 0))
    for replaced in (False, True):
        seen = rng.normal(size=(3, 5)), rng.random((3, 5)) < 0.7
        observation = Observation(*seen, nothing, replaced)
        found = log_likelihood_ratio(observation, 0.8, 0.3)
        for canary in range(5):
            ratio = 1.0
            for value, active in zip(seen[0][:, canary], seen[1][:, canary], strict=True):
                undrawn = 0.7 * norm.pdf(value, 0, 0.8)
                one, other = (undrawn + 0.3 * norm.pdf(value, mean, 0.8) for mean in (1, -1 if replaced else 0))
                ratio *= one / other if active else 1.0
            assert found[canary] == pytest.approx(math.log(ratio))
        assert np.isfinite(log_likelihood_ratio(observation, 0.8, 1.0)).all()


def test_directions_are_rows_of_a_signed_hadamard_matrix() -> None:
    directions = Directions(50, b"salt")
    rows = np.stack([directions.direction(number) for number in range(50)])
    assert directions.size == 64
    assert rows @ rows.T == pytest.approx(np.eye(50), abs=1e-6)
    assert np.abs(rows) == pytest.approx(1 / 8)
    assert np.abs(rows @ rows[0]) == pytest.approx(np.eye(50)[0], abs=1e-6)
    assert (rows * np.sign(rows[0]) * 8).astype(int).tolist() == hadamard(64)[:50].tolist()
    vector = np.random.default_rng(0).normal(size=64).astype(np.float32)
    assert directions.project(vector) == pytest.approx(rows @ vector, abs=1e-6)
    assert (Directions(50, b"other").direction(0) != rows[0]).any()


def test_the_commitment_is_the_hash_of_four_lines() -> None:
    drawn = Manifest.draw(1000, 50, "verifier 7")
    text = "\n".join(["verifier 7", "1000 50", drawn.salt, drawn.bits, ""])
    assert drawn.commitment == hashlib.sha256(text.encode()).hexdigest()
    assert set(drawn.public()) == {"commitment", "nonce", "canaries", "guesses"}
    assert Manifest.check(drawn.revealed(), drawn.commitment) == drawn
    assert abs(drawn.coins.mean() - 0.5) < 0.1
    assert Manifest.draw(1000, 50, "verifier 7").commitment != drawn.commitment


@pytest.mark.parametrize("change", [{"coins": "00" * 125}, {"guesses": 51}, {"salt": 3}, {"nonce": "other"}])
def test_a_changed_manifest_is_refused(change: dict[str, object]) -> None:
    drawn = Manifest.draw(1000, 50, "verifier 7")
    with pytest.raises(AuditError, match="hash of the commitment"):
        Manifest.check({**drawn.revealed(), **change}, drawn.commitment)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [((1, 1), "1 canaries"), ((100, 101), "101 guesses"), ((100, 5, "two\nlines"), "nonce"), ((2**21, 5), "canaries")],
)
def test_a_manifest_out_of_range_is_refused(arguments: tuple[Any, ...], problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        Manifest.draw(*arguments)


def test_tests_share_the_error_step_by_step() -> None:
    """Holm 1979 by its definition, over sorted p-values."""
    rng = np.random.default_rng(2)
    for values in rng.choice([0.003, 0.01, 0.012, 0.02, 0.03, 0.2, 0.9], size=(300, 5)):
        rejected, order = set[str](), np.argsort(values, kind="stable")
        for place, at in enumerate(order):
            if values[at] > 0.05 / (5 - place):
                break
            rejected.add(str(at))
        found = holm(lambda level: [str(at) for at in range(5) if values[at] <= level], 5, 0.05)  # noqa: B023
        assert set(found) == rejected


def test_a_run_states_the_share_of_correct_guesses_that_it_finds() -> None:
    """By drawing guesses of that share."""
    guesses = Guesses(1000, 50, 0)

    def rejected(some: Guesses) -> bool:
        return p_value(some, 1.0, 1e-5) <= 0.05 / 7

    share = detectable_share(guesses, rejected)
    assert share is not None
    drawn = np.random.default_rng(0).binomial(50, share, size=2000)
    assert np.mean([rejected(Guesses(1000, 50, int(correct))) for correct in drawn]) == pytest.approx(0.8, abs=0.03)
    assert detectable_share(guesses, lambda some: p_value(some, 9.0, 1e-5) <= 0.05 / 7) is None
    report, _ = audited(1)
    of_epsilon, of_mechanism = report.finds
    assert of_epsilon is None  # 50 correct guesses of 50 may be had at epsilon 7.98
    assert of_mechanism is None or of_mechanism > 0.9


def test_what_cannot_run_is_refused() -> None:
    drawn = manifest(0, 100, 5)
    with pytest.raises(NotAuditableError, match="forces a provider into empty rounds"):
        run_canaries(changed(forced_participation=True), drawn, 2)
    rare = GROUPS.sampling.model_copy(update={"provider_rate": 0.01})
    with pytest.raises(UsageError, match="of the 50 canaries of each, none would be drawn"):
        run_canaries(GROUPS.model_copy(update={"sampling": rare}), drawn, 2)
    with pytest.raises(UsageError, match="divided among 101 clients"):
        run_canaries(CLAIM, drawn, 101)
    with pytest.raises(UsageError, match="do not fit in memory"):
        run_canaries(changed(rounds=10**7), drawn, 2)
