"""Settings of a federated or private run."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal

from pydantic import Field

from pfl_audit.errors import UsageError
from pfl_audit.privacy.guarantee import NoiseScope
from pfl_audit.privacy.sampling import MAX_ROUNDS, MOST_BANDS, clients_drawn
from pfl_audit.privacy.units import PrivacyUnit
from pfl_audit.training.settings import (
    BatchSize,
    FreezeVisual,
    LearningRate,
    LoraDropout,
    LoraParts,
    OptimizerName,
    Seed,
    ValidateEvery,
    ValidationQueries,
    WeightDecay,
    check_settings,
    without_defaults,
)

Mode = Literal["central", "fl", "central-dp", "fl-dp"]
Scheme = Literal["providers", "clients", "fixed-size", "schedule"]
ClientMemory = Literal["none", "clgecl", "clgecl-zero"]
Weighting = Literal["uniform", "data", "data-printed"]


@dataclass(frozen=True)
class FederatedSettings:
    """Settings of the rounds. Every local training begins with a fresh optimiser."""

    rounds: Annotated[int, Field(ge=1, description="Rounds (T).")] = 10
    clients_per_round: Annotated[
        int, Field(ge=1, description="Clients a round, drawn without replacement, fl only (K).")
    ] = 2
    client_fraction: Annotated[
        float | None, Field(gt=0, le=1, description="Share C of the K clients in place of a number: int(K C), fl only.")
    ] = None
    client_order: Annotated[
        str,
        Field(
            max_length=10_000,
            description="Clients by number, separated by commas, that rounds take in turn and do not draw, fl only.",
        ),
    ] = ""
    local_epochs: Annotated[int, Field(ge=1, description="Passes over the queries in a round.")] = 1
    local_steps: Annotated[int | None, Field(ge=1, description="Largest number of steps in a round.")] = None
    batch_size: BatchSize = 32
    learning_rate: LearningRate = 2e-4
    optimizer: OptimizerName = "adamw"
    weight_decay: WeightDecay = 0.01
    strategy: Annotated[str, Field(description="How the server applies a round's update.")] = "fedavg"
    server_rate: Annotated[float, Field(gt=0, le=10, description="Server learning rate of fedadam.")] = 1e-3
    weighting: Annotated[
        Weighting,
        Field(
            description="Weights of the clients' updates: uniform, data (by number of queries), or data-printed, which "
            "also divides by the number of clients, as algorithm 1 of the pilot."
        ),
    ] = "uniform"
    proximal: Annotated[
        float, Field(ge=0, allow_inf_nan=False, description="Weight mu of FedProx's proximal term; 0 leaves it out.")
    ] = 0.0
    client_memory: Annotated[
        ClientMemory,
        Field(
            description="What a client keeps between rounds, fl-dp only: none, clgecl (a dual variable with a random "
            "start, added before clipping), or clgecl-zero (the same, from zero)."
        ),
    ] = "none"
    codec: Annotated[str, Field(description="Encoding of messages: float32, or nf4 with 4.5 bits a number.")] = (
        "float32"
    )
    freeze_embeddings: Annotated[
        bool, Field(description="Freeze the tables of tokens and positions, and leave them out of the messages.")
    ] = False
    freeze_visual: FreezeVisual = True
    lora_parts: LoraParts = "all"
    lora_dropout: LoraDropout = 0.1
    seed: Seed = 0
    validate_every: ValidateEvery = 5
    validation_queries: ValidationQueries = 256
    validate_stages: Annotated[
        bool,
        Field(description="Validate what each client of a round receives and trains, and what arrives of it, fl only."),
    ] = False

    def check(self) -> None:
        """Raise UsageError if a setting is out of bounds, or an optimiser, strategy or codec is unknown."""
        from pfl_audit.training.federated.codecs import CODECS
        from pfl_audit.training.federated.strategies import STRATEGIES
        from pfl_audit.training.optimizers import OPTIMIZERS

        check_settings(self)
        OPTIMIZERS.named(self.optimizer)
        STRATEGIES.named(self.strategy)
        CODECS.named(self.codec)
        if len(set(self.order)) < len(self.order):
            raise UsageError("--client-order names a client twice", "Name each client once")

    @property
    def order(self) -> tuple[int, ...]:
        """Numbers of ``client_order``.

        Raises:
            UsageError: They are no numbers.
        """
        names = self.client_order.split(",") if self.client_order else []
        if not all(name.strip().isdecimal() and len(name) < 10 for name in names):
            raise UsageError("--client-order must be numbers of clients", "Write such as --client-order 0,1")
        return tuple(map(int, names))

    def in_order(self, round_number: int, wanted: int) -> tuple[int, ...]:
        """The clients of a round, from 1, where they are not drawn: the next ones of ``order``, ascending."""
        first = (round_number - 1) * wanted
        return tuple(sorted(self.order[at % len(self.order)] for at in range(first, first + wanted)))

    def clients_drawn(self, clients: int) -> int:
        """Clients a round of ``clients``, without privacy (federated-docvqa-pilot, section 4, for a fraction)."""
        return clients_drawn(asdict(self), clients)

    def to_dict(self) -> dict[str, Any]:
        """As JSON; settings that earlier versions lacked are left out at their defaults, to recognise their runs."""
        added = (
            *("server_rate", "weighting", "proximal", "codec", "freeze_embeddings", "client_fraction", "lora_parts"),
            *("client_memory", "lora_dropout", "client_order", "validate_stages"),
        )
        return without_defaults(self, added)


_Rate = Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)]
_Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


@dataclass(frozen=True)
class PrivacySettings:
    """The privacy guarantee, and what is done for it. Settings that speak of providers mean units of privacy.

    With the sampling ``clients``, clients are drawn, and providers within them (algorithm 1 of the paper). With
    ``fixed-size`` every round has the same numbers of clients and of providers a client (FL-GROUP-DP;
    pfl-docvqa-competition, appendix B). With ``schedule`` nothing is drawn in a round, and noise may be correlated
    over rounds (DP-FTRL).
    """

    unit: Annotated[
        PrivacyUnit,
        Field(
            description="Unit of privacy, whose update is clipped: provider; document with all its questions; or "
            "example, a question. A document or an example gives one gradient (DP-SGD)."
        ),
    ] = "provider"
    sampling: Annotated[
        Scheme,
        Field(
            description="providers: every client takes part, providers are drawn; clients: clients, then providers; "
            "fixed-size: --clients-per-round clients, and --providers-per-round providers of each; schedule: every "
            "client, and each provider once in --separation rounds."
        ),
    ] = "providers"
    client_rate: Annotated[
        _Rate, Field(description="Probability that a client takes part, with --sampling clients.")
    ] = 0.2
    provider_rate: Annotated[_Rate, Field(description="Probability that a provider, or other unit, takes part.")] = 0.2
    providers_per_round: Annotated[
        int | None, Field(ge=1, le=10**9, description="Providers of a client a round, with --sampling fixed-size (M).")
    ] = None
    minimum_providers: Annotated[
        int | None,
        Field(ge=1, le=10**9, description="Public least number of providers of a client, with --sampling fixed-size."),
    ] = None
    separation: Annotated[
        int | None,
        Field(ge=1, le=MAX_ROUNDS, description="Rounds from one turn of a provider to its next, by a schedule."),
    ] = None
    bands: Annotated[
        int | None,
        Field(ge=1, le=MOST_BANDS, description="Rounds that noise is correlated over; 1 for independent noise."),
    ] = None
    clip: Annotated[_Positive, Field(description="Largest L2 norm of the update of a unit (C).")] = 1.0
    epsilon: Annotated[_Positive | None, Field(description="Target epsilon of the (epsilon, delta) guarantee.")] = 8.0
    noise_multiplier: Annotated[_Positive | None, Field(description="Noise multiplier, instead of --epsilon.")] = None
    delta: Annotated[float, Field(gt=0, lt=1, description="Target delta of the (epsilon, delta) guarantee.")] = 1e-5
    accounting: Annotated[
        Literal["valid", "published"], Field(description="published repeats the papers' figure, which does not hold.")
    ] = "valid"
    public_providers: Annotated[
        int | None,
        Field(
            ge=1,
            le=10**12,
            description="A number of providers, or other units, that may be known; sums are divided by those to expect "
            "of it.",
        ),
    ] = None
    denominator: Annotated[_Positive | None, Field(description="Divisor of a round's sum of updates, instead.")] = None
    noise: Annotated[
        NoiseScope,
        Field(
            description="Carrier of the noise: sum, of which every client adds its share, or message: all of it on the "
            "message of every client, fl-dp only."
        ),
    ] = "sum"
    noise_seed: Annotated[int | None, Field(description="Repeatable noise: private only while the seed is secret.")] = (
        None
    )

    def check(self) -> None:
        """Raise UsageError if a setting is out of bounds."""
        check_settings(self)
        if (self.epsilon is None) == (self.noise_multiplier is None):
            raise UsageError("one of --epsilon and --sigma is needed, and not both", "Give the target or the noise")
        if self.sampling == "schedule" and (self.separation is None or self.accounting == "published"):
            raise UsageError(
                "a schedule needs the rounds between two participations of a provider, and has no published figure",
                "Give --separation, and leave out --accounting",
            )
        if self.sampling == "fixed-size":
            self._check_fixed_size()
        elif self.public_providers is None and self.denominator is None:
            raise UsageError(
                "a private run needs a public number to divide its sums by: counted providers would be disclosed",
                "Give --public-providers, a number that may be known, or --denominator",
            )

    def _check_fixed_size(self) -> None:
        count, least = self.providers_per_round, self.minimum_providers
        if count is None or least is None:
            raise UsageError(
                "--sampling fixed-size needs the providers of a round and the least number of them in a client",
                "Give --providers-per-round and --minimum-providers",
            )
        if count > least:
            raise UsageError(
                f"{count} providers cannot be drawn of {least}",
                "Lower --providers-per-round or raise --minimum-providers",
            )
        if self.public_providers is not None or self.denominator is not None:
            raise UsageError(
                "sums over groups of a fixed size are divided by the number of draws",
                "Leave out --public-providers and --denominator",
            )

    def require_providers(self, client: int, count: int) -> None:
        """Raise UsageError if a client has fewer providers than every client must have."""
        if self.sampling == "fixed-size" and count < (self.minimum_providers or 0):
            raise UsageError(
                f"client {client} has fewer than {self.minimum_providers} providers: the rate is higher than stated",
                "Lower --minimum-providers, or merge clients",
            )

    def to_dict(self) -> dict[str, Any]:
        """As JSON; settings that earlier versions lacked are left out at their defaults, to recognise their runs."""
        added = {
            **dict.fromkeys(("providers_per_round", "minimum_providers", "separation", "bands")),
            "noise": "sum",
            "unit": "provider",
        }
        return {k: v for k, v in asdict(self).items() if k not in added or v != added[k]}

    def to_public(self) -> dict[str, Any]:
        """As JSON without the seed of the noise: an observer with the seed can remove the noise."""
        return {**self.to_dict(), "noise_seed": self.noise_seed is not None}
