import math
from typing import Any

import pytest

from pfl_audit.privacy.guarantee import PrivacyGuarantee, accuracy_bound, guarantee_warnings
from pfl_audit.privacy.pld import SampledGaussian
from pfl_audit.privacy.reconstruction import largest_by_epsilon, largest_reconstruction
from pfl_audit.privacy.review import PRIORS, review_record
from pfl_audit.privacy.sampling import Sampling
from tests.privacy.training_records import review_claim

DRAWN = {"kind": "poisson", "scheme": "clients", "client_rate": 0.2, "provider_rate": 1.0}
CLAIM: dict[str, Any] = {
    "epsilon": 8.0,
    "delta": 1e-5,
    "unit": "provider",
    "adjacency": "add/remove one provider",
    "accountant": "prv",
    "accounting": "published",
    "noise_multiplier": 0.771484375,
    "clip": 5.0,
    "rounds": 10,
    "rounds_accounted": 10,
    "sampling": DRAWN,
    "denominator": 400.0,
    "noise_generator": "cryptographic: operating system",
}
ALONE = {"kind": "poisson", "scheme": "providers", "client_rate": 1.0, "provider_rate": 0.2}
HONEST = {**CLAIM, "accounting": "valid", "sampling": ALONE, "providers": 4000}


def claim(**changes: Any) -> PrivacyGuarantee:
    return PrivacyGuarantee.model_validate({**CLAIM, **changes})


def test_the_published_claim_is_worth_14_46() -> None:
    found = review_claim(CLAIM)
    assert found.worth == "weaker"
    assert found.text.startswith("published accounting: effective epsilon 14.46")
    assert found.epsilon == pytest.approx(14.46, abs=0.005)
    assert found.renyi == pytest.approx(16.28, abs=0.005)
    assert found.published == pytest.approx(8, abs=0.01)
    assert found.claimed_accuracy == accuracy_bound(8.0, 1e-5)
    assert found.largest_accuracy == pytest.approx(0.7855, abs=5e-4)  # far below what epsilon alone allows
    assert found.warnings == ["the stated epsilon is 8, the recomputed epsilon is 14.46"]


def test_a_claim_with_independent_providers_holds() -> None:
    found = review_claim(HONEST)
    assert (found.worth, found.warnings, found.published) == ("holds", [], None)
    assert found.text == "as stated: epsilon 7.98 for the 10 rounds that were run"


def test_more_rounds_than_accounted_are_recomputed_for_those_that_were_run() -> None:
    found = review_claim({**HONEST, "rounds": 50})
    assert found.worth == "weaker"
    assert found.epsilon is not None
    assert found.epsilon > 15
    assert "50 rounds were run, but only 10 are accounted for" in found.warnings


@pytest.mark.parametrize(
    ("changes", "text", "warning"),
    [
        ({"sampling": {**ALONE, "kind": "fixed-size"}}, "another adjacency", "'replace one provider with"),
        ({"adjacency": "replace one"}, "another adjacency", "'replace one'"),
        ({"forced_participation": True}, "cover forced participation", ""),
    ],
)
def test_what_no_accountant_covers_is_not_confirmed(changes: dict[str, Any], text: str, warning: str) -> None:
    found = review_claim({**HONEST, **changes})
    assert found.worth == "unknown"
    assert text in found.text
    assert found.largest_accuracy is None
    assert any(warning in line for line in found.warnings) or not warning


@pytest.mark.parametrize(
    ("changes", "warning"),
    [
        ({"providers": 100_000}, "delta 1e-05 is not below 1/n for n = 100000 providers"),
        ({"accountant": "classical-gaussian"}, "classical Gaussian formula"),
    ],
)
def test_weak_points_are_warned_of(changes: dict[str, Any], warning: str) -> None:
    (only,) = review_claim({**HONEST, **changes}).warnings
    assert warning in only


@pytest.mark.parametrize(("epsilon", "worth"), [(7.984, "holds"), (7.978, "holds"), (7.97, "weaker")])
def test_a_claim_by_a_tighter_accountant_holds_within_the_tolerance(epsilon: float, worth: str) -> None:
    assert review_claim({**HONEST, "epsilon": epsilon}).worth == worth


