"""FL-GROUP-DP: fixed numbers of clients a round and of providers of each (pfl-docvqa-competition, appendix B)."""

from collections import Counter
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import pytest

from pfl_audit.cli.main import run
from pfl_audit.errors import UsageError
from pfl_audit.privacy.accounting import privacy_spent
from pfl_audit.privacy.canary_coins import Manifest
from pfl_audit.privacy.guarantee import PrivacyGuarantee
from pfl_audit.privacy.ledger import Ledger
from pfl_audit.privacy.mechanism import ADJACENCY, Mechanism
from pfl_audit.privacy.review import review_record
from pfl_audit.privacy.sampling import Sampling
from pfl_audit.progress import Silent
from pfl_audit.training.federated.canaries.run import check_run
from pfl_audit.training.federated.clients import Client
from pfl_audit.training.federated.plan import plan_privacy
from pfl_audit.training.federated.run import Federation
from pfl_audit.training.federated.secure_rng import SecretStream, new_key
from pfl_audit.training.federated.settings import FederatedSettings, PrivacySettings
from pfl_audit.training.pretraining import Pretraining
from tests.training.federated.conftest import PRIVATE, QUICK, Federate
from tests.training.federated.test_refusals import Cut2

GROUPS = replace(PRIVATE, sampling="fixed-size", providers_per_round=2, minimum_providers=3, public_providers=None)
SECRET = replace(GROUPS, noise_seed=None)
PAIRS = replace(QUICK, clients_per_round=2)


def test_every_round_has_the_same_numbers_and_the_guarantee_replaces(federate: Federate) -> None:
    record = federate("out", "fl-dp", SECRET, PAIRS)
    claim = PrivacyGuarantee.model_validate(record["privacy"])
    assert sum(record["updates"].values()) == 3 * 2 * 2  # rounds, clients, providers
    assert record["communication"]["messages"] == 2 * 3 * 2
    assert claim.adjacency.startswith("replace one provider")
    assert (claim.sampling.kind, claim.sampling.scheme) == ("fixed-size", "clients")
    assert (claim.sampling.client_rate, claim.sampling.provider_rate) == (2 / 3, 2 / 3)
    assert claim.denominator == 4
    wanted = privacy_spent(Sampling(2 / 3, 2 / 3, 3), 0.8, 1e-5, kind="fixed-size").epsilon
    assert claim.epsilon == wanted > privacy_spent(Sampling(2 / 3, 2 / 3, 3), 0.8, 1e-5).epsilon
    assert claim.composed is not None
    assert claim.composed.epsilon == wanted
    for change, worth in (
        ({}, "holds"),
        ({"epsilon": 0.9 * wanted, "composed": None}, "weaker"),
        ({"adjacency": ADJACENCY}, "unknown"),
    ):
        review = review_record({**record, "privacy": {**record["privacy"], **change}})
        assert review is not None
        assert review.worth == worth
    check_run(
        claim, Mechanism.model_validate(record["privacy"]["mechanism"]), Manifest.draw(20, 2, ""), 2
    )  # update canaries test it


@pytest.mark.slow
def test_a_run_that_was_cut_ends_with_the_same_weights(federate: Federate) -> None:
    federate("whole", "fl-dp", GROUPS, PAIRS)
    with pytest.raises(KeyboardInterrupt):
        federate("cut", "fl-dp", GROUPS, PAIRS, progress=Cut2())
    federate("cut", "fl-dp", GROUPS, PAIRS)
    whole, cut = federate.weights("whole"), federate.weights("cut")
    assert all(bool((whole[name] == cut[name]).all()) for name in whole)


def test_all_groups_are_equally_likely() -> None:
    stream, draws = SecretStream(new_key(5)), 6000
    seen = Counter(tuple(stream.fixed_size_sample(2, 4, "test", number)) for number in range(draws))
    assert set(seen) == set(combinations(range(4), 2))
    assert sum((count - draws / 6) ** 2 / (draws / 6) for count in seen.values()) < 20.5  # chi squared, 5: 0.1 %


