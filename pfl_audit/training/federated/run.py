"""A federated or private run: from a model and queries to final weights and a record of the run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from pfl_audit.documents.document import Query
from pfl_audit.errors import AuditError, UsageError
from pfl_audit.files import atomic_write, sha256_json
from pfl_audit.models.tensor_record import read_state
from pfl_audit.models.training_protocol import QuestionModel
from pfl_audit.privacy.ledger import Ledger
from pfl_audit.progress import Progress
from pfl_audit.training.federated import communication, partial
from pfl_audit.training.federated.clients import Client, merged, partition
from pfl_audit.training.federated.codecs import CODECS, payload_bytes
from pfl_audit.training.federated.engine import LocalEngine
from pfl_audit.training.federated.gaussian_mechanism import GaussianNoise
from pfl_audit.training.federated.local import LocalTrainer, Trainer
from pfl_audit.training.federated.messages import Engine
from pfl_audit.training.federated.plan import PrivacyPlan, plan_privacy
from pfl_audit.training.federated.secure_rng import KEY_BYTES, SecretStream, new_key
from pfl_audit.training.federated.server import STATE_FILE, Server, ServerState
from pfl_audit.training.federated.settings import FederatedSettings, Mode, PrivacySettings
from pfl_audit.training.federated.strategies import STRATEGIES
from pfl_audit.training.federated.worker import ClientPrivacy, Worker
from pfl_audit.training.federated.worker_pool import trainer_for
from pfl_audit.training.records import begin_record
from pfl_audit.training.scores import mean_over_sources
from pfl_audit.training.trainable import Trainable

KEY_FILE = "secret.key"
PAGES_FILE = "page-features.safetensors"


@dataclass(frozen=True)
class Federation:
    """One run.

    Attributes:
        mode: fl, central-dp or fl-dp.
        privacy: Settings of the private modes, or None.
        identity: Everything that decides the weights.
        secure: Whether updates are summed by secure aggregation, as numbers of 8 bytes.
        ledger: Budget ledger of the data, or None where others keep it.
        budget_cap: Largest epsilon of a provider in all runs of the ledger; None for the ledger's own.
    """

    mode: Mode
    settings: FederatedSettings
    privacy: PrivacySettings | None
    out: Path
    identity: dict[str, Any]
    device: str = "cpu"
    secure: bool = False
    ledger: Ledger | None = None
    budget_cap: float | None = None

    @property
    def digest(self) -> str:
        """SHA-256 of the identity."""
        return sha256_json(self.identity)

    def clients(self, queries: Sequence[Query]) -> tuple[Client, ...]:
        """The clients; in central training one client holds everything."""
        return merged(queries) if self.mode == "central-dp" else partition(queries, disjoint=self.privacy is not None)

    def plan(self, clients: Sequence[Client]) -> PrivacyPlan | None:
        """The privacy guarantee, or None."""
        if self.privacy is None:
            return None
        providers = sum(len(client.providers) for client in clients) or None  # a Flower server does not know it
        return plan_privacy(self.mode, self.privacy, self.settings.rounds, providers)

    def agree(self, clients: Sequence[Client], progress: Progress) -> PrivacyPlan | None:
        """Fix the privacy guarantee and report it.

        Raises:
            UsageError: More clients are asked for than there are, or a setting cannot be.
        """
        STRATEGIES.named(self.settings.strategy)
        CODECS.named(self.settings.codec)
        if self.privacy is not None and self.settings.weighting != "uniform":
            raise UsageError(
                f"weighting {self.settings.weighting} has no privacy guarantee: numbers of queries are private",
                "Leave out --weighting",
            )
        drawn = self.settings.clients_drawn(len(clients))
        if self.privacy is None and not 1 <= drawn <= len(clients):
            raise UsageError(
                f"{drawn} clients a round were asked for, and there are {len(clients)}",
                "Raise --client-fraction" if drawn < 1 else "Lower --clients-per-round",
            )
        plan = self.plan(clients)
        if plan is not None:
            promised = plan.spent_after(self.settings.rounds)
            progress.say(
                f"noise multiplier {plan.sigma:.4f}: epsilon {promised.epsilon:.3f} at delta "
                f"{plan.settings.delta:g} by {promised.accountant} ({plan.settings.accounting} accounting)"
            )
            for warning in plan.warnings:
                progress.say(f"warning: {warning}")
        return plan

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
        names = {query.document.provider for query in queries}
        together, largest = self.ledger.reserve(run, names, plan.cost, self.budget_cap)
        return replace(plan, composed=together), {"ledger": str(self.ledger.path), "epsilon": largest}

    @property
    def begun(self) -> bool:
        """Whether the folder holds a key or a state: of this run, or the folder would have been refused."""
        return any((self.out / name).is_file() for name in (KEY_FILE, STATE_FILE))

    def stream(self) -> SecretStream:
        """The secret random stream of the run; its key is drawn at the start and stored until the last round is done.

        Raises:
            UsageError: The folder holds another run's.
            AuditError: The secret of an unfinished run is missing or damaged.
        """
        path, owner = self.out / KEY_FILE, bytes.fromhex(self.digest)
        seed = self.privacy.noise_seed if self.privacy else None
        use = sha256_json([self.settings.to_dict(), self.privacy.to_dict() if self.privacy else None])
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
            raise UsageError(
                f"{self.out} holds a run with other data or settings",
                "Name another --out, or repeat the command that began it",
            )
        return SecretStream(key)

    def worker(self, client: Client, trainer: Trainer, plan: PrivacyPlan | None, stream: SecretStream) -> Worker:
        """The worker of a client."""
        if plan is None:
            return Worker(client, trainer, None)
        noise = GaussianNoise(plan.sigma, plan.settings.clip, stream)
        private = ClientPrivacy(plan.sampling.provider_rate, plan.settings.clip, noise, stream)
        return Worker(client, trainer, private, partial.Partial(self.out, self.digest))


def train_federated(
    federation: Federation,
    model: QuestionModel,
    trainable: Trainable,
    train: Sequence[Query],
    valid: Sequence[Query],
    progress: Progress,
) -> dict[str, Any]:
    """Train a model in place; a run that was cut continues.

    Returns:
        What describes it: privacy, rounds, history, tally, communication; of a private run salt, commitment and budget.

    Raises:
        UsageError: The folder holds another run, a setting cannot be, or the budget is used up.
        AuditError: The parties are not as they must be, the ledger is damaged, or the first round moved the wrong
            tensors.
    """
    clients = federation.clients(train)
    plan = federation.agree(clients, progress)
    kept: dict[str, Any] = {}
    if plan is not None:
        with begin_record(federation.out, federation.identity, resumed=federation.begun) as data:
            plan, budget = federation.reserve(plan, data["commitment"], train)
        kept = {"data": data, "budget": budget}
    stream = federation.stream()
    examples = model.examples(train, progress, federation.out / PAGES_FILE)
    trainer = trainer_for(LocalTrainer(model, trainable, examples, federation.settings), federation.device)
    workers = {client.number: federation.worker(client, trainer, plan, stream) for client in clients}
    engine = LocalEngine(workers, CODECS.named(federation.settings.codec))
    done = lead(federation, model, trainable, clients, plan, engine, valid, progress)
    return {**done, **kept}


def lead(
    federation: Federation,
    model: QuestionModel,
    trainable: Trainable,
    clients: Sequence[Client],
    plan: PrivacyPlan | None,
    engine: Engine,
    valid: Sequence[Query],
    progress: Progress,
) -> dict[str, Any]:
    """The server's side of a run, for any engine: see train_federated."""
    settings = federation.settings

    def look(state: ServerState) -> dict[str, float]:
        if not valid:
            return {}
        trainable.write(state.weights)
        model.network.eval()
        return mean_over_sources(model.validate, valid, settings.validation_queries)

    numbers = [client.number for client in clients]
    server = Server(settings, numbers, plan, federation.stream(), federation.out / STATE_FILE, federation.digest)
    state = server.train(trainable.read(), engine, look, progress)
    forget_secrets(federation.out)
    trainable.write(state.weights)
    model.network.eval()
    return finish(federation, trainable, state, plan, len(clients))


