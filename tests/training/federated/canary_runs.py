"""Runs of the private trainer under canaries."""

from functools import cache, lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from pfl_audit.privacy.accounting import privacy_spent
from pfl_audit.privacy.canary_coins import Manifest
from pfl_audit.privacy.guarantee import GuaranteeSampling, PrivacyGuarantee
from pfl_audit.privacy.mechanism import ZEROED, Mechanism
from pfl_audit.privacy.sampling import Sampling
from pfl_audit.progress import Silent
from pfl_audit.training.federated.canaries.report import CanaryReport, Family, family_of, report_on
from pfl_audit.training.federated.canaries.run import Observation, observe
from tests.privacy.training_records import mechanism_of_claim

CLAIM = PrivacyGuarantee(
    epsilon=7.98,
    delta=1e-5,
    unit="provider",
    adjacency="add or remove one provider",
    accountant="prv",
    accounting="valid",
    noise_multiplier=0.7715,
    clip=0.03,
    rounds=10,
    rounds_accounted=10,
    sampling=GuaranteeSampling(kind="poisson", scheme="providers", client_rate=1.0, provider_rate=0.2),
    denominator=24.0,
    noise_generator="cryptographic: SHAKE-256 with a secret key",
)
GROUPS = CLAIM.model_copy(
    update={
        "sampling": GuaranteeSampling(kind="fixed-size", scheme="clients", client_rate=0.5, provider_rate=0.25),
        "adjacency": "replace one provider",
        "rounds": 8,
        "noise_multiplier": 0.9,
        "epsilon": privacy_spent(Sampling(0.5, 0.25, 8), 0.9, 1e-5, kind="fixed-size").epsilon,
    }
)
"""Groups of a fixed size: 2 of 4 clients, and a quarter of the providers of each."""
DUAL = CLAIM.model_copy(
    update={
        "noise": "message",
        "sampling": GuaranteeSampling(kind="poisson", scheme="clients", client_rate=0.5, provider_rate=0.4),
        "epsilon": privacy_spent(Sampling(0.5, 0.4, 10), 0.7715, 1e-5).epsilon,
    }
)
"""A dual variable between rounds: the full noise on every client's message."""
SCHEDULE = CLAIM.model_copy(
    update={
        "noise_multiplier": 1.0,
        "sampling": GuaranteeSampling(
            kind="schedule", scheme="providers", client_rate=1.0, provider_rate=1.0, separation=5
        ),
        "adjacency": ZEROED,
        "epsilon": privacy_spent(Sampling(1.0, 1.0, 2), 1.0, 1e-5, kind="schedule").epsilon,
    }
)
"""Every provider in one of five rounds, and noise that is correlated over five."""


def manifest(seed: int, canaries: int, guesses: int) -> Manifest:
    rng = np.random.default_rng(seed)
    return Manifest("nonce", guesses, rng.bytes(32).hex(), canaries, rng.bytes(-(-canaries // 8)).hex())


def run_canaries(claim: PrivacyGuarantee, drawn: Manifest, clients: int, seed: int | None = None) -> Observation:
    with TemporaryDirectory() as folder:
        return observe(claim, mechanism_for(claim, clients), drawn, clients, Path(folder), Silent(), noise_seed=seed)


def mechanism_for(claim: PrivacyGuarantee, clients: int, **parts: Any) -> Mechanism:
    """The mechanism of a claim; full noise on messages comes with a dual variable, unless it has a codec."""
    dual = claim.noise == "message" and "codec" not in parts
    return Mechanism.model_validate(mechanism_of_claim(claim.model_dump(), clients, dual=dual, **parts))


def audited(
    seed: int = 0, canaries: int = 1000, clients: int = 4, claim: PrivacyGuarantee = CLAIM
) -> tuple[CanaryReport, Observation]:
    drawn = manifest(seed, canaries, canaries // 20)
    observation = run_canaries(claim, drawn, clients, seed)
    return report_on(claim, drawn, observation, mechanisms(claim.model_dump_json())), observation


@lru_cache(maxsize=1)
def mechanisms(claim: str) -> Family:
    """Mechanisms of a guarantee, each computed once for consecutive runs: searches for the bound try many again."""
    return cache(family_of(PrivacyGuarantee.model_validate_json(claim)))


def changed(**changes: Any) -> PrivacyGuarantee:
    return CLAIM.model_copy(update=changes)
