"""Flower's grid in this process: a message is a call of the ClientApp, one node after another."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from flwr.app import Context, Error, Message, RecordDict
from flwr.serverapp import Grid
from flwr.supercore.run import Run
from flwr.supercore.task_identity import TaskIdentity

from pfl_audit.training.federated.flower.client_app import app

Watch = Callable[[Message], None]


class LocalGrid(Grid):
    """Nodes 1000, 1001, ... with these configurations.

    ``watch`` sees every message on its way and may raise; nodes in ``dead`` never answer.
    """

    def __init__(self, nodes: Iterable[Mapping[str, Any]], run_config: Mapping[str, Any], watch: Watch | None = None):
        TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 1, 1
        self.set_run(Run.create_empty(1))
        self._replies: dict[str, Message] = {}
        self._sent = 0
        self.watch = watch or (lambda message: None)
        self.dead: set[int] = set()
        self.contexts = {
            1000 + at: Context(
                run_id=1, node_id=1000 + at, node_config=dict(node), state=RecordDict(), run_config=dict(run_config)
            )
            for at, node in enumerate(nodes)
        }

    def set_run(self, run: Run) -> None:
        self._run = run

    @property
    def run(self) -> Run:
        return self._run

    def create_message(self, *arguments: Any, **named: Any) -> Message:
        raise AssertionError("our engine makes its messages and asks for answers by itself")

    def get_node_ids(self) -> list[int]:
        return list(self.contexts)

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        names = []
        for message in messages:
            self._sent += 1
            names.append(f"m{self._sent}")
            message.metadata.__dict__["_message_id"] = names[-1]
            self.watch(message)
            if message.metadata.dst_node_id in self.dead:
                continue
            try:  # a copy, as over a wire: modifiers pop from what they get
                reply = app(copy.deepcopy(message), self.contexts[message.metadata.dst_node_id])
            except Exception as error:  # as a SuperNode would
                reply = Message(Error(code=2, reason=repr(error)), reply_to=message)
            self.watch(reply)
            self._replies[names[-1]] = reply
        return names

    def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
        return [self._replies.pop(name) for name in list(message_ids) if name in self._replies]

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> list[Message]:
        raise AssertionError("our engine makes its messages and asks for answers by itself")
