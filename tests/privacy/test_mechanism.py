"""Mechanisms that compose and that are refused, and records that contradict their mechanism."""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import deepcopy
from itertools import combinations
from math import exp, inf, log, pi, sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dp_accounting.pld.privacy_loss_distribution import from_gaussian_mechanism

from pfl_audit.errors import UsageError
from pfl_audit.privacy.guarantee import PrivacyGuarantee
from pfl_audit.privacy.mechanism import Mechanism
from pfl_audit.privacy.review import mechanism_of, review_record
from pfl_audit.privacy.rounding import MOST_NUMBERS, levels, reach, rounding_loss
from pfl_audit.privacy.units import several_units
from tests.privacy.test_guarantee import HONEST
from tests.privacy.training_records import DOCUMENTS, mechanism_of_claim, review_claim

ROUNDS: dict[str, Any] = {"rounds": 3, "clients_per_round": 2, "optimizer": "adamw", "strategy": "fedavg"}
PRIVACY: dict[str, Any] = {
    "sampling": "providers", "client_rate": 0.2, "provider_rate": 0.5, "clip": 1.0, "accounting": "valid",
}  # fmt: skip
GROUPS = {**PRIVACY, "sampling": "fixed-size", "providers_per_round": 2, "minimum_providers": 4}
PRETRAINED = {"pretrain_rounds": 2}
BY_DOCUMENT = {"unit": "document"}


