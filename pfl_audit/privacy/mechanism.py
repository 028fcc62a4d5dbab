"""The private mechanism of a run: typed parts from a provider's update to the released weights.

A run composes it before its first round and refuses what does not compose. Accounting, the statements of the training
record, the review of a record from elsewhere, the canaries and the sentences of a report are computed from this object.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Annotated, Any, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from pfl_audit.errors import UsageError
from pfl_audit.privacy.accounting import Accounting, PrivacySpent, privacy_spent
from pfl_audit.privacy.correlation import MOST_ROUNDS, Correlation, optimal_strategy
from pfl_audit.privacy.guarantee import Rate, Rounds
from pfl_audit.privacy.mechanism_parts import CODECS, AnyPart, Codec, Noise, One, Stage, Sum, said, shown
from pfl_audit.privacy.pld import Kind
from pfl_audit.privacy.renyi_filter import RunCost
from pfl_audit.privacy.rounding import rounding_loss
from pfl_audit.privacy.sampling import MOST_BANDS, Sampling, clients_drawn, participations
from pfl_audit.privacy.units import UNITS, PrivacyUnit

ADJACENCY: Final = UNITS["provider"].adjacency
REPLACEMENT: Final = "replace one provider with all its documents"
ZEROED: Final = "zero out one provider in a fixed schedule of rounds"
ADJACENCIES: Final[dict[str, tuple[str, ...]]] = {
    "poisson": (ADJACENCY, "add/remove one provider"),
    "fixed-size": (REPLACEMENT, "replace one provider"),
    "schedule": (ZEROED,),
}
"""Names of the adjacency of providers that each kind of draw is accounted for; the first is ours."""
SECRET_NOISE: Final = "cryptographic: SHAKE-256 with a secret key"  # noqa: S105 - the name of a generator
SEEDED_NOISE: Final = "SHAKE-256 with a key from a seed"
SECRET_GENERATORS: Final = (SECRET_NOISE, "cryptographic: operating system")
"""Names of noise generators that nobody can run again."""


class Draw(BaseModel):
    """Draws of a round, independent of those of others.

    Attributes:
        kind: Of each unit by itself (``poisson``), of a fixed number without replacement, or of none: each takes part
            in every ``separation``-th round, which is known (``schedule``).
        client_rate: Probability that the client of a unit takes part, which is known.
        provider_rate: Probability that the unit then takes part, which is secret.
        separation: Rounds from one participation of a unit to its next, of a schedule.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)
    kind: Kind
    client_rate: Rate
    provider_rate: Rate
    separation: Rounds | None = None


