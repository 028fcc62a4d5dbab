"""Questions to nodes and their answers, over Flower's grid."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator

from flwr.app import Message
from flwr.serverapp import Grid

from pfl_audit.errors import AuditError
from pfl_audit.training.federated.flower.refusal import as_error

_PAUSE = 0.05
Absent = Callable[[int, AuditError], None]
"""Is given a node that fails and why; it raises where the answers cannot do without that node."""


def _stop(node: int, error: AuditError) -> None:
    raise error


class Messenger:
    """Sends messages and hands on the answers as they come.

    Flower's own ``send_and_receive`` looks once in three seconds, and returns fewer answers than it was
    asked for when time is up.

    Args:
        grid: Flower's way to the nodes.
        timeout: Longest time until all answers are in, in seconds.

    Attributes:
        names: Node to what an error calls it.
    """

    def __init__(self, grid: Grid, timeout: float) -> None:
        self._grid = grid
        self._timeout = timeout
        self.names: dict[int, str] = {}

    def nodes(self) -> set[int]:
        """Nodes that are there now."""
        return set(self._grid.get_node_ids())

    def ask(
        self, messages: Iterable[Message], absent: Absent = _stop, enough: int = -1, grace: float = 0.0
    ) -> Iterator[Message]:
        """Send messages, and yield each answer once it is there.

        Args:
            absent: By default the first node that fails, or is late, stops everything.
            enough: Number of answers after which the rest has ``grace`` seconds more at the most; -1 for all.

        Raises:
            AuditError: A node answers with an error, or not in time.
        """
        asked = list(messages)
        if not asked:
            return
        nodes = {name: message.metadata.dst_node_id for name, message in zip(self._push(asked), asked, strict=True)}
        begin = time.monotonic()
        end, answered = begin + (self._timeout if enough else grace), 0
        while nodes:
            answers = list(self._grid.pull_messages(list(nodes)))
            for answer in answers:
                node = nodes.pop(answer.metadata.reply_to_message_id)
                if answer.has_error():
                    absent(node, as_error(answer.error, self.names.get(node, "a node")))
                    continue
                answered += 1
                if answered == enough:
                    end = min(end, time.monotonic() + grace)
                yield answer
            if nodes and not answers:
                if time.monotonic() > end:
                    late = ", ".join(sorted(self.names.get(node, "a node") for node in nodes.values()))
                    error = AuditError(
                        f"no answer from {late} within {end - begin:.3g} s",
                        "Look at the log of its SuperNode, then start the run again: it goes on",
                    )
                    for node in nodes.values():
                        absent(node, error)
                    return
                time.sleep(_PAUSE)

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> list[Message]:
        """The same, all at once, as Flower's workflows call it; the timeout is the messenger's."""
        return list(self.ask(messages))

    def _push(self, messages: list[Message]) -> list[str]:
        return list(self._grid.push_messages(messages))