def compose(mode: str = "fl-dp", clients: int = 3, sigma: float = 0.8, **given: Any) -> Mechanism:
    rounds = {**ROUNDS, **given.pop("rounds", {})}
    privacy = {**PRIVACY, **given.pop("privacy", {})}
    return Mechanism.of(mode, rounds, privacy, clients, sigma, **given)


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"rounds": {"codec": "nf4"}}, "messages in nf4 would be rounded with only a share"),
        ({"rounds": {"codec": "zip"}, "lossy": True}, "messages in another would be rounded"),
        ({"rounds": {"codec": "nf4"}, "privacy": {"noise": "message"}, "secure": True}, "a secure sum hides messages"),
        ({"privacy": {"noise": "message"}, "quorum": 2}, "a quorum has the whole noise only"),
        ({"secure": True, "quorum": 2}, "a quorum has the whole noise only"),
        ({"privacy": {"sampling": "clients"}, "quorum": 2}, "a quorum has the whole noise only"),
        ({"privacy": GROUPS, "quorum": 2}, "a quorum has the whole noise only"),
        ({"privacy": GROUPS, "pretraining": PRETRAINED}, "accounted for one phase"),
        ({"rounds": {"client_memory": "clgecl"}, "pretraining": PRETRAINED}, "of private runs of one phase"),
        ({"rounds": {"client_memory": "clgecl"}, "secure": True}, "a secure sum hides messages"),
        ({"rounds": {"client_memory": "clgecl"}, "privacy": {"accounting": "published"}}, "known participation"),
        ({"rounds": {"client_memory": "clgecl"}, "mode": "central-dp", "clients": 1}, "needs clients"),
        ({"secure": True, "sigma": 1e-8}, "too small for the grid"),
        ({"privacy": GROUPS, "clients": 1}, "2 clients a round were asked for, and there are 1"),
        ({"privacy": {**GROUPS, **BY_DOCUMENT}}, "accounted for providers, and the unit is a document"),
        ({"privacy": BY_DOCUMENT, "rounds": {"client_memory": "clgecl"}}, "and a gradient has none"),
        ({"privacy": {"unit": "example"}, "pretraining": PRETRAINED}, "pages, which several questions share"),
        ({"privacy": BY_DOCUMENT, "rounds": {"codec": "nf4"}}, "messages in nf4 would be rounded with only a share"),
        ({"privacy": BY_DOCUMENT, "rounds": {"strategy": "fedadam"}}, "a document gives one gradient"),
        ({"privacy": {"unit": "example"}, "rounds": {"proximal": 0.1}}, "a question gives one gradient"),
        ({"privacy": BY_DOCUMENT, "rounds": {"local_epochs": 2}}, "a document gives one gradient"),
        ({"privacy": BY_DOCUMENT, "rounds": {"local_steps": 2}}, "a document gives one gradient"),
    ],
)
def test_what_has_no_guarantee_is_refused(given: dict[str, Any], problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        compose(**given)


@pytest.mark.parametrize(
    ("given", "sentences"),
    [
        ({}, []),
        ({"rounds": {"strategy": "fedadam"}}, ["server strategy (fedadam)"]),
        ({"rounds": {"codec": "nf4"}, "mode": "central-dp", "clients": 1}, []),
        ({"rounds": {"codec": "nf4"}, "clients": 1}, ["encoding of messages (nf4): no change"]),
        (
            {"rounds": {"codec": "nf4"}, "privacy": {"noise": "message"}},
            ["full noise on every", "encoding of messages"],
        ),
        ({"rounds": {"optimizer": "sgd", "proximal": 1.0}}, ["local optimiser"]),
        ({"rounds": {"client_memory": "clgecl"}}, ["dual variable", "full noise on every"]),
        ({"quorum": 2}, ["rounds without some clients"]),
        ({"privacy": GROUPS}, ["groups of a fixed size"]),
        ({"pretraining": PRETRAINED}, ["self-pretraining: epsilon counts the rounds of both phases, 2 and 3"]),
        ({"privacy": BY_DOCUMENT}, ["one gradient a unit", "server strategy (adamw): no change"]),
        ({"privacy": BY_DOCUMENT, "secure": True}, ["one gradient", "server strategy", "secure sum: messages"]),
        (
            {"privacy": {**BY_DOCUMENT, "noise": "message"}, "rounds": {"codec": "nf4", "optimizer": "sgd"}},
            ["one gradient", "full noise on every", "encoding of messages", "server strategy (sgd)"],
        ),
        ({"privacy": BY_DOCUMENT, "pretraining": PRETRAINED}, ["self-pretraining", "one gradient", "server strategy"]),
        ({"privacy": BY_DOCUMENT, "quorum": 2}, ["one gradient", "rounds without some clients", "server strategy"]),
        ({"secure": True}, ["secure sum: messages are rounded to a grid after the noise, which adds 0 to epsilon"]),
    ],
)
def test_sentences_follow_from_the_parts(given: dict[str, Any], sentences: list[str]) -> None:
    mechanism = compose(**given)
    said = mechanism.sentences()
    assert len(said) == len(sentences)
    assert all(one.startswith(start) for one, start in zip(said, sentences, strict=True))
    assert Mechanism.model_validate(json.loads(mechanism.model_dump_json())) == mechanism


def test_a_server_that_sees_shares_of_the_noise_is_said() -> None:
    seen = {
        name: any("single updates" in text for text in compose(**given).not_covered())
        for name, given in {
            "shares": {}, "secure": {"secure": True}, "alone": {"clients": 1},
            "message": {"privacy": {"noise": "message"}},
        }.items()
    }  # fmt: skip
    assert seen == {"shares": True, "secure": False, "alone": False, "message": False}


@pytest.mark.parametrize(
    "broken",
    [
        lambda parts: parts.reverse(),
        lambda parts: parts.pop(),
        lambda parts: parts.pop(3),
        lambda parts: parts.append(parts[-1]),
        lambda parts: parts.insert(3, parts[1]),
        lambda parts: parts.insert(1, {"part": "magic"}),
        lambda parts: parts[3].update(lossy=True),
        lambda parts: parts[2].update(colour="blue"),
        lambda parts: parts[2].update(multiplier=-1.0),
    ],
)
def test_parts_that_do_not_compose_are_not_confirmed(broken: Callable[[Any], object]) -> None:
    mechanism = mechanism_of_claim(HONEST)
    broken(mechanism["phases"][0]["parts"])
    review = review_record({"privacy": {**HONEST, "mechanism": mechanism}})
    assert review is not None
    assert review.worth == "unknown"
    assert review.epsilon is None


def test_rounding_before_a_sum_costs_what_the_sum_over_the_grid_differs() -> None:
    """A slow oracle: sums over the grid of two Gaussians, in steps of 1, over all places between two points."""

    def pair(first: float, second: float, deviation: float, total: int) -> float:
        steps = np.arange(-200, 201)
        one = np.exp(-((steps - first) ** 2) / (2 * deviation**2))
        return float((one * np.exp(-((total - steps - second) ** 2) / (2 * deviation**2))).sum())

    def exact(first: float, second: float, deviation: float, total: int) -> float:
        return sqrt(pi) * deviation * exp(-((total - first - second) ** 2) / (4 * deviation**2))

    for deviation in (0.5, 0.7, 1.0):
        x = exp(-2 * pi**2 * deviation**2 / 2)
        bound = 2 * x / (1 - x)
        errors = [
            abs(pair(a, b, deviation, total) / exact(a, b, deviation, total) - 1)
            for a in np.linspace(0, 1, 9)
            for b in np.linspace(0, 1, 9)
            for total in (0, 1, 3)
        ]
        assert 0.2 * bound < max(errors) <= bound * (1 + 1e-9)


def test_the_grid_of_a_secure_sum_costs_nothing_at_usual_noise_and_is_refused_at_none() -> None:
    assert [rounding_loss(0.8, clients) for clients in (1, 2, 10, 100)] == [0, 0, 0, 0]
    assert rounding_loss(1e-8, 2) == inf
    clients = 1000
    coarse = next(sigma for sigma in np.geomspace(1e-6, 1e-4, 1000) if 0 < rounding_loss(sigma, clients) < 1)
    ratio = coarse / sqrt(clients) * levels(clients) / (2 * reach(coarse, clients))
    loss = 0.0
    for summed in range(1, clients):
        x = exp(-2 * (pi * ratio) ** 2 * summed / (summed + 1))
        loss += log((1 + 2 * x / (1 - x)) / (1 - 2 * x / (1 - x)))
    assert rounding_loss(coarse, clients) == pytest.approx(MOST_NUMBERS * loss)
    mechanism, alone = (compose(clients=clients, sigma=coarse, secure=secure) for secure in (True, False))
    orders = (2.0, 8.0)
    added = mechanism.cost(1e-5).divergences(orders) / alone.cost(1e-5).divergences(orders) - 1
    np.testing.assert_allclose(
        added * alone.cost(1e-5).divergences(orders), 3 * rounding_loss(coarse, clients), rtol=0.01
    )


RECORD = json.loads((Path(__file__).parents[2] / "fixtures/vt5-private/training.json").read_text(encoding="utf-8"))
ADD = "add or remove one"
FORGERIES: dict[str, dict[str, Any]] = {
    "epsilon 0": {"privacy.epsilon": 0.0},
    "epsilon below": {"privacy.epsilon": 7.98},
    "epsilon of a tenth": {"privacy.epsilon": 0.8},
    "delta": {"privacy.delta": 1e-4},
    "delta near 1": {"privacy.delta": 0.9999, "privacy.epsilon": 0.0},
    "delta of the settings": {"privacy.delta": 1e-3, "identity.privacy.delta": 1e-3, "privacy.composed": None},
    "no number of providers": {"privacy.providers": None},
    "a thousand times the providers": {"privacy.providers": 4_000_000},
    "an invented number of providers": {"identity.privacy.public_providers": None},
    "quorum of the record": {"quorum": 5},
    "quorum of the settings": {"identity.quorum": 5},
    "secure sums of the record": {"secure_aggregation": True},
    "unit document": {"privacy.unit": "document"},
    "unit question": {"privacy.unit": "one question"},
    "unit and adjacency of documents": {f"privacy.{name}": text for name, text in DOCUMENTS.items()},
    "unit of the settings": {"identity.privacy.unit": "document"},
    "a document of a provider": {"privacy.adjacency": f"{ADD} document of a provider"},
    "a question": {"privacy.adjacency": f"{ADD} question"},
    "zero trust": {"privacy.adjacency": "zero trust"},
    "removed names": {"privacy.adjacency": "removed names only"},
    "replacement": {"privacy.adjacency": "replace one provider with all its documents"},
    "insecure generator": {"privacy.noise_generator": "cryptographically insecure: torch.manual_seed(0)"},
    "prefix generator": {"privacy.noise_generator": "cryptographic"},
    "seeded noise": {"identity.privacy.noise_seed": True},
    "rounds of the claim": {"privacy.rounds": 3, "privacy.rounds_accounted": 3, "privacy.epsilon": 4.05},
    "rounds of the record": {"rounds": 300},
    "rounds of the settings": {"identity.settings.rounds": 300, "rounds": 300},
    "rate halved": {"privacy.sampling.provider_rate": 0.05, "privacy.epsilon": 5.0},
    "rate of the settings": {"identity.privacy.provider_rate": 0.2},
    "client rate": {"privacy.sampling.client_rate": 0.1, "privacy.epsilon": 3.0},
    "noise tenfold": {"privacy.noise_multiplier": 7.293701171875, "privacy.epsilon": 0.27},
    "noise in both": {
        "privacy.noise_multiplier": 7.293701171875, "privacy.epsilon": 0.27,
        "identity.privacy.noise_multiplier": 7.293701171875,
    },
    "clip": {"privacy.clip": 0.005},
    "clip of the settings": {"identity.privacy.clip": 5.0},
    "message noise": {"privacy.noise": "message"},
    "quorum": {"privacy.quorum": 5},
    "codec nf4": {"identity.settings.codec": "nf4"},
    "codec of a plug-in": {"identity.settings.codec": "acme"},
    "mode": {"mode": "central-dp"},
    "mode of both": {"mode": "central-dp", "identity.mode": "central-dp"},
    "sampling": {"identity.privacy.sampling": "clients", "identity.privacy.client_rate": 0.1},
    "published accounting": {"privacy.accounting": "published"},
    "one client": {"clients": 1, "identity.settings.codec": "nf4"},
    "composed below": {"privacy.composed.epsilon": 1.0},
    "no settings": {"identity": None},
    "no identity of privacy": {"identity.privacy": None},
    "forced participation": {"privacy.forced_participation": True},
    "secure, too little noise": {"secure_aggregation": True, "privacy.noise_multiplier": 1e-6},
}  # fmt: skip
HARMLESS = ("one client",)
"""Statements that could be true of a run: of one client alone the message is the sum."""


def forged(*changes: dict[str, Any]) -> dict[str, Any]:
    record: dict[str, Any] = deepcopy(RECORD)
    for place, value in [item for change in changes for item in change.items()]:
        *path, last = place.split(".")
        inside: Any = record
        for name in path:
            inside = inside[name]
            if inside is None:
                break
        else:
            inside[last] = value
    return record


def worth(record: dict[str, Any]) -> str:
    review = review_record(record)
    assert review is not None
    assert len(review.text) < 400
    return review.worth


def test_two_phases_have_one_noise() -> None:
    mechanism = compose(pretraining=PRETRAINED).model_dump(mode="json")
    mechanism["phases"][0]["parts"][2]["multiplier"] = 0.9
    with pytest.raises(UsageError, match="both phases need the same noise, codec and sum"):
        Mechanism.model_validate(mechanism)


def test_the_record_of_a_private_run_holds() -> None:
    assert worth(RECORD) == "holds"


@pytest.mark.sampled(16)
@pytest.mark.parametrize("name", FORGERIES)
def test_no_forged_record_holds(name: str) -> None:
    assert (worth(forged(FORGERIES[name])) == "holds") == (name in HARMLESS)


@pytest.mark.slow
def test_no_pair_of_forgeries_holds() -> None:
    held = [
        pair
        for pair in combinations([name for name in FORGERIES if name not in HARMLESS], 2)
        if worth(forged(*(FORGERIES[name] for name in pair))) == "holds"
    ]
    assert held == []


def test_another_unit_than_that_of_the_mechanism_is_contradicted() -> None:
    """In the claim, in the mechanism, and in both with every part that goes with it, but not in the settings."""
    stated = PrivacyGuarantee.model_validate(RECORD["privacy"])
    mechanism = mechanism_of(RECORD, stated)[0].model_dump(mode="json")
    whole = {"privacy.mechanism": mechanism}
    assert worth(forged(whole)) == "holds"
    parts = mechanism["phases"][0]["parts"]
    gradients = {
        "unit": "document", "draw": mechanism["draw"],
        "phases": [{**mechanism["phases"][0], "parts": [{"part": "gradient"}, *parts[1:]]}],
    }  # fmt: skip
    of_documents = {f"privacy.{name}": text for name, text in DOCUMENTS.items()}
    assert worth(forged(whole, of_documents)) == "contradicted"
    assert worth(forged({"privacy.mechanism": gradients})) == "contradicted"
    assert worth(forged({"privacy.mechanism": gradients}, of_documents)) == "contradicted"
    assert worth(forged({"privacy.mechanism": {**mechanism, "unit": "document"}})) == "unknown"  # it does not compose


@pytest.mark.parametrize(("epsilon", "delta"), [(0.5, 1e-6), (2.0, 1e-5), (8.0, 1e-9)])
def test_group_privacy_goes_to_the_most_units_of_which_it_says_anything(epsilon: float, delta: float) -> None:
    deltas = [delta]
    while deltas[-1] < 0.5:  # k units: k epsilon, and delta times the sum of exp(i epsilon) for i below k
        deltas.append(delta * sum(exp(step * epsilon) for step in range(len(deltas) + 1)))
    most = len(deltas) - 1
    said = f"{most} of them have epsilon {most * epsilon:.4g} at delta {deltas[most - 1]:.2g}, and of more"
    assert said in several_units("document", epsilon, delta)


def test_group_privacy_says_nothing_of_two_units_at_a_large_epsilon() -> None:
    assert several_units("example", 20.0, 1e-3).endswith("not bounded")
    assert several_units("provider", 8.0, 1e-5) == ""


def test_a_record_of_documents_holds_and_its_unit_is_part_of_it() -> None:
    found = review_claim({**HONEST, **DOCUMENTS})
    assert found.worth == "holds"
    assert found.text.endswith("for one document with all its pages and questions and not for a provider")
    several = [text for text in found.not_covered if "each of which is a unit of its own" in text]
    assert several == [
        "a provider with several documents, each of which is a unit of its own: by group privacy 2 of them have "
        "epsilon 15.97 at delta 0.029, and of more it says nothing"
    ]
    assert review_claim({**HONEST, **DOCUMENTS, "delta": 0.1}).worth == "unknown"  # one of 4,000 documents
    assert "4000 documents" in review_claim({**HONEST, **DOCUMENTS, "delta": 0.1}).text
    for changes in ({"unit": "provider"}, {"unit": "example"}):
        record = {"privacy": {**HONEST, **DOCUMENTS, "mechanism": mechanism_of_claim({**HONEST, **DOCUMENTS})}}
        record["privacy"] |= changes
        assert worth(record) == "contradicted"


@pytest.mark.slow
def test_the_accountant_of_documents_is_not_below_an_independent_one_in_40_settings() -> None:
    """dp-accounting's optimistic estimate is a lower bound of epsilon."""
    rng = np.random.default_rng(45)
    for number in range(40):
        rate, sigma = float(10 ** rng.uniform(-2.5, -0.2)), float(rng.uniform(0.5, 4))
        rounds, delta = int(10 ** rng.uniform(0, 2.7)), float(10 ** rng.uniform(-9, -3))
        unit = ("document", "example")[number % 2]
        privacy = {**PRIVACY, "unit": unit, "provider_rate": rate}
        mechanism = Mechanism.of("central-dp", {**ROUNDS, "rounds": rounds}, privacy, 1, sigma)
        other = from_gaussian_mechanism(
            sigma, sampling_prob=rate, value_discretization_interval=1e-3, pessimistic_estimate=False
        )
        below = other.self_compose(rounds).get_epsilon_for_delta(delta)
        assert mechanism.spent(delta).epsilon >= below * (1 - 1e-9), (rate, sigma, rounds, delta)
