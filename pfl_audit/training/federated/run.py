"""A federated or private run: its secrets, budget and rounds for any engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pfl_audit.documents.document import Query
from pfl_audit.errors import AuditError, UsageError, another_run
from pfl_audit.files import atomic_write, sha256_json
from pfl_audit.models.page_store import PAGES_FILE
from pfl_audit.models.tensor_record import read_state
from pfl_audit.privacy.ledger import Ledger
from pfl_audit.progress import Progress
from pfl_audit.training.federated import dual, optimizer_memory, partial
from pfl_audit.training.federated.clients import Client, merged, partition, unit_name
from pfl_audit.training.federated.dual import DualMemory
from pfl_audit.training.federated.gaussian_mechanism import GaussianNoise
from pfl_audit.training.federated.kept import Kept, KeptMessages
from pfl_audit.training.federated.local import Trainer
from pfl_audit.training.federated.plan import PrivacyPlan, plan_privacy
from pfl_audit.training.federated.secure_rng import KEY_BYTES, SecretStream, new_key
from pfl_audit.training.federated.server import STATE_FILE
from pfl_audit.training.federated.settings import FederatedSettings, Mode, PrivacySettings
from pfl_audit.training.federated.worker import ClientPrivacy, Worker
from pfl_audit.training.pretraining import FOLDER, Pretraining, first_phase
from pfl_audit.training.trainable import Trainable

KEY_FILE = "secret.key"


@dataclass(frozen=True)
class Federation:
    """One run.

    Attributes:
        mode: fl, central-dp or fl-dp.
        privacy: Settings of the private modes, or None.
        identity: Everything that decides the weights.
        secure: Whether updates are summed by secure aggregation, as numbers of 8 bytes.
        quorum: Clients whose shares of the noise are the whole, where a private round may go on without others.
        ledger: Budget ledger of the data, or None where others keep it.
        budget_cap: Largest epsilon of a unit in all runs of the ledger; None for the ledger's own.
        pretraining: Phase of self-pretraining before, which spends of the same budget; None without.
        pages: File of the page features, or None for one in the folder.
        kept: Folder where every message is kept, or None.
    """

    mode: Mode
    settings: FederatedSettings
    privacy: PrivacySettings | None
    out: Path
    identity: dict[str, Any]
    device: str = "cpu"
    secure: bool = False
    quorum: int | None = None
    ledger: Ledger | None = None
    budget_cap: float | None = None
    pretraining: Pretraining | None = None
    pages: Path | None = None
    kept: Path | None = None

    @property
    def digest(self) -> str:
        """SHA-256 of the identity."""
        return sha256_json(self.identity)

    @property
    def phase(self) -> str:
        """Name of the phase, empty for the one that trains on questions."""
        return str(self.identity.get("phase", ""))

    @property
    def rounds_before(self) -> int:
        """Rounds of the phase before."""
        return self.pretraining.pretrain_rounds if self.pretraining else 0

    def first(self, pretraining: Pretraining) -> Federation:
        """The phase of self-pretraining, in a folder of its own; its budget is reserved with that of the whole run."""
        return replace(
            self,
            settings=pretraining.federated(self.settings),
            privacy=pretraining.private(self.privacy) if self.privacy else None,
            out=self.out / FOLDER,
            identity=first_phase(self.identity),
            ledger=None,
            pretraining=None,
            pages=self.out / PAGES_FILE,
            kept=self.kept / FOLDER if self.kept else None,
        )

    def clients(self, queries: Sequence[Query]) -> tuple[Client, ...]:
        """The clients; in central training one client holds everything."""
        unit = self.privacy.unit if self.privacy else "provider"
        if self.mode == "central-dp":
            return merged(queries, unit)
        return partition(queries, disjoint=self.privacy is not None, unit=unit)

    def plan(self, clients: Sequence[Client]) -> PrivacyPlan | None:
        """The privacy guarantee of all phases, or None."""
        if self.privacy is None:
            return None
        providers = sum(len(client.providers) for client in clients) or None  # a Flower server does not know it
        return plan_privacy(
            self.mode, self.privacy, self.settings, len(clients), providers,
            secure=self.secure, quorum=self.quorum, pretraining=self.pretraining,
        )  # fmt: skip

    def agree(self, clients: Sequence[Client], progress: Progress) -> PrivacyPlan | None:
        """Fix the privacy guarantee and report it.

        Raises:
            UsageError: More clients are asked for than there are, or a setting cannot be.
        """
        if self.pretraining:
            self.first(self.pretraining).check_round(len(clients), "--pretrain")
        self.check_round(len(clients))
        if self.privacy is not None and self.settings.weighting != "uniform":
            raise UsageError(
                f"weighting {self.settings.weighting} has no privacy guarantee: numbers of queries are private",
                "Leave out --weighting",
            )
        if self.settings.client_memory != "none" and self.privacy is None:
            raise UsageError(
                "a dual variable between rounds is of private runs of one phase", "Leave out --client-memory"
            )
        plan = self.plan(clients)
        if plan is not None:
            if plan.providers is not None:
                for client in clients:
                    plan.settings.require_providers(client.number, len(client.providers))
            promised = plan.spent_after(plan.mechanism.rounds)
            progress.say(
                f"noise multiplier {plan.mechanism.noise.multiplier:.4f}: epsilon {promised.epsilon:.3f} at delta "
                f"{plan.settings.delta:g} by {promised.accountant} ({plan.settings.accounting} accounting)"
            )
            if self.settings.client_memory != "none":
                progress.say(
                    f"every client divides its own message by {plan.client_divisor:g}, the providers to expect, for "
                    "its dual variable"
                )
            for sentence in plan.mechanism.sentences():
                progress.say(sentence)
            for warning in plan.warnings:
                progress.say(f"warning: {warning}")
        return plan

    def check_round(self, clients: int, flag: str = "-") -> None:
        """Check that a round can be run.

        Args:
            flag: Beginning of the options of the phase.

        Raises:
            UsageError: More clients are asked for than there are, or none, or a setting cannot be.
        """
        self.settings.check()
        drawn = self.settings.clients_drawn(clients)
        if self.privacy is None and not 1 <= drawn <= clients:
            raise UsageError(
                f"{drawn} clients a round were asked for, and there are {clients}",
                f"Raise {flag}-client-fraction" if drawn < 1 else "Lower --clients-per-round",
            )
        if order := self.settings.order:
            self._check_order(order, clients, drawn)

    def _check_order(self, order: Sequence[int], clients: int, drawn: int) -> None:
        if self.privacy is not None:
            raise UsageError("a fixed order of clients has no privacy guarantee", "Leave out --client-order")
        if max(order) >= clients or drawn > len(order):
            raise UsageError(
                f"--client-order has {len(order)} clients up to number {max(order)}; there are {clients}, from 0, "
                f"and a round takes {drawn}",
                "Name clients that there are, enough for a round",
            )

    def reserve(
        self, plan: PrivacyPlan, run: str, queries: Sequence[Query]
    ) -> tuple[PrivacyPlan, dict[str, Any] | None]:
        """Reserve the budget of a run before its first round.

        Returns:
            The plan with the guarantee of all runs so far, and what the private record says of the budget.

        Raises:
            UsageError: The budget is used up.
            AuditError: The ledger is damaged.
        """
        if self.ledger is None:
            return plan, None
        names = {unit_name(query, plan.mechanism.unit) for query in queries}
        together, largest = self.ledger.reserve(run, names, plan.mechanism.cost(plan.settings.delta), self.budget_cap)
        return replace(plan, composed=together), {"ledger": str(self.ledger.path), "epsilon": largest}

    @property
    def begun(self) -> bool:
        """Whether the folder holds a key or a state: of this run, or the folder would have been refused."""
        folders = (self.out, self.out / FOLDER)
        return any((folder / name).is_file() for folder in folders for name in (KEY_FILE, STATE_FILE))

    def messages(
        self,
        trainable: Trainable,
        clients: int,
        plan: PrivacyPlan | None,
        train: Sequence[Query],
        stream: SecretStream,
    ) -> KeptMessages | None:
        """Keeps the messages of this phase; None where they are not to be kept.

        Args:
            train: Questions by row, where clients are simulated here.
            stream: Decides draws and noise of a private run: with another key it is another run.
        """
        if self.kept is None:
            return None
        clip = plan.settings.clip if plan else None
        run = sha256_json([self.digest, stream.uniform(4, "kept messages").tolist()]) if plan else self.digest
        unit = plan.mechanism.unit if plan else "provider"
        record = Kept(run=run, clients=clients, settings=self.settings.to_dict(), clip=clip, unit=unit)
        return KeptMessages(self.kept, record, trainable, plan, train, secure=self.secure)

    def stream(self) -> SecretStream:
        """The secret random stream of the run; its key is drawn at the start and stored until the last round is done.

        Raises:
            UsageError: The folder holds another run's.
            AuditError: The secret of an unfinished run is missing or damaged.
        """
        path, owner = self.out / KEY_FILE, bytes.fromhex(self.digest)
        seed = self.privacy.noise_seed if self.privacy else None
        phase = [self.identity[name] for name in ("pretraining", "phase") if name in self.identity]
        use = sha256_json([self.settings.to_dict(), self.privacy.to_dict() if self.privacy else None, *phase])
        if not path.is_file():
            state = read_state(self.out / STATE_FILE, self.digest)
            if state is not None and state[0]["round"] < self.settings.rounds:
                raise AuditError(f"{path} is missing, and the run cannot go on without it", f"Delete {self.out}")
            key = new_key(seed, use)
            with atomic_write(path) as file:
                file.write(key + owner)
            return SecretStream(key)
        held = path.read_bytes()
        key = held[:KEY_BYTES]
        if len(held) != KEY_BYTES + len(owner):
            raise AuditError(f"{path} is damaged", f"Delete {self.out} to begin the run again")
        if held[KEY_BYTES:] != owner or (seed is not None and key != new_key(seed, use)):
            raise another_run(self.out)
        return SecretStream(key)

    def worker(self, client: Client, trainer: Trainer, plan: PrivacyPlan | None, stream: SecretStream) -> Worker:
        """The worker of a client."""
        if plan is None:
            return Worker(client, trainer, None)
        mechanism = plan.mechanism
        noise = GaussianNoise(mechanism.noise.multiplier, plan.settings.clip, stream, mechanism.correlation)
        memory = None
        if self.settings.client_memory != "none":
            start = plan.settings.clip if self.settings.client_memory == "clgecl" else 0.0
            memory = DualMemory(self.out, self.digest, client.number, plan.client_divisor, start, stream)
        private = ClientPrivacy(plan.settings, noise, stream, memory, whole=plan.mechanism.noise.carrier == "message")
        return Worker(client, trainer, private, partial.Partial(self.out, self.digest))


def require_finite(weights: Tensor) -> None:
    """Raise AuditError if a weight, float32 (size,), is infinite or NaN."""
    if not bool(torch.isfinite(weights).all()):
        raise AuditError("the trained weights are no longer finite", "Lower --learning-rate or --clip")


def forget_secrets(folder: Path) -> None:
    """Remove what must not outlive the last round: key, sums without noise, pages, states of clients, partial files."""
    for name in (KEY_FILE, partial.FILE, PAGES_FILE, STATE_FILE, dual.FILES, optimizer_memory.FILES):
        left = folder.glob(f".{name}.*.part")
        whole = [] if name == STATE_FILE else folder.glob(name)
        for path in (*left, *whole):
            path.unlink(missing_ok=True)
