"""Reads the words and coordinates of every message, and counts them against the pages of other companies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace

from pydantic import TypeAdapter

from pfl_audit.attacks.inversion.analytic.limits import Cause, Limit
from pfl_audit.attacks.inversion.bag import lower_share, named_of
from pfl_audit.attacks.inversion.bag_readers import Bag, Items, reader_of
from pfl_audit.attacks.inversion.controls import FILLINGS, Counts, noise_like
from pfl_audit.attacks.inversion.rounds.opened import RoundContext, Sent
from pfl_audit.errors import NotAuditableError
from pfl_audit.files import sha256_json

_VERSION = 2
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
    with context.progress.task("messages", len(context.sent)) as task:
        for sent in context.sent:
            bag, quiet = _bags(context, sent)
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
            task.advance()
    if not found:
        raise NotAuditableError(
            "without the corpus of the training nothing can be scored; what came back lies in private/", "Give --data"
        )
    return found


def _bags(context: RoundContext, sent: Sent) -> tuple[Bag, Items]:
    """What a message shows, and what noise of its size does."""
    parts = [_VERSION, context.model.fingerprint, *sent.key, sent.seen.steps, context.seed]
    key = sha256_json(["inversion", "messages", *parts])
    stored = context.records.get(key)
    if stored is not None:
        known = _RECORD.validate_python(stored)
    else:
        reader, rng = reader_of(context.model), context.rng("inversion", "noise", sent.seen.name)
        bag = reader.read(sent.seen)
        quiet = reader.read(replace(sent.seen, gradient=noise_like(sent.seen.gradient, rng)))
        known = _Record(_listed(bag.items), _listed(quiet.items), [(str(one.cause), one.words) for one in bag.limits])
        context.records.put(key, asdict(known))
    limits = tuple(Limit(Cause(cause), words) for cause, words in known.limits)
    return Bag(_sets(known.items), limits), _sets(known.noise)


@dataclass(frozen=True)
class _Record:
    """What is stored of a message."""

    items: dict[str, list[int]]
    noise: dict[str, list[int]]
    limits: list[tuple[str, str]]


_RECORD = TypeAdapter(_Record)


def _listed(items: Items) -> dict[str, list[int]]:
    return {name: sorted(some) for name, some in items.items()}


def _sets(items: Mapping[str, list[int]]) -> Items:
    return {name: frozenset(some) for name, some in items.items()}
