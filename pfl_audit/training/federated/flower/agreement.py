"""What all parties of a federation agree on. It is in the app's pyproject.toml, which all of them can read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, TypeVar

from pfl_audit.errors import UsageError
from pfl_audit.files import sha256_json
from pfl_audit.models.weights import fingerprint_files
from pfl_audit.training import canaries as document_canaries
from pfl_audit.training.canaries import CanarySettings
from pfl_audit.training.federated.codecs import CODECS
from pfl_audit.training.federated.flower.refusal import RefusalError
from pfl_audit.training.federated.plan import PrivacyPlan, plan_privacy
from pfl_audit.training.federated.settings import FederatedSettings, Mode, PrivacySettings
from pfl_audit.training.pretraining import FOLDER, Pretraining
from pfl_audit.version import __version__

_Settings = TypeVar("_Settings", FederatedSettings, PrivacySettings, Pretraining, CanarySettings)
_PRIVATE: Mode = "fl-dp"
_CANARIES = "canaries"


def start_fingerprint(folder: Path) -> str:
    """Digest of a checkpoint's files, the same for every copy."""
    return sha256_json(fingerprint_files(folder))


@dataclass(frozen=True)
class Agreement:
    """A federated run, as every party sees it.

    Attributes:
        mode: fl or fl-dp.
        clients: How many there are, numbered from 0.
        start: Fingerprint of the checkpoint that everybody begins with.
        lora: Rank of adapters, or 0 to train whole tensors.
        secure: Sum updates by SecAgg+, so that the server sees no single one.
        privacy: Of fl-dp, else None.
        quorum: Clients whose updates are enough for a round, or 0 for all that take part. Under privacy each client
            adds noise as if it were one of so many, so that any quorum has the whole noise.
        pretraining: Phase of self-pretraining before, which spends of the same budget; None without.
        canaries: Document canaries that are planted among the providers of the clients, or None.
    """

    mode: Mode
    clients: int
    start: str
    lora: int
    secure: bool
    settings: FederatedSettings
    privacy: PrivacySettings | None
    quorum: int = 0
    pretraining: Pretraining | None = None
    canaries: CanarySettings | None = None

    def check(self) -> None:
        """Raise UsageError where a setting cannot be."""
        if self.mode not in ("fl", _PRIVATE):
            raise UsageError(f"mode {self.mode} has no clients to send anything to", "Choose --mode fl or fl-dp")
        if self.clients < 1:
            raise UsageError("a federation needs a client at least", "Correct --clients")
        if self.secure and self.clients < 2:
            raise UsageError("a sum over one client hides nothing", "Leave out --secagg, or have more clients")
        if (self.privacy is None) != (self.mode == "fl"):
            raise UsageError(f"mode {self.mode} and the settings of privacy do not agree", "Make the app again")
        self.settings.check()
        if self.pretraining is not None:
            self.pretraining.check()
            self.of_phase(FOLDER).settings.check()
        if self.secure and not CODECS.named(self.settings.codec).summable:
            raise UsageError(
                f"messages in {self.settings.codec} cannot be summed securely", "Leave out --secagg, or --codec"
            )
        if self.secure and self.settings.weighting != "uniform":
            raise UsageError(
                "a secure sum weighs all updates alike", f"Leave out --secagg, or --weighting {self.settings.weighting}"
            )
        if self.quorum:
            self._check_quorum()
        if self.privacy is not None:
            self.privacy.check()
            self.plan(self.privacy.noise_multiplier or 1.0)
        if self.canaries is not None:
            document_canaries.check(self.canaries, self.privacy)

    def _check_quorum(self) -> None:
        if self.secure:
            raise UsageError("a secure sum needs every client of the round", "Leave out --quorum, or --secagg")
        most = self.clients
        if self.privacy is None:
            phases = [self, self.of_phase(FOLDER)] if self.pretraining else [self]
            most = min(one.settings.clients_drawn(self.clients) for one in phases)
        if not 1 <= self.quorum <= most:
            raise UsageError(
                f"a quorum of {self.quorum} was asked for, and a round has {most} clients", "Lower --quorum"
            )

    def of_phase(self, phase: str) -> Agreement:
        """The same with the settings of a phase, empty for the one that trains on questions.

        Raises:
            RefusalError: It was not agreed.
        """
        if not phase:
            return self
        if self.pretraining is None or phase != FOLDER:
            raise RefusalError("a phase is asked for that was not agreed", "Keep to the app")
        privacy = self.pretraining.private(self.privacy) if self.privacy else None
        return replace(self, settings=self.pretraining.federated(self.settings), privacy=privacy)

    def plan(self, sigma: float | None = None, phase: str = "") -> PrivacyPlan | None:
        """The privacy guarantee by a party's own calculation, or None without privacy.

        Args:
            sigma: Noise multiplier, where it is known; None searches for it.
            phase: That the plan is for, with its clip; the noise is that of all phases.

        Raises:
            UsageError: The parts do not compose, or the target cannot be reached.
        """
        if self.privacy is None:
            return None
        known = self.privacy if sigma is None else replace(self.privacy, noise_multiplier=sigma, epsilon=None)
        plan = plan_privacy(
            self.mode, known, self.settings, self.clients,
            secure=self.secure, quorum=self.quorum or None, pretraining=self.pretraining,
        )  # fmt: skip
        private = self.of_phase(phase).privacy
        return replace(plan, settings=private) if phase and private else plan

    def to_dict(self) -> dict[str, Any]:
        """As JSON; without self-pretraining or canaries as before there were any, to recognise earlier runs."""
        added = {"pretraining": self.pretraining, _CANARIES: self.canaries}
        held = {name: value for name, value in asdict(self).items() if name not in added}
        return held | {name: value.to_dict() for name, value in added.items() if value}

    @property
    def participants(self) -> tuple[int, int]:
        """Smallest and largest number of clients of a round of this phase, including clients that may be missing."""
        if self.privacy is not None and self.privacy.sampling == "clients":
            return 1, self.clients
        take_all = self.privacy is not None and self.privacy.sampling in ("providers", "schedule")
        drawn = self.clients if take_all else min(self.settings.clients_drawn(self.clients), self.clients)
        return drawn, drawn

    def noise_shares(self, participants: int) -> int:
        """Number of clients whose noise adds up to the whole noise of a round."""
        return self.quorum or participants

    @property
    def digest(self) -> str:
        """Of all of it."""
        return sha256_json(self.to_dict())

    def to_config(self) -> dict[str, Any]:
        """As tables of TOML, which has no null: what is not set is left out."""
        top: dict[str, Any] = {
            name: getattr(self, name) for name in ("mode", "clients", "start", "lora", "secure", "quorum")
        }
        tables = {"rounds": asdict(self.settings)}
        if self.privacy is not None:
            tables["privacy"] = asdict(self.privacy)
        if self.pretraining is not None:
            tables["pretraining"] = self.pretraining.to_dict()
        if self.canaries is not None:
            tables[_CANARIES] = self.canaries.to_dict()
        set_ = {name: {k: v for k, v in table.items() if v is not None} for name, table in tables.items()}
        return {"version": __version__, **top, **set_}

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Agreement:
        """Read it back from Flower's run configuration, where the keys of tables are joined by dots.

        Raises:
            UsageError: A key is missing, a value cannot be, or another version of pfl-audit wrote it.
        """
        if config.get("version") != __version__:
            raise UsageError(
                f"the federation runs pfl-audit {str(config.get('version'))[:20]}, and this is {__version__}",
                "Install the same version everywhere",
            )
        try:
            agreement = cls(
                mode=config["mode"],
                clients=int(config["clients"]),
                start=str(config["start"]),
                lora=int(config["lora"]),
                secure=bool(config["secure"]),
                settings=_read(FederatedSettings, config, "rounds"),
                privacy=_read(PrivacySettings, config, "privacy") if config["mode"] == _PRIVATE else None,
                quorum=int(config["quorum"]),
                pretraining=_read(Pretraining, config, FOLDER) if f"{FOLDER}.pretrain" in config else None,
                canaries=_read(CanarySettings, config, _CANARIES) if f"{_CANARIES}.canaries" in config else None,
            )
            agreement.check()
        except (KeyError, TypeError, ValueError) as error:
            raise UsageError(f"the app's settings cannot be read: {error}", "Make the app again") from error
        return agreement


def _read(kind: type[_Settings], config: Mapping[str, Any], table: str) -> _Settings:
    """A table; what may be None and is not there is None, never its default."""
    values: dict[str, Any] = {}
    for field in fields(kind):
        key = f"{table}.{field.name}"
        if key not in config and "None" not in str(field.type):
            raise KeyError(key)
        values[field.name] = value = config.get(key)
        if field.type == "int" and type(value) is not int:
            raise TypeError(f"{key} is no integer")
    return kind(**values)
