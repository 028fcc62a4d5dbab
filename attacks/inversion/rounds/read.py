"""Reads the words and coordinates of every message, and counts them against the pages of other companies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace

import numpy as np
from pydantic import TypeAdapter
from torch import Tensor

from pfl_audit.attacks.inversion.analytic.limits import Cause, Limit
from pfl_audit.attacks.inversion.bag import lower_share, named_of
from pfl_audit.attacks.inversion.bag_readers import Bag, Items, reader_of
from pfl_audit.attacks.inversion.context import Observation
from pfl_audit.attacks.inversion.controls import FILLINGS, Counts, noise_like
from pfl_audit.attacks.inversion.rounds.opened import RoundContext, Sent
from pfl_audit.errors import NotAuditableError
from pfl_audit.files import sha256_json
from pfl_audit.models.calls import InTurn, taken
from pfl_audit.models.gradient_protocol import GradientModel
from pfl_audit.progress import Task

_VERSION = 8
"""Incremented whenever a message is read in another way."""


@dataclass(frozen=True)
class ReadMessage:
    """Result on one message.

    Attributes:
        found: Measure to how many came back, how many there are, and how many were named.
        counts: The same as one share, the lower of precision and recall: of the own pages, then of other companies'.
        noise: The same, of Gaussian noise of the message's size, against the own pages.
        limits: Why something may be missing.
    """

    sent: Sent
    found: Mapping[str, tuple[int, int, int]]
    counts: Mapping[str, Counts]
    noise: Mapping[str, Counts]
    limits: tuple[Limit, ...]


def read_messages(context: RoundContext) -> list[ReadMessage]:
    """Read every message; what was read before is taken from the store.

    Raises:
        NotAuditableError: The model has no tables that are looked up, or no corpus is at hand to score by.
        AuditError: A message holds nothing of the tables.
    """
    pages, found = context.pages, []
    permutations = None if pages is None else pages.permutations(FILLINGS, context.rng("inversion", "companies"))
    for sent, bag, quiet in _bags(context):
        if pages is None or permutations is None or sent.rows is None:
            context.evidence.keep_json(f"messages-{sent.seen.stem}", named_of(context.model, bag))
        elif len(sent.rows):  # else it is noise alone
            rows = pages.counts(bag.items, sent.rows, permutations)
            of_noise = pages.counts(quiet, sent.rows, permutations[:0])
            found.append(
                ReadMessage(
                    sent,
                    {name: (int(own[0]), int(own[1]), int(own[2])) for name, (own, *_) in rows.items()},
                    {name: lower_share(one) for name, one in rows.items()},
                    {name: lower_share(one) for name, one in of_noise.items()},
                    bag.limits,
                )
            )
    if not found:
        raise NotAuditableError(
            "without the corpus of the training nothing can be scored; what came back lies in private/", "Give --data"
        )
    return found


def _bags(context: RoundContext) -> Iterator[tuple[Sent, Bag, Items]]:
    """What each message shows, and what noise of its size does, in the order of the messages."""
    keys = [_key(context, sent) for sent in context.sent]
    known = {at: stored for at, key in enumerate(keys) if (stored := context.records.get(key)) is not None}
    new = [at for at in range(len(keys)) if at not in known]
    calls = context.reading if context.reading is not None else InTurn(context.model)
    with context.progress.task("messages", len(keys), len(known)) as task:
        works = [_Read(seen := context.sent[at].seen, context.rng("inversion", "noise", seen.name)) for at in new]
        for number, record in taken(calls, works, _is_record, task, [1] * len(new)):
            context.records.put(keys[new[number]], asdict(record))
            known[new[number]] = asdict(record)
    for at, sent in enumerate(context.sent):
        record = _RECORD.validate_python(known[at])
        limits = tuple(sent.restated(Limit(Cause(cause), words)) for cause, words in record.limits)
        yield sent, Bag(_sets(record.items), limits), _sets(record.noise)


def _key(context: RoundContext, sent: Sent) -> str:
    return sha256_json(
        ["inversion", "messages", _VERSION, context.model.fingerprint, *sent.key, sent.seen.steps, context.seed]
    )


@dataclass(frozen=True)
class _Record:
    """What is stored of a message."""

    items: dict[str, list[int]]
    noise: dict[str, list[int]]
    limits: list[tuple[str, str]]


_RECORD = TypeAdapter(_Record)


@dataclass(frozen=True, eq=False)
class _Read:
    """The call that reads a message, and noise of its size.

    Attributes:
        rng: Draws the noise.
    """

    seen: Observation
    rng: np.random.Generator

    def __call__(self, model: GradientModel, task: Task) -> _Record:
        own: dict[str, Tensor] = {name: part.detach().cpu() for name, part in model.network.named_parameters()}
        # Each tensor is read from its file once: a message and the model of its round fit into memory, all do not.
        seen = replace(self.seen, gradient=dict(self.seen.gradient), weights=own | dict(self.seen.weights or {}))
        reader = reader_of(model)
        bag = reader.read(seen)
        quiet = reader.read(replace(seen, gradient=noise_like(seen.gradient, self.rng)))
        return _Record(_listed(bag.items), _listed(quiet.items), [(str(one.cause), one.words) for one in bag.limits])


def _is_record(found: object) -> bool:
    return isinstance(found, _Record)


def _listed(items: Items) -> dict[str, list[int]]:
    return {name: sorted(some) for name, some in items.items()}


def _sets(items: Mapping[str, list[int]]) -> Items:
    return {name: frozenset(some) for name, some in items.items()}