class Phase(BaseModel):
    """Rounds of one task."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)
    task: Literal["pretraining", "questions"]
    rounds: Rounds
    parts: Annotated[tuple[AnyPart, ...], Field(max_length=20, strict=False)]

    def part(self, of: type[One]) -> One:
        """The only part of a type."""
        return next(one for one in self.parts if isinstance(one, of))


class Mechanism(BaseModel):
    """The private mechanism of a run; one that does not compose cannot be made.

    Raises:
        UsageError: Parts do not follow from each other, or one has no guarantee where it stands.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)
    unit: PrivacyUnit = "provider"
    draw: Draw
    phases: Annotated[tuple[Phase, ...], Field(min_length=1, max_length=2, strict=False)]

    @model_validator(mode="after")
    def _composes(self) -> Self:
        for phase in self.phases:
            self._check_order(phase)
        if len({(phase.part(Noise), phase.part(Sum), phase.part(Codec)) for phase in self.phases}) > 1:
            raise UsageError("both phases need the same noise, codec and sum", "Use the same settings for both phases")
        self._check_shares()
        return self

    def _check_order(self, phase: Phase) -> None:
        stage: Stage = "update"
        for one in phase.parts:
            if one.takes != stage:
                raise UsageError(f"{one.part} is applied to an {one.takes}, and not to an {stage}", "Order the parts")
            stage = one.gives
        kinds = [one.part for one in phase.parts]
        if stage != "model" or len(set(kinds)) < len(kinds) or "codec" not in kinds:
            raise UsageError("the parts do not lead once from an update to the weights", "Order the parts")
        if ("gradient" in kinds) != (self.unit != "provider") or {"gradient", "local"} <= set(kinds):
            raise UsageError("a provider trains, and a document or a question gives one gradient", "Correct the parts")
        if phase.part(Codec).lossy and self._shared(phase):
            raise UsageError(
                f"messages in {shown(phase.part(Codec).name)} would be rounded with only a share of the noise each, "
                "and their sum gives single messages away",
                "Choose --noise message, which gives every message all of the noise, or leave out --codec",
            )

    def _shared(self, phase: Phase) -> bool:
        """True where a message has only a share of the noise."""
        return phase.part(Noise).carrier == "sum" and phase.part(Sum).clients > 1

    def _check_shares(self) -> None:
        noise, total, codec = self.noise, self.sum, self.phases[-1].part(Codec)
        dual = any(one.part == "dual" for phase in self.phases for one in phase.parts)
        draw, bands = self.draw, len(noise.strategy)
        whole = draw.kind != "fixed-size" and draw.client_rate == 1
        certain = draw.separation is not None and draw.client_rate == draw.provider_rate == 1
        drawn = "schedules" if draw.separation is not None else "groups of a fixed size"
        full = noise.carrier == "message"
        # fmt: off
        refused = (
            (dual and not full, "a dual variable between rounds needs full noise on every message", "--noise sum"),
            (dual and len(self.phases) > 1, "a dual variable between rounds is of private runs of one phase",
             "--client-memory or --pretrain"),
            (dual and self.unit != "provider", "a dual variable goes with local training, and a gradient has none",
             "--client-memory"),
            (draw.kind != "poisson" and self.unit != "provider",
             f"{drawn} are accounted for providers, and the unit is a {UNITS[self.unit].noun}",
             f"--sampling {draw.kind}"),
            (self.unit == "example" and len(self.phases) > 1,
             "self-pretraining reads pages, which several questions share", "--pretrain, or choose --unit document"),
            (draw.kind != "poisson" and len(self.phases) > 1, f"{drawn} are accounted for one phase", "--pretrain"),
            ((draw.kind == "schedule") != certain or (draw.kind != "schedule" and draw.separation is not None),
             "a schedule has a separation, and nothing else is drawn with one", "--separation"),
            (bands > (draw.separation or 1),
             f"noise of {bands} bands needs a schedule with participations at least {bands} rounds apart", "--bands"),
            (noise.strategy[0] != 1, "the strategy of the noise begins with another number than 1", "--bands"),
            (bands > 1 and total.secure, "the grid of a secure sum is accounted for noise of a round by itself",
             "--secagg, or give --bands 1"),
            (bands > 1 and noise.quorum is not None, "noise that later rounds take back needs every client in each",
             "--quorum, or give --bands 1"),
            (total.secure and full, "a secure sum hides messages, each of which has all of the noise", "--secagg"),
            (total.secure and codec.lossy, f"messages in {shown(codec.name)} cannot be summed securely", "--codec"),
            (noise.quorum and (total.secure or full or not whole),
             "a quorum has the whole noise only where all clients take part, and each sends a share of it", "--quorum"),
            (self.loss_of_sum == inf, "the noise is too small for the grid of a secure sum", "--secagg"),
        )
        # fmt: on
        for refuse, problem, option in refused:
            if refuse:
                raise UsageError(problem, f"Leave out {option}")

    @classmethod
    def of(
        cls,
        mode: str,
        rounds: Mapping[str, Any],
        privacy: Mapping[str, Any],
        clients: int,
        multiplier: float,
        *,
        lossy: bool | None = None,
        secure: bool = False,
        quorum: int | None = None,
        pretraining: Mapping[str, Any] | None = None,
        noise_strategy: tuple[float, ...] = (),
    ) -> Mechanism:
        """The mechanism of a run by its settings, as ``FederatedSettings`` and ``PrivacySettings`` write them.

        Args:
            mode: central-dp or fl-dp.
            rounds: Settings of the rounds.
            privacy: Settings of privacy.
            clients: Number of clients.
            multiplier: Noise multiplier.
            lossy: True for a codec that rounds; None for one of ours.
            secure: True for sums by secure aggregation.
            quorum: Clients whose shares are the whole noise, or None.
            pretraining: Settings of self-pretraining, or None.
            noise_strategy: Strategy of the noise; the best one where it has another number of bands than the settings.

        Raises:
            UsageError: They do not compose.
            KeyError, TypeError, ValueError: They are none.
        """
        central = mode == "central-dp"
        if central and clients != 1:
            raise UsageError(f"central training has one client, and {clients} are stated", "Correct the record")
        name = "float32" if central else rounds.get("codec", "float32")
        memory = rounds.get("client_memory", "none")
        if memory != "none" and (central or privacy["accounting"] == "published"):
            raise UsageError(
                "a dual variable between rounds needs clients, and accounting with known participation",
                "Choose --mode fl-dp and --accounting valid, or leave out --client-memory",
            )

        unit: PrivacyUnit = privacy.get("unit", "provider")
        if unit != "provider":
            _require_gradients({**rounds, **(pretraining or {})}, unit)
        most = MOST_BANDS if rounds["rounds"] <= MOST_ROUNDS else 1
        bands = min(privacy.get("bands") or min(privacy.get("separation") or 1, most), rounds["rounds"])
        if len(noise_strategy) != bands:
            noise_strategy = optimal_strategy(rounds["rounds"], bands)

        def phase(task: str, number: int, clip: float, strategy: str) -> dict[str, Any]:
            local = {"part": "local", "optimizer": rounds["optimizer"], "proximal": float(rounds.get("proximal", 0.0))}
            parts: list[dict[str, Any]] = [local if unit == "provider" else {"part": "gradient"}]
            if memory != "none":
                parts.append({"part": "dual", "start": "random" if memory == "clgecl" else "zero"})
            parts += [
                {"part": "clip", "bound": float(clip)},
                {
                    "part": "noise",
                    "multiplier": float(multiplier),
                    "carrier": "message" if memory != "none" else privacy.get("noise", "sum"),
                    "secret": privacy.get("noise_seed") in (None, False),
                    "quorum": quorum or None,
                    "strategy": noise_strategy,
                },
                {"part": "codec", "name": name, "lossy": CODECS[name] if lossy is None else lossy},
                {"part": "sum", "clients": clients, "secure": secure},
                {"part": "server", "strategy": strategy if unit == "provider" else rounds["optimizer"]},
            ]
            return {"task": task, "rounds": number, "parts": parts}

        phases = []
        if pretraining:
            clip = pretraining.get("pretrain_clip") or privacy["clip"]
            strategy = pretraining.get("pretrain_strategy") or rounds["strategy"]
            phases.append(phase("pretraining", pretraining["pretrain_rounds"], clip, strategy))
        phases.append(phase("questions", rounds["rounds"], privacy["clip"], rounds["strategy"]))
        return cls.model_validate({"unit": unit, "draw": _draw(mode, rounds, privacy, clients), "phases": phases})

    def with_clients(self, count: int) -> Mechanism:
        """Itself among another number of clients, such as in a test of it."""
        return self.model_copy(update={"phases": tuple(
            phase.model_copy(update={"parts": tuple(
                one.model_copy(update={"clients": count}) if isinstance(one, Sum) else one for one in phase.parts
            )})
            for phase in self.phases
        )})  # fmt: skip

    @property
    def noise(self) -> Noise:
        """Noise of every phase."""
        return self.phases[-1].part(Noise)

    @property
    def sum(self) -> Sum:
        """Sum of every phase."""
        return self.phases[-1].part(Sum)

    @property
    def kind(self) -> Kind:
        """Kind of the draws."""
        return self.draw.kind

    @property
    def adjacencies(self) -> tuple[str, ...]:
        """Names of the adjacency that it is accounted for; the first is ours."""
        return ADJACENCIES[self.kind] if self.unit == "provider" else (UNITS[self.unit].adjacency,)

    @property
    def rounds(self) -> int:
        """Rounds of all phases."""
        return sum(phase.rounds for phase in self.phases)

    @property
    def sampling(self) -> Sampling:
        """Sampling of a unit over all rounds; those of its schedule where it has one."""
        return self._sampled(self.rounds)

    @property
    def share(self) -> float:
        """Share of the units to expect in a round."""
        return self.sampling.published_rate / (self.draw.separation or 1)

    @property
    def correlation(self) -> Correlation:
        """Correlation of the noise of the rounds."""
        return Correlation(self.noise.strategy, self.rounds)

    def _sampled(self, rounds: int) -> Sampling:
        return Sampling(self.draw.client_rate, self.draw.provider_rate, participations(rounds, self.draw.separation))

    def spent(self, delta: float, accounting: Accounting = "valid", rounds: int | None = None) -> PrivacySpent:
        """Privacy that the first ``rounds`` rounds spend, all of them if None.

        Raises:
            UsageError: A value is out of range.
        """
        number = self.rounds if rounds is None else rounds
        found = privacy_spent(self._sampled(number), self.noise.multiplier, delta, accounting, self.kind)
        pure = number * self.loss_of_sum
        return PrivacySpent(found.epsilon + pure, delta, found.accountant, found.renyi + pure, accounting)

    @property
    def loss_of_sum(self) -> float:
        """Privacy loss of a round by the rounding of a secure sum, nats."""
        return rounding_loss(self.noise.multiplier, self.sum.clients) if self.sum.secure else 0.0

    def cost(self, delta: float) -> RunCost:
        """Cost of the whole run for a budget, by valid accounting."""
        loss = self.loss_of_sum * self.rounds / self.sampling.rounds
        epsilon = self.spent(delta).epsilon
        return RunCost(self.sampling, self.noise.multiplier, delta, epsilon, self.kind, loss, self.unit)

    def sentences(self) -> list[str]:
        """Effects of its parts on the guarantee of FL-PROVIDER-DP, a sentence each."""
        found = []
        if len(self.phases) > 1:
            rounds = " and ".join(str(phase.rounds) for phase in self.phases)
            found.append(f"self-pretraining: epsilon counts the rounds of both phases, {rounds}")
        if self.kind == "fixed-size":
            found.append(
                "groups of a fixed size: epsilon is for one provider replaced by another, which moves the sum by up "
                "to twice the clip"
            )
        if self.kind == "schedule":
            bands = len(self.noise.strategy)
            found.append(
                f"fixed schedule: a provider takes part every {self.draw.separation} rounds, {self.sampling.rounds} "
                "times at most, and its rounds are taken as known; epsilon is that of one Gaussian mechanism for all "
                f"of them{f', with noise correlated over {bands} rounds' if bands > 1 else ''}"
            )
        texts = (said(one) for phase in self.phases for one in phase.parts)
        found += dict.fromkeys(text for text in texts if text)
        if self.sum.secure:
            found.append(
                "secure sum: messages are rounded to a grid after the noise, which adds "
                f"{self.rounds * self.loss_of_sum:.2g} to epsilon; a number beyond the grid ends the run"
            )
        return found

    def not_covered(self) -> list[str]:
        """Limits of the guarantee, a sentence each."""
        found = ["the choice of settings by looking at results"]
        if self._shared(self.phases[-1]) and not self.sum.secure:
            found.append("a server that sees single updates: each carries only its share of the noise")
        found.append("rounding of noise and sums to float32, which are accounted as real numbers")
        return found


