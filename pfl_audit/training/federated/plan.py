"""The privacy guarantee of a run, fixed before it begins: noise, denominator, warnings."""

from __future__ import annotations

from dataclasses import dataclass

from pfl_audit.errors import UsageError
from pfl_audit.privacy.accounting import PrivacySpent, privacy_spent
from pfl_audit.privacy.calibration import calibrate_noise
from pfl_audit.privacy.guarantee import (
    ComposedGuarantee,
    GuaranteeSampling,
    NoiseScope,
    PrivacyGuarantee,
    guarantee_warnings,
)
from pfl_audit.privacy.pld import Kind
from pfl_audit.privacy.record_text import ADJACENCIES, NOT_COVERED, SECRET_NOISE, SEEDED_NOISE, SYSTEMS
from pfl_audit.privacy.renyi_filter import RunCost
from pfl_audit.privacy.sampling import Sampling
from pfl_audit.training.federated.settings import FederatedSettings, Mode, PrivacySettings


@dataclass(frozen=True)
class PrivacyPlan:
    """The privacy guarantee of a run.

    Attributes:
        settings: As asked for.
        sampling: Sampling of clients and providers.
        sigma: Noise multiplier.
        denominator: What a round's sum is divided by.
        providers: How many there are: private, for warnings to the owner; None where it is not known.
        noise: Whether the sum over clients has the full noise, or the message of every client.
        clients: Number of clients.
        composed: Guarantee of this run and those before it in the budget ledger; None where none is kept.
        systems: Parts of the training system that the guarantee speaks of.
        quorum: Number of clients that have the whole noise, where a round may go on without others; else None.
    """

    settings: PrivacySettings
    sampling: Sampling
    sigma: float
    denominator: float
    providers: int | None
    composed: ComposedGuarantee | None = None
    noise: NoiseScope = "sum"
    clients: int = 1
    systems: tuple[str, ...] = ()
    quorum: int | None = None

    @property
    def client_divisor(self) -> float:
        """Providers to expect of a participating client: the denominator over the clients to expect in a round."""
        return self.denominator / (self.sampling.client_rate * self.clients)

    @property
    def kind(self) -> Kind:
        """Kind of the draws."""
        return "fixed-size" if self.settings.sampling == "fixed-size" else "poisson"

    @property
    def warnings(self) -> list[str]:
        """Warnings for a reviewer, one sentence each."""
        claim = self.claim(self.sampling.rounds)
        found = guarantee_warnings(delta=claim.delta, providers=self.providers, noise_generator=claim.noise_generator)
        reasons = ["the participation of a client is known"] if self.sampling.client_rate < 1 else []
        reasons += ["a group of a fixed size is no Poisson sample"] if self.kind == "fixed-size" else []
        if self.settings.accounting == "published" and reasons:
            valid = privacy_spent(self.sampling, self.sigma, claim.delta, kind=self.kind)
            found.append(
                f"published accounting: epsilon {claim.epsilon:.2f} does not hold, {valid.epsilon:.2f} does, because "
                + " and ".join(reasons)
            )
        return found

    @property
    def cost(self) -> RunCost:
        """What the whole run spends of a budget, by valid accounting."""
        delta = self.settings.delta
        epsilon = privacy_spent(self.sampling, self.sigma, delta, kind=self.kind).epsilon
        return RunCost(self.sampling, self.sigma, delta, epsilon, self.kind)

    def spent_after(self, rounds: int) -> PrivacySpent:
        """Privacy budget that the first ``rounds`` rounds spend."""
        sampling = Sampling(self.sampling.client_rate, self.sampling.provider_rate, rounds)
        return privacy_spent(sampling, self.sigma, self.settings.delta, self.settings.accounting, self.kind)

    def claim(self, rounds: int) -> PrivacyGuarantee:
        """The guarantee after ``rounds`` rounds, as recorded in ``training.json``."""
        settings, used = self.settings, self.spent_after(rounds)
        return PrivacyGuarantee(
            epsilon=used.epsilon,
            delta=settings.delta,
            unit="provider",
            adjacency=ADJACENCIES[self.kind],
            accountant=used.accountant,
            accounting=settings.accounting,
            renyi=used.renyi,
            noise_multiplier=self.sigma,
            clip=settings.clip,
            rounds=rounds,
            rounds_accounted=rounds,
            sampling=GuaranteeSampling(
                kind=self.kind,
                scheme="providers" if self.sampling.client_rate == 1 else "clients",
                client_rate=self.sampling.client_rate,
                provider_rate=self.sampling.provider_rate,
            ),
            providers=settings.public_providers,
            denominator=self.denominator,
            noise_generator=SECRET_NOISE if settings.noise_seed is None else SEEDED_NOISE,
            noise=self.noise,
            composed=self.composed,
            quorum=self.quorum,
            systems=[SYSTEMS[name] for name in (*self.systems, *(("quorum",) if self.quorum else ()))],
            not_covered=list(NOT_COVERED if self.noise == "sum" else NOT_COVERED[:1]),
        )


