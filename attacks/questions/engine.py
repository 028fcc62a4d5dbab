"""Asking a model many questions: each once, in batches of similar length or several at once, and never again."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import islice
from typing import TypeVar, cast

from pfl_audit.attacks.questions.calls import (
    UNANSWERABLE,
    Asked,
    are_guesses,
    batches_of_copies,
    checked,
    form_batches,
    guess,
    is_response,
    is_score,
    kept_guesses,
    respond,
    score,
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
Batches = Callable[[Mapping[str, Query], Container[str]], list[dict[str, Query]]]


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
        return Answers(
            *self._complete(queries, purpose, self._key, self._store.get, self._store.put, respond, is_response)
        )

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
        copies = {
            query.id: [replace(query, id=f"{query.id}/{at}", answers=(value,)) for at, value in enumerate(some)]
            for query, some in values.items()
        }

        def key_of(one: Query) -> str:
            return self._key(one, kind)

        def keep(new: Mapping[str, Score]) -> None:
            self._store.put({key: Response("", None, one.loss, one.tokens) for key, one in new.items()})

        every, ask = [one for some in copies.values() for one in some], partial(score, dropout)
        given, _ = self._complete(every, purpose, key_of, self._scores, keep, ask, is_score, batches_of_copies)
        if isinstance(given, Awaited):
            return given
        found = {name: [given[one.id] for one in some if one.id in given] for name, some in copies.items()}
        return {name: scores for name, scores in found.items() if len(scores) == len(copies[name])}

    def _scores(self, keys: Iterable[str]) -> dict[str, Score]:
        """Likelihoods of answers that the store has."""
        return {key: Score(one.loss or 0.0, one.tokens or 0) for key, one in self._store.get(keys).items()}

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

        def key_of(query: Query) -> str:
            return self._key(replace(query, answers=("",)), f"{width} likely answers")

        def stored(keys: Iterable[str]) -> dict[str, list[Guess]]:
            return {key: some for key in keys if (some := kept_guesses(self._records, key, width)) is not None}

        def keep(new: Mapping[str, list[Guess]]) -> None:
            for key, some in new.items():
                self._records.put(key, {"guesses": [asdict(guess) for guess in some]})

        form = partial(form_batches, self.model, rows=width)
        return self._complete(queries, purpose, key_of, stored, keep, partial(guess, width), are_guesses, form)[0]

    def _complete(
        self,
        queries: Sequence[Query],
        purpose: str,
        key_of: Callable[[Query], str],
        stored: Callable[[Iterable[str]], dict[str, T]],
        keep: Callable[[dict[str, T]], None],
        ask: Callable[[Sequence[Query], DocumentModel], list[T]],
        is_one: Callable[[object], bool],
        form: Batches | None = None,
    ) -> tuple[dict[str, T], list[Problem]]:
        """Results of some queries, from the store where it has them; the others are asked and kept.

        Args:
            key_of: Name of a query in the store.
            stored: What the store has for some keys.
            keep: Puts more into it.
            ask: As of Asked.
            is_one: Whether something is what was asked for.
            form: Forms batches of all queries and the keys of those to ask; as of ``form_batches`` if None.

        Returns:
            Query id to what was given, ``Awaited`` where another share is going to answer some; and the queries that
            could not be answered.
        """
        problems: list[Problem] = []
        keys: dict[str, str] = {}
        for query in queries:
            try:
                keys[query.id] = key_of(query)
            except UnanswerableError as error:
                problems.append(Problem(query.document.id, error.reason))
        known = stored(keys.values())
        wanted = {keys[query.id]: query for query in queries if query.id in keys}
        pending = {key: query for key, query in wanted.items() if key not in known}
        batches = self._due(wanted, pending, form or partial(form_batches, self.model))
        left = {key for batch in batches for key in batch}
        self.reused += len(keys) - len(pending)
        with self._progress.task(purpose, len(keys), len(keys) - len(left)) as task:
            for at, new in self._asked(batches, ask, is_one, problems, stored):
                keep(new)
                known |= new
                task.advance(len(batches[at]))
        self.problems |= dict.fromkeys(problems)
        if self._awaits(pending.keys() - left):
            return Awaited(), problems
        return {query: known[key] for query, key in keys.items() if key in known}, problems

    def _fit(self) -> None:
        """Keep and say what memory was found to have room for."""
        tokens = self._calls.batch_tokens
        if tokens is not None and (self.batch_tokens is None or tokens < self.batch_tokens):
            self.batch_tokens = tokens
            self._progress.say(f"memory ran out: batches of at most {tokens:,} tokens from here on")

    def _asked(
        self,
        batches: Sequence[Mapping[str, Query]],
        ask: Callable[[Sequence[Query], DocumentModel], list[T]],
        is_one: Callable[[object], bool],
        problems: list[Problem],
        stored: Callable[[Iterable[str]], dict[str, T]],
    ) -> Iterator[tuple[int, dict[str, T]]]:
        """The number of each batch and what it gave, as batches are done, before anything more is asked.

        Args:
            problems: Receives those of the batches, in their order, at the end.
            stored: What the store has for some keys: batches that another process answers are not asked again.
        """
        found: dict[int, list[Problem]] = {}
        calls = [Asked(tuple(batch.values()), ask) for batch in batches]
        source: Iterator[tuple[int, list[T] | dict[str, T] | UnanswerableError]]
        if isinstance(self.model, ConcurrentModel):
            each = self.model.respond_each([query for batch in batches for query in batch.values()])
            source = ((at, cast("list[T]", [one]) if isinstance(one, Response) else one) for at, one in each)
        elif isinstance(self._calls, InTurn):
            source = self._beside(batches, calls, stored, self._calls)
        else:
            source = self._calls.each(calls)
        for at, given in source:
            found[at] = []
            yield at, given if isinstance(given, dict) else self._taken(batches[at], given, ask, is_one, found[at])
        problems += [problem for at in sorted(found) for problem in found[at]]

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
        ask: Callable[[Sequence[Query], DocumentModel], list[T]],
        is_one: Callable[[object], bool],
        problems: list[Problem],
    ) -> dict[str, T]:
        """What a batch gave; where a page of it could not be read, asked one by one without that page."""
        if not isinstance(given, UnanswerableError):
            here = isinstance(self._calls, InTurn)
            if not here or is_one is not is_response:  # attacks know what to do with a response without a finite loss
                checked(given, len(batch), is_one, here=here)
            self._fit()
            self.asked += len(batch)
            return dict(zip(batch, given, strict=True))
        if len(batch) == 1:
            (query,) = batch.values()
            problems.append(Problem(query.document.id, given.reason))
            self._give_up(batch)
            return {}
        alone = [{key: query} for key, query in batch.items()]
        each = InTurn(self.model).each([Asked(tuple(one.values()), ask) for one in alone])
        parts = [self._taken(alone[at], some, ask, is_one, problems) for at, some in each]
        return {key: one for part in parts for key, one in part.items()}

    def _give_up(self, keys: Iterable[str]) -> None:
        """Tell the other shares not to wait for what this one could not be answered."""
        for key in keys if self._share is not None else ():
            self._records.put(key, UNANSWERABLE)

    def _awaits(self, keys: Iterable[str]) -> bool:
        """Whether another share is going to answer some of these."""
        return any(self._records.get(key) != UNANSWERABLE for key in keys)

    def _due(self, wanted: Mapping[str, Query], pending: Mapping[str, Query], form: Batches) -> list[dict[str, Query]]:
        """Batches to ask: of what is pending; of a share, its own of the batches that one process would form."""
        if isinstance(self.model, ConcurrentModel):  # hashes: the first ones are a random sample, as an estimate needs
            return [{key: pending[key]} for key in sorted(pending)]
        if self._share is None:
            return form(wanted, pending)
        new = {key: query for key, query in wanted.items() if key not in self._shared}
        self._shared |= new.keys()
        own = [batch for at, batch in enumerate(form(new, new)) if self._share.has(at)]
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
