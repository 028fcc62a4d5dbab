"""Messages to clients without tensors, and the scale of a secure sum; a message that needs no torch imports none."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from flwr.app import ConfigRecord, RecordDict

from pfl_audit.privacy.rounding import reach
from pfl_audit.training.federated.settings import PrivacySettings

JOIN, CANARIES, ROUND, FINISH, SECURE = "query.join", "query.canaries", "train.round", "query.finish", "train"
"""Types of messages. Flower's SecAgg+ knows none but "train"."""
RUN = "run"
_PLAIN_SPAN = 8.0


@dataclass(frozen=True)
class RoundConfig:
    """Configuration of a round that is sent to a client beside the weights.

    Attributes:
        number: Of the round, from 1.
        participants: How many clients take part, of whom each adds its share of the noise.
        sigma: Noise multiplier as the server sees it, or 0 without privacy.
        quorum: Number of clients that are enough and have the whole noise, or 0 for all participants.
        phase: Name of the phase, empty for the one that trains on questions; each counts its rounds from 1.
        start: SHA-256 of the vector whose difference to the model is sent, or empty where the model itself is sent.
    """

    run: str
    number: int
    participants: int
    sigma: float
    quorum: int = 0
    phase: str = ""
    start: str = ""

    @property
    def name(self) -> str:
        """Name of the round among all of the run."""
        return f"{self.phase} {self.number}".lstrip()

    def to_dict(self) -> dict[str, Any]:
        """As scalars."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Any) -> RoundConfig:
        """From scalars."""
        numbers = (int(values["number"]), int(values["participants"]), float(values["sigma"]), int(values["quorum"]))
        return cls(str(values["run"]), *numbers, str(values["phase"]), str(values["start"]))


def question(values: dict[str, Any]) -> RecordDict:
    """A message of scalars."""
    return RecordDict({RUN: ConfigRecord(values)})


def read_question(content: RecordDict) -> dict[str, Any]:
    """Its scalars."""
    return dict(content.config_records[RUN])


def span(order: RoundConfig, privacy: PrivacySettings | None) -> float:
    """Largest value of a coordinate that can be sent; the same for the server and every client."""
    if privacy is None:
        return _PLAIN_SPAN
    return privacy.clip * reach(order.sigma, order.participants)
