"""Paths of the server, from the run's configuration, and of a client, from its node's configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pfl_audit.errors import UsageError
from pfl_audit.privacy.ledger import Ledger, default_path
from pfl_audit.training.federated.flower.refusal import RefusalError

CLIENT_KEYS = ("data", "start", "work")


@dataclass(frozen=True)
class ServerConfig:
    """Configuration of the server.

    Attributes:
        out: Folder of the new checkpoint.
        data: Corpus whose held-out part is looked at now and then, or "".
        half: Save as float16.
        wait: Longest time until every client has joined, in seconds.
        timeout: Longest time until a round's answers are in, in seconds.
        grace: Longest wait for the other clients of a round once a quorum has answered, in seconds.
        keep_updates: Whether every message is kept beside the checkpoint.
    """

    start: str
    out: str
    data: str = ""
    half: bool = False
    device: str = "cpu"
    wait: float = 600.0
    timeout: float = 36000.0
    grace: float = 600.0
    keep_updates: bool = False

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> ServerConfig:
        """Read it from the run's configuration.

        Raises:
            UsageError: Something is missing.
        """
        try:
            return cls(**{name: config[f"server.{name}"] for name in cls.__dataclass_fields__})
        except KeyError as error:
            raise UsageError(f"the app's settings lack {error}", "Make the app again") from error


@dataclass(frozen=True)
class ClientConfig:
    """Configuration of a client.

    Attributes:
        data: Corpus with its part.
        work: Folder for its secret key and for what need not be computed twice.
        roll: Secret of the clients, by which the server finds a provider that two of them have; or "".
        ledger: Its budget ledger; by default beside the data.
        budget_cap: Largest epsilon of a provider in all runs of the ledger; None for the ledger's own.
        canaries_cap: Most document canaries that it trains on in a run; 0 joins no run that has some for it.
        repeatable_noise: Whether it joins runs whose noise has a seed, which the server knows: for trials.
        simulated: Whether its data are those of the run's configuration, so that its owner leads the run too.
    """

    number: int
    data: Path
    start: Path
    work: Path
    device: str = "cpu"
    roll: str = ""
    ledger: str = ""
    budget_cap: float | None = None
    canaries_cap: int = 0
    repeatable_noise: bool = False
    simulated: bool = False

    @property
    def budget(self) -> Ledger:
        """The client's budget ledger."""
        return Ledger(Path(self.ledger) if self.ledger else default_path(self.data))

    @classmethod
    def of(cls, node: Mapping[str, Any], config: Mapping[str, Any]) -> ClientConfig:
        """Read it from the node's configuration, or from the run's where a simulation has no other.

        Raises:
            RefusalError: Something is missing.
        """
        number = node.get("partition-id")
        if not isinstance(number, int) or number < 0:
            raise RefusalError("it has no number", "Start its SuperNode with --node-config 'partition-id=0 ...'")
        found = {key: str(node.get(key) or config.get(f"client.{key}") or "") for key in CLIENT_KEYS}
        if missing := [key for key in CLIENT_KEYS if not found[key]]:
            raise RefusalError(
                f"its SuperNode was started without {' and '.join(missing)}",
                f'Start it with --node-config \'partition-id={number} data="..." start="..." work="..."\'',
            )
        # Simulated nodes share a folder that is named for the run.
        work = Path(found["work"]) if node.get("work") else Path(found["work"]) / f"client-{number}"
        cap = node.get("budget-cap")
        if cap is not None and not (isinstance(cap, int | float) and cap > 0):
            raise RefusalError("its budget-cap is no number above 0", "Correct its --node-config")
        canaries = node.get("audit-canaries-cap", 0)
        if type(canaries) is not int or canaries < 0:
            raise RefusalError("its audit-canaries-cap is no number from 0", "Correct its --node-config")
        return cls(
            number,
            Path(found["data"]),
            Path(found["start"]),
            work,
            device=str(node.get("device", "cpu")),
            roll=str(node.get("roll", "")),
            ledger=str(node.get("ledger", "")),
            budget_cap=cap,
            canaries_cap=canaries,
            repeatable_noise=node.get("repeatable-noise") is True,
            simulated=not node.get("data"),
        )