def test_groups_of_a_fixed_size_are_reviewed_for_replacing() -> None:
    drawn = {**ALONE, "kind": "fixed-size"}
    stated = {**HONEST, "sampling": drawn, "adjacency": "replace one provider", "noise_multiplier": 2.0}
    found = review_claim(stated)
    assert (found.worth, found.prv) == ("holds", None)
    assert (found.epsilon or 0) < (found.renyi or 0)
    assert found.largest_accuracy is not None


def test_no_warning_without_a_reason() -> None:
    assert guarantee_warnings(delta=1e-5) == []
    assert guarantee_warnings(
        delta=1e-5, epsilon=1.0, accountant="classical-gaussian", providers=99_999, rounds=10, rounds_accounted=10,
    ) == []  # fmt: skip


@pytest.mark.parametrize("nothing", [None, "none: trained without differential privacy"])
def test_no_claim_is_no_review(nothing: object) -> None:
    assert review_record({"privacy": nothing}) is None


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"epsilon": math.nan}, "epsilon"),
        ({"epsilon": 10**400}, "epsilon"),
        ({"epsilon": "8"}, "epsilon"),
        ({"epsilon": -1.0}, "epsilon"),
        ({"delta": 1.0}, "delta"),
        ({"rounds": 10**12}, "rounds"),
        ({"rounds": True}, "rounds"),
        ({"clip": 0.0}, "clip"),
        ({"sampling": {**DRAWN, "client_rate": math.inf}}, "sampling.client_rate"),
        ({"sampling": {**DRAWN, "kind": "shuffled"}}, "sampling.kind"),
        ({"adjacency": "x" * 1000}, "adjacency"),
    ],
)
def test_hostile_claims_cannot_be_read_and_say_where(changes: dict[str, Any], field: str) -> None:
    found = review_claim({**CLAIM, **changes})
    assert (found.claim, found.worth) == (None, "unknown")
    assert f"cannot be read ('{field}'" in found.text


@pytest.mark.parametrize("hostile", [[], 8, True, {}])
def test_what_is_no_claim_at_all_cannot_be_read(hostile: object) -> None:
    found = review_claim(hostile)
    assert found.text.startswith("cannot be read")


def test_noise_beyond_all_measure_is_not_recomputed() -> None:
    found = review_claim({**CLAIM, "noise_multiplier": 1e-300})
    assert found.worth == "unknown"
    assert found.text.startswith("cannot be confirmed: the noise multiplier")


def test_unknown_fields_are_ignored() -> None:
    assert claim(colour="blue") == claim()


@pytest.mark.parametrize(("epsilon", "delta"), [(0.0, 0.0), (1.0, 1e-5), (8.0, 1e-5), (0.0, 0.3), (5.0, 1.0)])
def test_the_most_balanced_accuracy_is_where_both_constraints_meet(epsilon: float, delta: float) -> None:
    """A sweep over false positive rates, with the largest true positive rate that either constraint leaves."""
    best = max(
        (1 - fpr + min(1.0, math.exp(epsilon) * fpr + delta, 1 - math.exp(-epsilon) * (1 - delta - fpr))) / 2
        for fpr in (step / 200_000 for step in range(200_001))
    )
    assert accuracy_bound(epsilon, delta) == pytest.approx(best, abs=1e-5)
    assert accuracy_bound(epsilon, delta) >= best - 1e-12


def test_huge_epsilons_allow_everything() -> None:
    assert accuracy_bound(1e6, 1e-5) == 1.0


def test_what_is_allowed_of_reconstruction_is_the_mechanisms_curve() -> None:
    found = review_claim(HONEST)
    mechanism = SampledGaussian(Sampling(1.0, 0.2, 10), HONEST["noise_multiplier"])
    assert [one.prior for one in found.reconstruction] == list(PRIORS)
    for one in found.reconstruction:
        assert one.by_mechanism == largest_reconstruction(mechanism.trade_off, one.prior)
        assert one.prior < one.by_mechanism < one.by_epsilon
        assert one.by_epsilon == largest_by_epsilon(found.epsilon or 0.0, 1e-5, one.prior)


def test_where_the_mechanism_is_not_covered_epsilon_alone_is_left() -> None:
    for unclear in (claim(forced_participation=True), claim(unit="document")):
        found = review_claim(unclear.model_dump())
        assert {one.by_mechanism for one in found.reconstruction} == {None}
        alone = [largest_by_epsilon(unclear.epsilon, unclear.delta, prior) for prior in PRIORS]
        assert [one.by_epsilon for one in found.reconstruction] == alone