def test_a_client_below_the_minimum_is_refused_before_anything_is_reserved(federate: Federate) -> None:
    with pytest.raises(UsageError, match=r"client \d has fewer than 100 providers"):
        federate("out", "fl-dp", replace(GROUPS, minimum_providers=100), PAIRS)
    assert not (federate.folder / "out").exists() or not any((federate.folder / "out").glob("*key*"))


@pytest.mark.parametrize(
    ("privacy", "federated", "complaint"),
    [
        (replace(GROUPS, providers_per_round=None), PAIRS, "needs the providers of a round"),
        (replace(GROUPS, minimum_providers=None), PAIRS, "needs the providers of a round"),
        (replace(GROUPS, minimum_providers=1), PAIRS, "2 providers cannot be drawn of 1"),
        (replace(GROUPS, denominator=3.0), PAIRS, "divided by the number of draws"),
        (GROUPS, replace(QUICK, clients_per_round=4), "4 clients a round were asked for, and there are 3"),
    ],
)
def test_settings_that_cannot_be(privacy: PrivacySettings, federated: FederatedSettings, complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        plan_privacy("fl-dp", privacy, federated, 3)


def test_published_accounting_of_the_competition_is_worth_less() -> None:
    paper = replace(SECRET, providers_per_round=50, minimum_providers=400, noise_multiplier=0.468, clip=0.5)
    plan = plan_privacy("fl-dp", replace(paper, accounting="published"), replace(QUICK, rounds=5), 10)
    assert (plan.mechanism.sampling, plan.denominator) == (Sampling(0.2, 0.125, 5), 100)
    (warning,) = (text for text in plan.warnings if text.startswith("published"))
    assert "participation of a client is known and a group of a fixed size is no Poisson sample" in warning
    valid = plan_privacy("fl-dp", paper, replace(QUICK, rounds=5), 10).claim(5)
    assert valid.epsilon > 2 * plan.claim(5).epsilon


def test_a_ledger_holds_one_adjacency(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.json")
    fixed = plan_privacy("fl-dp", SECRET, PAIRS, 3).mechanism.cost(SECRET.delta)
    alone, _ = ledger.reserve("first", ["Acme"], fixed)
    both, _ = ledger.reserve("second", ["Acme"], fixed)
    assert both.epsilon > alone.epsilon == fixed.epsilon
    with pytest.raises(UsageError, match="holds runs of another adjacency"):
        ledger.reserve("third", ["Acme"], plan_privacy("fl-dp", PRIVATE, PAIRS, 3).mechanism.cost(PRIVATE.delta))
    assert not ledger.holds("third")


@pytest.mark.parametrize(
    ("privacy", "settings", "complaint"),
    [
        (GROUPS, PAIRS, "fixed size are accounted for one phase"),
        (PRIVATE, replace(QUICK, client_memory="clgecl"), "private runs of one phase"),
    ],
)
def test_self_pretraining_is_refused(
    tmp_path: Path, privacy: PrivacySettings, settings: FederatedSettings, complaint: str
) -> None:
    clients = [Client(number, ((), (), ()), (1, 2, 3)) for number in range(3)]
    both = Federation("fl-dp", settings, privacy, tmp_path, {}, pretraining=Pretraining("tm"))
    with pytest.raises(UsageError, match=complaint):
        both.agree(clients, Silent())


def test_the_command_refuses_options_of_the_other_samplings(capsys: pytest.CaptureFixture[str]) -> None:
    fixed = ["train", "--mode", "fl-dp", "--data", "d", "--from", "m", "--out", "o", "--sampling", "fixed-size"]
    assert run([*fixed, "--public-providers", "9"]) == 4
    assert "divided by the number of draws" in capsys.readouterr().err
    assert run([*fixed, "--provider-rate", "0.5"]) == 4
    assert run([*fixed[:-2], "--providers-per-round", "5"]) == 4
    assert "without --sampling fixed-size" in capsys.readouterr().err
