"""Which node is which client."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from flwr.app import Message

from pfl_audit.errors import AuditError
from pfl_audit.progress import Progress
from pfl_audit.training.federated.flower.messenger import Messenger
from pfl_audit.training.federated.flower.provider_overlap import require_disjoint
from pfl_audit.training.federated.flower.round_config import CANARIES, JOIN, question, read_question

_PAUSE = 0.5


class Nodes:
    """The clients that have joined.

    A node's id is Flower's and changes when its SuperNode starts again; the number is ours.

    Args:
        wait: For how long, in seconds.
        quorum: How many are enough to begin once the wait is over, or 0 for all.
        progress: Shows who has joined.

    Attributes:
        canaries: Maps a client to its part of the canaries, which it is sent once it has joined; None without.
        commitments: Client to its commitment to its data.
        providers: Client to the number of its providers; private clients do not say it.
    """

    def __init__(
        self, messenger: Messenger, run: str, clients: int, wait: float, progress: Progress, quorum: int = 0
    ) -> None:
        self._messenger = messenger
        self._run = run
        self._clients = clients
        self._wait = wait
        self._enough = quorum or clients
        self._progress = progress
        self._nodes: dict[int, int] = {}
        self._marks: dict[int, list[str]] = {}
        self.canaries: Callable[[int], dict[str, Any]] | None = None
        self.commitments: dict[int, str] = {}
        self.providers: dict[int, int] = {}

    def number(self, node: int) -> int:
        """Which client a node is."""
        return next(number for number, known in self._nodes.items() if known == node)

    def of(self, clients: Iterable[int]) -> list[int]:
        """Nodes of these clients; waits for those that are away.

        Raises:
            AuditError: They do not come, or are not as they were.
        """
        wanted = list(clients)
        if not {self._nodes.get(client) for client in wanted} <= self._messenger.nodes():
            self.join()
        return [self._nodes[client] for client in wanted]

    def present(self, clients: Iterable[int]) -> dict[int, int]:
        """Those of these clients that are there now, with their nodes; waits for none of them.

        Raises:
            AuditError: Two have the same provider.
        """
        try:
            self._look(wait=False)
        except AuditError as error:
            self._progress.say(f"warning: a node takes no part: {error.problem}")
        require_disjoint(self._marks)
        return {client: self._nodes[client] for client in clients if client in self._nodes}

    def join(self) -> None:
        """Wait until every client is there, or for some time until a quorum is, and ask each who it is.

        Raises:
            AuditError: A client is missing or refuses, or two have the same number or the same provider.
        """
        end, joined = time.monotonic() + self._wait, -1
        while True:
            self._look()
            if len(self._nodes) != joined:
                joined = len(self._nodes)
                self._progress.say(f"{joined} of {self._clients} clients have joined")
            late = time.monotonic() > end
            if joined == self._clients or (late and joined >= self._enough):
                require_disjoint(self._marks)
                return
            if late:
                away = ", ".join(str(n) for n in range(self._clients) if n not in self._nodes)
                raise AuditError(
                    f"client {away} has not joined within {self._wait:g} s",
                    "Start its SuperNode with that partition-id, then the run again: it goes on",
                )
            time.sleep(_PAUSE)

    def _look(self, *, wait: bool = True) -> None:
        """Forget nodes that are gone, ask new ones who they are, and send them their canaries.

        Args:
            wait: Whether all of them are needed; else a node that fails keeps no other from taking part.
        """
        here = self._messenger.nodes()
        self._nodes = {number: node for number, node in self._nodes.items() if node in here}
        new = here - set(self._nodes.values())
        failed: list[AuditError] = []

        def fail(node: int, error: AuditError) -> None:
            self._nodes = {number: known for number, known in self._nodes.items() if known != node}
            if wait:
                raise error
            failed.append(error)

        def ask(kind: str, said: Mapping[int, dict[str, Any]], take: Callable[[Message], None]) -> None:
            messages = [Message(question({"run": self._run, **said[node]}), node, kind) for node in sorted(said)]
            for answer in self._messenger.ask(messages, fail, -1 if wait else 0, self._wait):
                try:
                    take(answer)
                except AuditError as error:
                    fail(answer.metadata.src_node_id, error)

        ask(JOIN, {node: {} for node in new}, self._join)
        if (part := self.canaries) is not None:
            joined = {node: part(number) for number, node in self._nodes.items() if node in new}
            ask(CANARIES, joined, lambda _: None)
        if failed:
            raise failed[0]

    def _join(self, answer: Message) -> None:
        try:
            said = read_question(answer.content)
            number, marks = int(said["number"]), [str(mark) for mark in said["marks"]]
            commitment, providers = str(said["commitment"]), int(said.get("providers", 0))
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise AuditError(
                "a node does not say which client it is", "Install the same version of pfl-audit everywhere"
            ) from error
        self._take(answer.metadata.src_node_id, number, commitment)
        self._marks[number] = marks
        if "providers" in said:
            self.providers[number] = providers

    def _take(self, node: int, number: int, commitment: str) -> None:
        if number in self._nodes:
            raise AuditError(
                f"two nodes say that they are client {number}",
                "Give every SuperNode a partition-id of its own; one that was started again needs a minute",
            )
        if not 0 <= number < self._clients:
            raise AuditError(
                f"a node says that it is client {number}, and clients are 0 to {self._clients - 1}",
                "Correct its partition-id, or --clients",
            )
        if self.commitments.setdefault(number, commitment) != commitment:
            raise AuditError(f"client {number} holds other data than before", "Give it the data that it began with")
        self._nodes[number] = node
        self._messenger.names[node] = f"client {number}"
