"""Asking a model many questions: each once, in batches of similar length or several at once, and never again."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import islice
from typing import TypeVar

from pfl_audit.attacks.questions.calls import (
    UNANSWERABLE,
    are_guesses,
    checked,
    form_batches,
    guesses,
    is_response,
    is_score,
    kept_guesses,
    responses,
    scores,
    scores_of,
)
from pfl_audit.core.sharding import Awaited, Share
from pfl_audit.core.store import Records, ResponseStore
from pfl_audit.documents.corpus import Problem
from pfl_audit.documents.document import Query
from pfl_audit.errors import UnanswerableError
from pfl_audit.files import sha256_json
from pfl_audit.models.calls import Call, Calls, InTurn
from pfl_audit.models.protocol import (
    CandidateModel,
    Capability,
    ConcurrentModel,
    DocumentModel,
    FieldModel,
    Guess,
    GuessingModel,
    Response,
    Score,
)
from pfl_audit.progress import Progress, Silent
from pfl_audit.version import __version__

T = TypeVar("T")


@dataclass
class Answers:
    """Responses by query id.

    Attributes:
        responses: Of the queries that could be answered.
        problems: The queries that could not, with the reason.
    """

    responses: dict[str, Response] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    @property
    def texts(self) -> dict[str, str]:
        """Query id to what was answered."""
        return {name: response.answer for name, response in self.responses.items()}

    def __getitem__(self, query: Query) -> Response:
        return self.responses[query.id]

    def __contains__(self, query: object) -> bool:
        return isinstance(query, Query) and query.id in self.responses


class QueryEngine:
    """A model with a memory.

    Args:
        store: Where answers are kept.
        calls: What calls the model; in this process where not given.
        share: Which of the batches are asked, and which are left to others; all where not given.
        arithmetic: What distinguishes its answers, as of ``device.arithmetic_of``; it is part of their keys.

    Attributes:
        asked: How many queries, and answers to compare, went to the model.
        reused: How many were answered from the store.
        problems: Every problem so far, once each, in order.
        batch_tokens: Tokens of a batch that memory was found to have room for; None where it has not run out.
    """

    def __init__(
        self,
        model: DocumentModel,
        store: ResponseStore,
        progress: Progress,
        calls: Calls[DocumentModel] | None = None,
        share: Share | None = None,
        arithmetic: Sequence[str] = (),
    ) -> None:
        self.model = model
        self._calls: Calls[DocumentModel] = calls or InTurn(model)
        self._share = share
        self._shared: set[str] = set()
        self._step = 1
        self.asked = 0
        self.reused = 0
        self.problems: dict[Problem, None] = {}
        self._store = store
        self._records = Records(store)
        self._progress = progress
        self.batch_tokens: int | None = None
        self._model = [model.fingerprint, *arithmetic]

    @property
    def capabilities(self) -> frozenset[Capability]:
        """What the model can be asked for."""
        return self.model.capabilities

    def ask(self, queries: Sequence[Query], purpose: str) -> Answers:
        """Answer every query, from the store where the same has been asked before.

        Returns:
            Responses; a query whose page cannot be read becomes a problem. Of a share, responses that cannot be read
            (``Awaited``) until those of the other shares are in the store.
        """
        answers, keys = Answers(), dict[str, str]()
        for query in queries:
            try:
                keys[query.id] = self._key(query)
            except UnanswerableError as error:
                answers.problems.append(Problem(query.document.id, error.reason))
        known = self._store.get(keys.values())
        pending = {keys[query.id]: query for query in queries if query.id in keys and keys[query.id] not in known}
        batches = self._due({keys[query.id]: query for query in queries if query.id in keys}, pending)
        left = {key for batch in batches for key in batch}
        self.reused += len(keys) - len(pending)
        with self._progress.task(purpose, len(keys), len(keys) - len(left)) as task:
            for done, new in self._answered(batches, answers):
                self._store.put(new)
                known |= new
                task.advance(done)
        answers.responses = {query: known[key] for query, key in keys.items() if key in known}
        if self._awaits(pending.keys() - left):
            answers.responses = Awaited()
        self.problems |= dict.fromkeys(answers.problems)
        return answers

    @property
    def compares(self) -> bool:
        """Whether ``candidates`` can be asked."""
        return isinstance(self.model, CandidateModel) and Capability.LOSS in self.capabilities

    def candidates(
        self, values: Mapping[Query, Sequence[str]], purpose: str, *, dropout: bool = False
    ) -> dict[str, list[Score]]:
        """How likely the model takes each of several answers to a question to be.

        Args:
            values: Query to the answers to compare.
            dropout: In training mode, as of ``DropoutModel``.

        Returns:
            Query id to scores in order; a query whose page cannot be read is left out.

        Raises:
            TypeError: The model cannot compare answers.
        """
        kind = "loss with dropout" if dropout else "loss alone"
        found: dict[str, list[Score]] = {}
        due: list[tuple[Query, list[str], dict[str, str]]] = []
        problems, elsewhere = dict[int, Problem](), False
        for at, (query, some) in enumerate(values.items()):
            try:
                keys = [self._key(replace(query, answers=(value,)), kind) for value in some]
            except UnanswerableError as error:
                self.problems[Problem(query.document.id, error.reason)] = None
                continue
            known = self._store.get(keys)
            pending = {key: value for key, value in zip(keys, some, strict=True) if key not in known}
            self.reused += len(keys) - len(pending)
            if pending and self._share is not None and not self._share.has(at):
                elsewhere = elsewhere or self._awaits(pending)
            elif pending:
                due.append((query, keys, pending))
            else:
                found[query.id] = scores_of(known, keys)
        calls = [scores(query, list(pending.values()), dropout=dropout) for query, _, pending in due]
        with self._progress.task(purpose, len(values), len(values) - len(due)) as task:
            for at, given in self._calls.each(calls):
                query, keys, pending = due[at]
                if isinstance(given, UnanswerableError):
                    problems[at] = Problem(query.document.id, given.reason)
                    self._give_up(pending)
                else:
                    self._check(given, len(pending), is_score)
                    self._fit()
                    new = {
                        key: Response("", None, score.loss, score.tokens)
                        for key, score in zip(pending, given, strict=True)
                    }
                    self._store.put(new)
                    self.asked += len(new)
                    found[query.id] = scores_of(self._store.get(keys), keys)
                task.advance(1)
        self.problems |= dict.fromkeys(problems[at] for at in sorted(problems))
        return Awaited() if elsewhere else {query.id: found[query.id] for query in values if query.id in found}

    @property
    def guesses(self) -> bool:
        """Whether ``likely_answers`` can be asked."""
        return isinstance(self.model, GuessingModel) and Capability.GUESSES in self.capabilities

    def likely_answers(self, queries: Sequence[Query], width: int, purpose: str) -> dict[str, list[Guess]]:
        """The likeliest answers to questions by beam search, from the store where the same has been asked before.

        Args:
            queries: Their own answers have no effect.
            width: Width of the beam, and most answers to a question.

        Returns:
            Query id to answers, likeliest first; a query whose page cannot be read is left out.

        Raises:
            TypeError: The model gives one answer only.
        """
        keys: dict[str, str] = {}
        for query in queries:
            try:
                keys[query.id] = self._key(replace(query, answers=("",)), f"{width} likely answers")
            except UnanswerableError as error:
                self.problems[Problem(query.document.id, error.reason)] = None
        found = {key: some for key in keys.values() if (some := kept_guesses(self._records, key, width)) is not None}
        pending = {keys[query.id]: query for query in queries if query.id in keys and keys[query.id] not in found}
        self.reused += len(keys) - len(pending)
        batches = self._due({keys[query.id]: query for query in queries if query.id in keys}, pending, width)
        left = {key for batch in batches for key in batch}
        with self._progress.task(purpose, len(keys), len(keys) - len(left)) as task:
            for at, new in self._asked(batches, partial(guesses, width=width), are_guesses):
                for key, some in new.items():
                    self._records.put(key, {"guesses": [asdict(guess) for guess in some]})
                found |= new
                task.advance(len(batches[at]))
        if self._awaits(pending.keys() - left):
            return Awaited()
        return {query: found[key] for query, key in keys.items() if key in found}

    def _answered(
        self, batches: Sequence[Mapping[str, Query]], answers: Answers
    ) -> Iterator[tuple[int, dict[str, Response]]]:
        """Ask; yields the number of questions that are done, and their responses, before anything more is asked."""
        if not isinstance(self.model, ConcurrentModel):
            for at, new in self._asked(batches, responses, is_response, answers.problems, self._store.get):
                yield len(batches[at]), new
            return
        pending = {key: query for batch in batches for key, query in batch.items()}
        keys = sorted(pending)  # hashes, so that the first ones are a random sample, as an estimate needs
        for at, found in self.model.respond_each([pending[key] for key in keys]):
            if isinstance(found, Response):
                self.asked += 1
                yield 1, {keys[at]: found}
            else:
                answers.problems.append(Problem(pending[keys[at]].document.id, found.reason))
                yield 1, {}

    def _fit(self) -> None:
        """Keep and say what memory was found to have room for."""
        tokens = self._calls.batch_tokens
        if tokens is not None and (self.batch_tokens is None or tokens < self.batch_tokens):
            self.batch_tokens = tokens
            self._progress.say(f"memory ran out: batches of at most {tokens:,} tokens from here on")

    def _asked(
        self,
        batches: Sequence[Mapping[str, Query]],
        call: Callable[[Sequence[Query]], Call[DocumentModel, list[T]]],
        is_one: Callable[[object], bool],
        problems: list[Problem] | None = None,
        stored: Callable[[Iterable[str]], dict[str, T]] | None = None,
    ) -> Iterator[tuple[int, dict[str, T]]]:
        """The number of each batch and what it gave, as batches are done.

        Args:
            problems: Receives those of the batches, in their order, at the end; ``self.problems`` if None.
            stored: What the store has for some keys, where batches that another process answers are not asked again.
        """
        found: dict[int, list[Problem]] = {}
        calls = [call(list(batch.values())) for batch in batches]
        turn = self._calls if stored and isinstance(self._calls, InTurn) else None
        for at, given in self._beside(batches, calls, stored, turn) if stored and turn else self._calls.each(calls):
            found[at] = []
            yield at, given if isinstance(given, dict) else self._taken(batches[at], given, call, is_one, found[at])
        in_order = [problem for at in sorted(found) for problem in found[at]]
        if problems is None:
            self.problems |= dict.fromkeys(in_order)
        else:
            problems += in_order

    def _beside(
        self,
        batches: Sequence[Mapping[str, Query]],
        calls: Sequence[Call[DocumentModel, list[T]]],
        stored: Callable[[Iterable[str]], dict[str, T]],
        turn: InTurn[DocumentModel],
    ) -> Iterator[tuple[int, list[T] | dict[str, T] | UnanswerableError]]:
        """What batches give, or what another process with the same store has put there for all of a batch meanwhile.

        Two that ask the same would always be at the same batch, so the one that ends second goes on from the end.
        """
        left, together = deque(range(len(calls))[:: self._step]), False
        with turn.ahead() as prepare:
            while left:
                at = left.popleft()
                before = stored(batches[at])
                if len(before) == len(batches[at]):
                    self.reused += len(before)
                    yield at, before
                elif together:
                    together, self._step = False, -self._step  # also where the next questions begin
                    left.appendleft(at)
                    left.reverse()
                else:
                    prepare([calls[one] for one in (at, *islice(left, 1))])
                    given = turn.ask(calls[at], Silent())
                    together = len(stored(batches[at])) > len(before)
                    yield at, given

    def _taken(
        self,
        batch: Mapping[str, Query],
        given: list[T] | UnanswerableError,
        call: Callable[[Sequence[Query]], Call[DocumentModel, list[T]]],
        is_one: Callable[[object], bool],
        problems: list[Problem],
    ) -> dict[str, T]:
        """What a batch gave; where a page of it could not be read, asked one by one without that page."""
        if not isinstance(given, UnanswerableError):
            self._check(given, len(batch), is_one)
            self._fit()
            self.asked += len(batch)
            return dict(zip(batch, given, strict=True))
        if len(batch) == 1:
            (query,) = batch.values()
            problems.append(Problem(query.document.id, given.reason))
            self._give_up(batch)
            return {}
        alone = [{key: query} for key, query in batch.items()]
        each = InTurn(self.model).each([call(list(one.values())) for one in alone])
        parts = [self._taken(alone[at], some, call, is_one, problems) for at, some in each]
        return {key: one for part in parts for key, one in part.items()}

    def _check(self, given: object, count: int, is_one: Callable[[object], bool]) -> None:
        """Check what a model or another process gave; attacks know what to do with a response without a finite loss."""
        here = isinstance(self._calls, InTurn)
        if not here or is_one is not is_response:
            checked(given, count, is_one, here=here)

    def _give_up(self, keys: Iterable[str]) -> None:
        """Tell the other shares not to wait for what this one could not be answered."""
        for key in keys if self._share is not None else ():
            self._records.put(key, UNANSWERABLE)

    def _awaits(self, keys: Iterable[str]) -> bool:
        """Whether another share is going to answer some of these."""
        return any(self._records.get(key) != UNANSWERABLE for key in keys)

    def _due(self, wanted: Mapping[str, Query], pending: Mapping[str, Query], rows: int = 1) -> list[dict[str, Query]]:
        """Batches to ask: of what is pending; of a share, its own of the batches that one process would form.

        Args:
            rows: Rows that the model computes for a query.
        """
        if self._share is None:
            return form_batches(self.model, wanted, pending, rows)
        new = {key: query for key, query in wanted.items() if key not in self._shared}
        self._shared |= new.keys()
        own = [batch for at, batch in enumerate(form_batches(self.model, new, new, rows)) if self._share.has(at)]
        left = [{key: query for key, query in batch.items() if key in pending} for batch in own]
        return [batch for batch in left if batch]

    def _key(self, query: Query, *purpose: str) -> str:
        asked = query.question
        if isinstance(self.model, FieldModel):
            self.model.require_field(query)
            asked = f"key {query.key}"
        content = [__version__, *self._model, query.document.digest, asked, query.answers[0], *purpose]
        # Recorded answers go by id, and two pages of the same content may have different ones.
        return sha256_json(content if Capability.LIVE in self.capabilities else [*content, query.id])
