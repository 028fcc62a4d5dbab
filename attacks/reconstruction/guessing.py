"""How many fillings of a field an attacker tries before the right one, likeliest first.

The attacker tries fillings of the whole field in the order of their likelihood under a procedure: the product of the
likelihoods of their tokens, over the candidates of each step. A field is put back within k guesses if fewer than k
other fillings are at least as likely as the true one. The count is exact, by branch and bound: a prefix that is
less likely than the whole truth has no filling that counts, and is dropped; every other one is expanded once. The truth
is used to stop early, never to choose a filling, so the count is that of a best-first search that returns the first k.
The search of a field is cut off after so many expansions; then the count is a lower bound, and says so.

Source: probabilistic discoverable extraction (Hayes et al. 2024) asks the same of n samples, and k guesses are their
deterministic counterpart. The likelihoods are those of cdmi-reconstruction, Algorithm 2.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial

import numpy as np
from pydantic import JsonValue, TypeAdapter, ValidationError

from pfl_audit.attacks.guesses.field import Rank
from pfl_audit.attacks.reconstruction.calls import Held
from pfl_audit.attacks.reconstruction.plan import Truth
from pfl_audit.attacks.reconstruction.proposals import Candidates, Kind, Proposer
from pfl_audit.attacks.reconstruction.search import chunks, held_by
from pfl_audit.core.store import Records
from pfl_audit.files import sha256_json
from pfl_audit.metrics.arrays import Floats, Integers
from pfl_audit.models.calls import Calls, InTurn, taken
from pfl_audit.models.form_protocol import Attempt, Blank
from pfl_audit.progress import Progress, Task
from pfl_audit.version import __version__

_AT_ONCE = 4
"""Prefixes of a field that are expanded together; other fields do not change them."""


_RANK = TypeAdapter(Rank)


def rank_truths(
    fields: Sequence[tuple[Blank, Truth]],
    proposer: Proposer,
    guesses: int,
    expansions: int,
    *,
    progress: Progress,
    keep: Records | None = None,
    label: str = "",
    calls: Calls[Held] | None = None,
) -> list[Rank]:
    """Place of the true value of each field among all of its fillings.

    The place depends on the models, the settings, the form and the field; not on the other fields.

    Args:
        fields: Blank and truth; no field twice.
        guesses: Where the counting ends: a truth with as many fillings before it is not put back.
        expansions: Prefixes after which the search of a field is cut off.
        keep: Memory of earlier runs.
        label: Name of the fields in the progress.
        calls: What holds the procedures; this process where not given.

    Raises:
        AuditError: A model says something that is not a number.
    """
    keys = [_key(blank, proposer, guesses, expansions) for blank, _ in fields]
    known = {key: rank for key in keys if keep is not None and (rank := _kept(keep.get(key))) is not None}
    pending = {key: field for key, field in zip(keys, fields, strict=True) if key not in known}
    name = f"{guesses} guesses, {proposer.name} {label}".strip()
    begun = time.monotonic()
    with progress.task(name, len(fields), len(fields) - len(pending)) as task:
        some = list(chunks([(key, blank) for key, (blank, _) in pending.items()]))
        units = list(map(len, some))
        works = [
            partial(_rank_by, [pending[key] for key, _ in chunk], proposer.kind, guesses, expansions) for chunk in some
        ]
        for at, ranks in taken(calls or InTurn({proposer.kind: proposer}), works, _are_ranks, task, units):
            for (key, _), rank in zip(some[at], ranks, strict=True):
                known[key] = rank
                if keep is not None:
                    keep.put(key, asdict(known[key]))
    if pending:
        count, spent = sum(known[key].expanded for key in pending), time.monotonic() - begun
        progress.say(f"{name}: {count:,} expansions of {len(pending)} fields, {count / max(spent, 1e-9):,.0f} a second")
    return [known[key] for key in keys]


def _rank_by(
    fields: Sequence[tuple[Blank, Truth]], kind: Kind, guesses: int, expansions: int, by: Held, task: Task
) -> list[Rank]:
    searches = [_Search(blank, truth, guesses, expansions) for blank, truth in fields]
    _search(searches, by[kind], task)
    return [search.rank() for search in searches]


def _are_ranks(found: object) -> bool:
    return isinstance(found, list) and all(isinstance(rank, Rank) for rank in found)


class _Search:
    """Branch and bound over the fillings of one field.

    The truth's own prefixes come first, which give its likelihood; then, of the others, the longest first and of
    equally long ones the likeliest, since a filling is counted when its last token is asked for.
    """

    def __init__(self, blank: Blank, truth: Truth, guesses: int, expansions: int) -> None:
        self.blank, self._truth = blank, truth
        self._guesses, self._expansions = guesses, expansions
        self._level = 0.0
        """Logarithm of the likelihood of the truth, as far as it is known."""
        self._path: list[tuple[float, Candidates]] = []
        self._queue: list[tuple[int, float, tuple[int, ...], int, Integers, Floats]] = []
        """Children of expanded prefixes, a row each: minus the length, minus the log-likelihood, prefix, place of the
        next child, tokens and log-likelihoods of all, likeliest first."""
        self._levels: dict[tuple[int, ...], float] = {}
        """Log-likelihoods of prefixes that are being expanded."""
        self._before = self._expanded = 0
        self._lost = False

    def next(self) -> list[tuple[int, ...]]:
        """Prefixes to expand now; none where the search has ended."""
        if self._lost or self._before >= self._guesses or self._expanded >= self._expansions:
            return []
        if len(self._path) < self.blank.length:
            return [self._truth[: len(self._path)]]
        prefixes: list[tuple[int, ...]] = []
        while self._queue and len(prefixes) < min(_AT_ONCE, self._expansions - self._expanded):
            length, _, prefix, at, tokens, logs = heapq.heappop(self._queue)
            prefixes.append((*prefix, int(tokens[at])))
            self._levels[prefixes[-1]] = float(logs[at])
            if at + 1 < len(tokens):
                heapq.heappush(self._queue, (length, -float(logs[at + 1]), prefix, at + 1, tokens, logs))
        return prefixes

    def take(self, prefix: tuple[int, ...], proposal: Candidates) -> None:
        """Count and queue what follows a prefix."""
        self._expanded += 1
        if len(self._path) < self.blank.length:
            self._follow(proposal)
            return
        self._branch(prefix, self._levels.pop(prefix), proposal, None)

    def rank(self) -> Rank:
        """Place of the truth."""
        if self._lost:
            return Rank(self._guesses, False, self._expanded)
        open_ = len(self._path) < self.blank.length or bool(self._queue) or bool(self._levels)
        before = min(self._before, self._guesses)
        return Rank(before, open_ and before < self._guesses, self._expanded)

    def _follow(self, proposal: Candidates) -> None:
        """One more token of the truth; after the last, what branches off its path is counted and queued."""
        step = len(self._path)
        self._path.append((self._level, proposal))
        place = np.flatnonzero(proposal.tokens == self._truth[step])
        log = float(proposal.log_target[place[0]]) if len(place) else -np.inf
        self._lost = not np.isfinite(log)
        self._level += log
        if self._lost or len(self._path) < self.blank.length:
            return
        for at, (level, followed) in enumerate(self._path):
            self._branch(self._truth[:at], level, followed, self._truth[at])

    def _branch(self, prefix: tuple[int, ...], level: float, proposal: Candidates, without: int | None) -> None:
        logs = level + proposal.log_target
        kept = np.flatnonzero((logs >= self._level) & (proposal.tokens != (-1 if without is None else without)))
        if len(prefix) + 1 == self.blank.length:
            self._before += len(kept)
        elif len(kept):
            order = kept[np.argsort(-logs[kept], kind="stable")]
            tokens, logs = proposal.tokens[order], logs[order]
            heapq.heappush(self._queue, (-len(prefix), -float(logs[0]), prefix, 0, tokens, logs))


def _search(searches: Sequence[_Search], proposer: Proposer, task: Task) -> None:
    """All searches to their end, in lock-step: what is asked at one step of a field is one call."""
    going = list(searches)
    while going:
        asked: dict[int, list[tuple[_Search, tuple[int, ...]]]] = {}
        left = []
        for search in going:
            prefixes = search.next()
            left += [search] if prefixes else []
            for prefix in prefixes:
                asked.setdefault(len(prefix), []).append((search, prefix))
        for step, pairs in asked.items():
            proposals = proposer.weigh([Attempt(search.blank, prefix) for search, prefix in pairs], step)
            for (search, prefix), proposal in zip(pairs, proposals, strict=True):
                search.take(prefix, proposal)
        task.advance(len(going) - len(left))
        going = left


def _key(blank: Blank, proposer: Proposer, guesses: int, expansions: int) -> str:
    """Content of everything that decides the place of a field's truth, which is part of its form."""
    return sha256_json([__version__, "cdmi guesses", *proposer.identity, guesses, expansions, held_by(blank)])


def _kept(found: Mapping[str, JsonValue] | None) -> Rank | None:
    """A place as it was kept, or None where it is none."""
    try:
        rank = _RANK.validate_python(found)
    except ValidationError:
        return None
    return rank if rank.before >= 0 and rank.expanded >= 0 else None
