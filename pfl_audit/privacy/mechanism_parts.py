"""Parts of a private mechanism: what each takes and gives, and what it changes of the guarantee."""

from __future__ import annotations

from typing import Annotated, ClassVar, Final, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from pfl_audit.privacy.guarantee import NoiseScope, Positive
from pfl_audit.privacy.sampling import MOST_BANDS

CODECS: Final[dict[str, bool]] = {"float32": False, "nf4": True}
"""Codec of this package to whether it rounds."""
_STRATEGIES: Final = ("fedavg", "fedavgm", "fedadam", "fedadam-reference", "fedadam-corrected")
_OPTIMIZERS: Final = ("adamw", "adam", "sgd", "momentum", "shampoo", "adafactor")
_NAMES: Final = (*CODECS, *_STRATEGIES, *_OPTIMIZERS)

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.+-]{1,60}$")]
Weight = Annotated[float, Field(ge=-1, le=1, allow_inf_nan=False)]
Stage = Literal["update", "bounded", "message", "sum", "model"]
"""Input or result of a part: the update of a unit, clipped, the message of a client, the sum over clients, weights."""


class Part(BaseModel):
    """A step from an update to the weights.

    Attributes:
        takes: What it is applied to.
        gives: Its result.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)
    takes: ClassVar[Stage]
    gives: ClassVar[Stage]


class Local(Part):
    """Local training of a provider; its update is clipped, whatever it is."""

    takes, gives = "update", "update"
    part: Literal["local"] = "local"
    optimizer: Name
    proximal: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0


class Gradient(Part):
    """Gradient of the loss of all questions of a document or an example, summed before its clip (DP-SGD)."""

    takes, gives = "update", "update"
    part: Literal["gradient"] = "gradient"


class Dual(Part):
    """Dual variable of a client between rounds, which is added before the clip (DP-CLGECL)."""

    takes, gives = "update", "update"
    part: Literal["dual"] = "dual"
    start: Literal["random", "zero"]


class Clip(Part):
    """Scaling of an update to a norm of at most ``bound``; of the sum one unit is at most so much."""

    takes, gives = "update", "bounded"
    part: Literal["clip"] = "clip"
    bound: Positive


class Noise(Part):
    """Gaussian noise of standard deviation ``multiplier`` times the clip on a client's sum, or a share of it.

    Attributes:
        carrier: Carrier of the whole noise: the ``sum`` over clients, or every ``message``.
        secret: True where nobody can draw it again.
        quorum: Clients whose shares are the whole noise, if a round may lack others.
        strategy: What correlates the noise of rounds (``Correlation``); its length is the number of bands.
    """

    takes, gives = "bounded", "message"
    part: Literal["noise"] = "noise"
    multiplier: Positive
    carrier: NoiseScope
    secret: bool
    quorum: Annotated[int, Field(ge=1)] | None = None
    strategy: Annotated[tuple[Weight, ...], Field(min_length=1, max_length=MOST_BANDS, strict=False)] = (1.0,)


class Codec(Part):
    """Encoding of a message; ``lossy`` if decoding rounds, so that a sum of messages is no function of the sum."""

    takes, gives = "message", "message"
    part: Literal["codec"] = "codec"
    name: Name
    lossy: bool


class Sum(Part):
    """Sum over the clients of a round.

    Attributes:
        clients: Number of clients of the run.
        secure: True where the server sees the sum alone; messages are then rounded to a grid.
    """

    takes, gives = "message", "sum"
    part: Literal["sum"] = "sum"
    clients: Annotated[int, Field(ge=1, le=10**6)]
    secure: bool = False


class Server(Part):
    """Step of the server's strategy, or of an optimiser, from the sum, divided by a constant, to the weights."""

    takes, gives = "sum", "model"
    part: Literal["server"] = "server"
    strategy: Name


AnyPart = Annotated[Local | Gradient | Dual | Clip | Noise | Codec | Sum | Server, Field(discriminator="part")]
One = TypeVar("One", bound=Part)


def said(part: Part) -> str | None:
    """Its effect on the guarantee in a sentence, in a mechanism that composes; None where there is nothing to say."""
    match part:
        case Local() if part.optimizer != "adamw" or part.proximal:
            return "local optimiser and proximal term: no change, because every update is clipped after them"
        case Gradient():
            return "one gradient a unit: the gradients of all its questions are summed before one clip"
        case Dual():
            return (
                "dual variable between rounds: no change, because it depends on models and on the client's own "
                "messages, which have full noise"
            )
        case Noise() if part.quorum:
            return (
                "rounds without some clients: a condition, that clients do not fail for reasons that depend on their "
                "documents"
            )
        case Noise(carrier="message"):
            return "full noise on every client's message: epsilon is for each message, and known participation"
        case Codec(lossy=True):
            return f"encoding of messages ({shown(part.name)}): no change, because it rounds what has all of its noise"
        case Server() if part.strategy != "fedavg":
            return f"server strategy ({shown(part.strategy)}): no change, because it works on the noisy sums alone"
    return None


def shown(name: str) -> str:
    """A name of a part of this package, or ``another``: one from elsewhere may be that of a company."""
    return name if name in _NAMES else "another"
