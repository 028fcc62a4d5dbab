"""A Flower client: its data, its initial checkpoint, and its rounds."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import torch
from flwr.app import Context
from torch import Tensor

from pfl_audit.documents.corpus import Corpus
from pfl_audit.errors import UsageError
from pfl_audit.privacy.units import PrivacyUnit
from pfl_audit.training.canaries import in_pairs
from pfl_audit.training.federated.clients import Client, own_part, unit_name
from pfl_audit.training.federated.flower.agreement import Agreement, start_fingerprint
from pfl_audit.training.federated.flower.canary_part import CanaryPart, canaries_of
from pfl_audit.training.federated.flower.client_state import ClientState
from pfl_audit.training.federated.flower.config import ClientConfig
from pfl_audit.training.federated.flower.opened import corpus_of, model_from, open_worker, training_queries
from pfl_audit.training.federated.flower.provider_overlap import provider_marks
from pfl_audit.training.federated.flower.refusal import RefusalError
from pfl_audit.training.federated.flower.round_config import RoundConfig
from pfl_audit.training.federated.messages import Report
from pfl_audit.training.federated.plan import PrivacyPlan
from pfl_audit.training.parts import places, split_queries
from pfl_audit.training.run import refuse_trained_start


class FlowerClient:
    """A client of a federated run.

    Args:
        context: Flower's: settings of the run and of the node.
        run: Id of the run, from the server.

    Raises:
        RefusalError: The node was started without what it needs.
        UsageError: The app's settings cannot be read.
    """

    def __init__(self, context: Context, run: str) -> None:
        self.agreement = Agreement.from_config(context.run_config)
        self.config = ClientConfig.of(context.node_config, context.run_config)
        self.state = ClientState(self.config.work, run)
        self._run = run

    def join(self) -> dict[str, Any]:
        """Check that everything is as agreed.

        Returns:
            Number of the client, commitment to its data, and marks of its providers; without privacy also how many
            there are.

        Raises:
            RefusalError: It is not.
        """
        if not 0 <= self.config.number < self.agreement.clients:
            raise RefusalError(
                f"there are clients 0 to {self.agreement.clients - 1} only", "Correct its partition-id, or --clients"
            )
        if start_fingerprint(self.config.start) != self.agreement.start:
            raise RefusalError("its start is another checkpoint than the run's", "Give it a copy of the server's")
        self._require_cap()
        self._require_secret_noise()
        self._require_canaries_cap()
        counted = {"providers": len(self._client().providers)}
        if self.agreement.privacy is not None:
            try:
                planted = canaries_of(self.agreement, self.config.number) if in_pairs(self.agreement.privacy) else 0
                self.agreement.privacy.require_providers(self.config.number, counted["providers"] + planted)
            except UsageError as error:
                raise RefusalError("it has fewer providers than the agreed minimum", error.remedy) from error
            try:
                refuse_trained_start(
                    self.config.start, corpus_of(self.config.data).digest, self.config.budget, self._units
                )
            except UsageError as error:
                raise RefusalError("the start was trained on its very documents", error.remedy) from error
        self.state.begin(
            {
                "settings": self.agreement.digest,
                "data": self._own.digest,
                "places": places(self._own),
                **counted,
                "sigma": self._plan.mechanism.noise.multiplier if self._plan else 0.0,
            }
        )
        if self.agreement.canaries is None:  # else once it knows which canaries are its providers
            self._reserve()
        marks = provider_marks(self.config.roll, self._names)
        answer = {"number": self.config.number, "commitment": self.state.commitment, "marks": marks}
        return answer if self.agreement.privacy else answer | counted

    def take_canaries(self, sent: dict[str, Any]) -> None:
        """Take its part of the canaries, and reserve the budget of a private run for them and its own providers.

        Args:
            sent: From the server: salt, commitment, and numbers of the canaries.

        Raises:
            RefusalError: It is not as agreed, or other than before.
        """
        self._require_canaries_cap()
        part = CanaryPart.read(sent, self.agreement, self.config.number)
        self.state.take(part.to_dict(), self.agreement)
        self._reserve()

    def _require_canaries_cap(self) -> None:
        """A client trains on nothing but its own documents unless it was started to."""
        most, cap = canaries_of(self.agreement, self.config.number), self.config.canaries_cap
        if most > cap and not self.config.simulated:
            raise RefusalError(
                f"the run may plant {most} canaries among its providers, and its audit-canaries-cap is {cap}",
                f"Start its SuperNode with audit-canaries-cap={most} in --node-config, or leave out --audit-canaries",
            )

    def _require_cap(self) -> None:
        """Whoever leads the server begins runs, and decides their privacy: a client's own cap bounds what they cost."""
        config = self.config
        if self.agreement.privacy is None and config.budget_cap is not None:
            raise RefusalError("it has a budget-cap, and the run has no privacy", "Begin a run of mode fl-dp")
        if self.agreement.privacy and not config.simulated and config.budget_cap is None and config.budget.cap is None:
            raise RefusalError(
                "it has no budget-cap, so that one run after another could spend the privacy of its providers",
                "Start its SuperNode with budget-cap=10 or another epsilon in --node-config",
            )

    def _require_secret_noise(self) -> None:
        privacy, config = self.agreement.privacy, self.config
        if privacy and privacy.noise_seed is not None and not (config.simulated or config.repeatable_noise):
            raise RefusalError(
                "the run's noise has a seed that its server knows, and could take away",
                "Begin a run without it, or, without private data, start its SuperNode with repeatable-noise=true",
            )

    def _reserve(self) -> None:
        """Reserve the budget of a private run in the client's own ledger, once."""
        ledger, run = self.config.budget, self.state.commitment
        if self.agreement.privacy is None or ledger.holds(run) or (plan := self._plan) is None:
            return
        try:
            queries = training_queries(self.agreement, self.config, self._run, self._canaries, "")
            own = [query for query in queries if query.document.client == self.config.number]
            names = {unit_name(query, self._unit) for query in own}
            ledger.reserve(run, names, plan.mechanism.cost(plan.settings.delta), self.config.budget_cap)
        except UsageError as error:
            raise RefusalError("its budget ledger refuses the run", "Its SuperNode's log says why") from error

    def work(self, order: RoundConfig, weights: Tensor) -> Report:
        """One round.

        Raises:
            RefusalError: The server asks for more than was agreed.
            AuditError: The first report left a trainable tensor as it was, or moved a frozen one.
        """
        self.state.permit(order, self.agreement)
        if self.agreement.privacy is not None:
            self.state.answer_once(order, weights)
            self._reserve()  # a client that was refused when it joined does not work either
        weights = model_from(self.agreement, self.config, order, weights)
        canaries = self._canaries
        client = self._client(order.phase, canaries)
        worker = open_worker(self.agreement, self.config, self._run, self.state.sigma, client, canaries, order.phase)
        report = worker.report(order.number, self.agreement.noise_shares(order.participants), weights, lambda _: None)
        self.state.note(order, report)
        return report

    @cached_property
    def _own(self) -> Corpus:
        """Its data without training documents of other clients."""
        return corpus_of(self.config.data).where(
            lambda query: query.document.client == self.config.number or "train" not in query.document.split
        )

    @property
    def _names(self) -> set[str]:
        return {query.document.provider for query in split_queries(self._own)[0]}

    @property
    def _units(self) -> set[str]:
        return {unit_name(query, self._unit) for query in split_queries(self._own)[0]}

    @property
    def _unit(self) -> PrivacyUnit:
        return self.agreement.privacy.unit if self.agreement.privacy else "provider"

    @property
    def _canaries(self) -> CanaryPart | None:
        kept = self.state.canaries
        return None if kept is None else CanaryPart.read(kept, self.agreement, self.config.number)

    def _client(self, phase: str = "", canaries: CanaryPart | None = None) -> Client:
        """Its providers and canaries, with rows among the training queries of a phase."""
        queries = training_queries(self.agreement, self.config, self._run, canaries, phase)
        private = self.agreement.privacy is not None
        client = own_part(queries, self.config.number, disjoint=private, unit=self._unit)
        if client is None:
            raise RefusalError("its data hold no training document of its own", "Correct its data or partition-id")
        return client

    @cached_property
    def _plan(self) -> PrivacyPlan | None:
        """Noise and cost of all phases by this client's own calculation, or None without privacy."""
        return self.agreement.plan()


def secure_vector(report: Report, *, private: bool, reach: float) -> Tensor:
    """What a client puts into a secure sum, float64: without privacy with one number more, 1 for a usable update.

    Raises:
        RefusalError: A coordinate is out of reach and would be cut off without a word.
    """
    vector = report.update.to(torch.float64)
    if not bool((vector.abs() < reach).all()):  # a NaN is refused as well
        raise RefusalError("its update is too large for a secure sum", "Lower --learning-rate, or leave out --secagg")
    return vector if private else torch.cat([vector, torch.tensor([float(report.tally["kept"])], dtype=torch.float64)])