def _require_gradients(rounds: Mapping[str, Any], unit: PrivacyUnit) -> None:
    """Refuse settings of local training and of server strategies, which a unit that gives one gradient has not.

    Raises:
        UsageError: One is given.
    """
    without = {
        "strategy": "fedavg",
        "server_rate": 1e-3,
        "proximal": 0.0,
        "local_epochs": 1,
        "local_steps": None,
        **dict.fromkeys(("pretrain_strategy", "pretrain_server_rate")),
    }
    for name, value in without.items():
        if rounds.get(name, value) != value:
            raise UsageError(
                f"a {UNITS[unit].noun} gives one gradient, and --optimizer steps along their noisy mean",
                f"Leave out --{name.replace('_', '-')}",
            )


def _draw(mode: str, rounds: Mapping[str, Any], privacy: Mapping[str, Any], clients: int) -> dict[str, Any]:
    """Draws of a round by its settings.

    Raises:
        UsageError: There are too few clients.
    """
    scheme = privacy["sampling"]
    if scheme == "schedule":
        return {"kind": scheme, "client_rate": 1.0, "provider_rate": 1.0, "separation": privacy["separation"]}
    if scheme == "fixed-size":
        drawn = clients_drawn(rounds, clients)
        if mode != "fl-dp" or not 1 <= drawn <= clients:
            raise UsageError(
                f"{drawn} clients a round were asked for, and there are {clients}",
                "Correct --clients-per-round; --sampling fixed-size is of --mode fl-dp",
            )
        rate = (privacy.get("providers_per_round") or 0) / (privacy.get("minimum_providers") or 1)
        return {"kind": "fixed-size", "client_rate": drawn / clients, "provider_rate": rate}
    client_rate = float(privacy["client_rate"]) if mode == "fl-dp" and scheme == "clients" else 1.0
    return {"kind": "poisson", "client_rate": client_rate, "provider_rate": float(privacy["provider_rate"])}
