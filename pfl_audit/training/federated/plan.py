"""The privacy guarantee of a run, fixed before it begins: its mechanism, denominator, warnings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pfl_audit.privacy.accounting import PrivacySpent
from pfl_audit.privacy.calibration import calibrate_noise
from pfl_audit.privacy.guarantee import (
    ComposedGuarantee,
    GuaranteeSampling,
    PrivacyGuarantee,
    guarantee_warnings,
)
from pfl_audit.privacy.mechanism import SECRET_NOISE, SEEDED_NOISE, Mechanism
from pfl_audit.privacy.sampling import public_providers
from pfl_audit.training.federated.codecs import CODECS
from pfl_audit.training.federated.settings import FederatedSettings, Mode, PrivacySettings
from pfl_audit.training.pretraining import Pretraining


@dataclass(frozen=True)
class PrivacyPlan:
    """The privacy guarantee of a run.

    Attributes:
        settings: As asked for.
        mechanism: What is done from a unit's update to the weights.
        denominator: What a round's sum is divided by.
        providers: Number of units: private, for warnings to the owner; None where it is not known.
        composed: Guarantee of this run and those before it in the budget ledger; None where none is kept.
    """

    settings: PrivacySettings
    mechanism: Mechanism
    denominator: float
    providers: int | None
    composed: ComposedGuarantee | None = None

    @property
    def client_divisor(self) -> float:
        """Units to expect of a participating client: the denominator over the clients to expect in a round."""
        return self.denominator / (self.mechanism.sampling.client_rate * self.mechanism.sum.clients)

    @property
    def warnings(self) -> list[str]:
        """Warnings for a reviewer, one sentence each."""
        claim = self.claim(self.mechanism.rounds)
        found = guarantee_warnings(delta=claim.delta, providers=self.providers, unit=claim.unit)
        unconfirmed = {
            "the noise comes from a seed, which suffices to remove it": self.settings.noise_seed is not None,
            "without --public-providers nobody can compare delta with their number": claim.providers is None,
        }
        found += [
            f"a review does not confirm the guarantee: {text}" for text, applies in unconfirmed.items() if applies
        ]
        reasons = ["the participation of a client is known"] if self.mechanism.sampling.client_rate < 1 else []
        reasons += ["a group of a fixed size is no Poisson sample"] if self.mechanism.kind == "fixed-size" else []
        if self.settings.accounting == "published" and reasons:
            valid = self.mechanism.spent(claim.delta)
            found.append(
                f"published accounting: epsilon {claim.epsilon:.2f} does not hold, {valid.epsilon:.2f} does, because "
                + " and ".join(reasons)
            )
        return found

    def spent_after(self, rounds: int) -> PrivacySpent:
        """Privacy budget that the first ``rounds`` rounds spend."""
        return self.mechanism.spent(self.settings.delta, self.settings.accounting, rounds)

    def entry(self, rounds: int) -> dict[str, Any]:
        """The entry of the training record: the guarantee after ``rounds`` rounds, and its mechanism."""
        guarantee = self.claim(rounds).model_dump(mode="json")
        return {**guarantee, "mechanism": self.mechanism.model_dump(mode="json")}

    def claim(self, rounds: int) -> PrivacyGuarantee:
        """The guarantee after ``rounds`` rounds."""
        settings, used, mechanism = self.settings, self.spent_after(rounds), self.mechanism
        return PrivacyGuarantee(
            epsilon=used.epsilon,
            delta=settings.delta,
            unit=mechanism.unit,
            adjacency=mechanism.adjacencies[0],
            accountant=used.accountant,
            accounting=settings.accounting,
            renyi=used.renyi,
            noise_multiplier=self.mechanism.noise.multiplier,
            clip=settings.clip,
            rounds=rounds,
            rounds_accounted=rounds,
            sampling=GuaranteeSampling(
                kind=self.mechanism.kind,
                scheme="providers" if mechanism.draw.client_rate == 1 else "clients",
                client_rate=self.mechanism.sampling.client_rate,
                provider_rate=self.mechanism.sampling.provider_rate,
                separation=mechanism.draw.separation,
            ),
            providers=public_providers(settings.to_public(), mechanism.sum.clients),
            denominator=self.denominator,
            noise_generator=SECRET_NOISE if mechanism.noise.secret else SEEDED_NOISE,
            noise=self.mechanism.noise.carrier,
            composed=self.composed,
            quorum=mechanism.noise.quorum,
        )


def plan_privacy(
    mode: Mode,
    settings: PrivacySettings,
    federated: FederatedSettings,
    clients: int,
    providers: int | None = None,
    *,
    secure: bool = False,
    quorum: int | None = None,
    pretraining: Pretraining | None = None,
) -> PrivacyPlan:
    """Compose the mechanism of a run, and fix noise multiplier and denominator.

    The denominator is a public constant: given, or the number to expect in a round of a public number of providers. The
    paper counts the providers of the smallest client (section 6.2.2), which would disclose their number.

    Args:
        mode: fl-dp or central-dp.
        settings: As asked for.
        federated: Settings of the rounds.
        clients: Number of clients.
        providers: Number of units, for warnings to the owner; None where it is not known.
        secure: True for sums by secure aggregation.
        quorum: Clients whose shares are the whole noise, or None.
        pretraining: Self-pretraining before, of the same budget; None without.

    Raises:
        UsageError: A setting cannot be, the parts do not compose, or the target cannot be reached.
    """
    settings.check()
    sigma = settings.noise_multiplier

    def compose(multiplier: float) -> Mechanism:
        return Mechanism.of(
            mode,
            federated.to_dict(),
            settings.to_public(),
            clients,
            multiplier,
            lossy=CODECS.named(federated.codec).lossy,
            secure=secure,
            quorum=quorum,
            pretraining=pretraining.to_dict() if pretraining else None,
        )

    mechanism = compose(sigma or 1.0)
    mechanism.sampling.check()
    if sigma is None:
        sigma = calibrate_noise(
            settings.epsilon or 0.0, settings.delta, mechanism.sampling, settings.accounting, kind=mechanism.kind
        )
        mechanism = compose(sigma)
    expected = mechanism.share * (settings.public_providers or 0)
    if settings.providers_per_round is not None:
        expected = float(federated.clients_drawn(clients) * settings.providers_per_round)
    return PrivacyPlan(settings, mechanism, settings.denominator or max(1.0, expected), providers)