def plan_privacy(
    mode: Mode, settings: PrivacySettings, federated: FederatedSettings, clients: int, providers: int | None = None
) -> PrivacyPlan:
    """Fix noise multiplier and denominator.

    The denominator is a public constant: given, or the number to expect in a round of a public number of providers. The
    paper counts the providers of the smallest client (section 6.2.2), which would disclose their number.

    Args:
        mode: fl-dp or central-dp.
        settings: As asked for.
        federated: Number of rounds, and of clients a round.
        clients: Number of clients.
        providers: How many there are, for warnings to the owner; None where it is not known.

    Raises:
        UsageError: A setting cannot be, or the target cannot be reached.
    """
    settings.check()
    noise: NoiseScope = "sum" if federated.client_memory == "none" else "message"
    if noise == "message" and (mode != "fl-dp" or settings.accounting == "published"):
        raise UsageError(
            "a dual variable between rounds needs clients, and accounting with known participation",
            "Choose --mode fl-dp and --accounting valid, or leave out --client-memory",
        )
    sampling = sampling_of(mode, settings, federated, clients)
    kind: Kind = "fixed-size" if settings.sampling == "fixed-size" else "poisson"
    sigma = settings.noise_multiplier
    if sigma is None:
        if settings.epsilon is None:
            raise UsageError("one of --epsilon and --sigma is needed", "Give the target or the noise")
        sigma = calibrate_noise(settings.epsilon, settings.delta, sampling, settings.accounting, kind=kind)
    expected = sampling.published_rate * (settings.public_providers or 0)
    if settings.providers_per_round is not None:
        expected = float(federated.clients_drawn(clients) * settings.providers_per_round)
    return PrivacyPlan(
        settings,
        sampling,
        sigma,
        settings.denominator or max(1.0, expected),
        providers,
        noise=noise,
        clients=clients,
        systems=_systems(settings, federated),
    )


def _systems(settings: PrivacySettings, federated: FederatedSettings) -> tuple[str, ...]:
    """Parts of the training system in which a run differs from FL-PROVIDER-DP."""
    usual = FederatedSettings()
    differs = {
        "strategy": federated.strategy != usual.strategy,
        "codec": federated.codec != usual.codec,
        "local": federated.optimizer != usual.optimizer or federated.proximal > 0,
        "groups": settings.sampling == "fixed-size",
        "memory": federated.client_memory != usual.client_memory,
    }
    return tuple(name for name, differ in differs.items() if differ)


def sampling_of(mode: Mode, settings: PrivacySettings, federated: FederatedSettings, clients: int) -> Sampling:
    """The sampling of a run.

    Raises:
        UsageError: A rate or the number of rounds cannot be, or there are too few clients.
    """
    if settings.sampling == "fixed-size":
        drawn = federated.clients_drawn(clients)
        if mode != "fl-dp" or not 1 <= drawn <= clients:
            raise UsageError(
                f"{drawn} clients a round were asked for, and there are {clients}",
                "Correct --clients-per-round; --sampling fixed-size is of --mode fl-dp",
            )
        rate = (settings.providers_per_round or 0) / (settings.minimum_providers or 1)
        sampling = Sampling(drawn / clients, rate, federated.rounds)
    else:
        by_clients = mode == "fl-dp" and settings.sampling == "clients"
        sampling = Sampling(settings.client_rate if by_clients else 1.0, settings.provider_rate, federated.rounds)
    sampling.check()
    return sampling