def finish(
    federation: Federation, trainable: Trainable, state: ServerState, plan: PrivacyPlan | None, clients: int
) -> dict[str, Any]:
    """Write the log of messages, and return the record of the run."""
    if not bool(torch.isfinite(state.weights).all()):
        raise AuditError("the trained weights are no longer finite", "Lower --learning-rate or --clip")
    record: dict[str, Any] = {
        "privacy": plan.claim(state.round).model_dump(mode="json") if plan else None,
        "rounds": state.round,
        "clients": clients,
        "history": state.history,
        "updates": dict(state.tally),
    }
    if federation.mode != "central-dp":
        size = payload_bytes(CODECS.named(federation.settings.codec).encode(state.weights))
        back = 8 * trainable.size if federation.secure else size
        communication.write_log(federation.out, state.taken, size, back)
        count = 2 * sum(len(taken) for taken in state.taken)
        record["communication"] = communication.summary(count, size, trainable.bytes_with_aliases, back)
    return record


def forget_secrets(folder: Path) -> None:
    """Remove what must not outlive the last round: key, sums without noise, pages, and partial files of these."""
    for name in (KEY_FILE, partial.FILE, PAGES_FILE, STATE_FILE):
        left = folder.glob(f".{name}.*.part")
        whole = [] if name == STATE_FILE else [folder / name]
        for path in (*left, *whole):
            path.unlink(missing_ok=True)
