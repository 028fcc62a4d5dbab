"""Asking a model many questions: each once, in batches of similar length or several at once, and never again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from math import isfinite
from typing import Final

from pydantic import TypeAdapter, ValidationError

from pfl_audit import __version__
from pfl_audit.core.store import Records, ResponseStore
from pfl_audit.documents.corpus import Problem
from pfl_audit.documents.document import Query
from pfl_audit.errors import UnanswerableError
from pfl_audit.files import sha256_json
from pfl_audit.models.placement import tokens_found
from pfl_audit.models.processes import Calls, InTurn
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
from pfl_audit.progress import Progress


@dataclass
class Answers:
    """Responses by query id.

    Attributes:
        responses: Of the queries that could be answered.
        problems: The queries that could not, with the reason.
    """

    responses: dict[str, Response] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def __getitem__(self, query: Query) -> Response:
        return self.responses[query.id]

    def __contains__(self, query: object) -> bool:
        return isinstance(query, Query) and query.id in self.responses


class QueryEngine:
    """A model with a memory.

    Args:
        store: Where answers are kept.
        calls: What calls the model; in this process where not given.
        arithmetic: What tells its answers apart, as of ``device.arithmetic_of``; it is part of their keys.

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
        calls: Calls | None = None,
        arithmetic: Sequence[str] = (),
    ) -> None:
        self.model = model
        self._calls = calls or InTurn(model)
        self.asked = 0
        self.reused = 0
        self.problems: dict[Problem, None] = {}
        self._store = store
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
            Responses; a query whose page cannot be read becomes a problem.
        """
        answers = Answers()
        keys: dict[str, str] = {}
        for query in queries:
            try:
                keys[query.id] = self._key(query)
            except UnanswerableError as error:
                answers.problems.append(Problem(query.document.id, error.reason))
        known = self._store.get(keys.values())
        pending = {keys[query.id]: query for query in queries if query.id in keys and keys[query.id] not in known}
        self.reused += len(keys) - len(pending)
        with self._progress.task(purpose, len(keys), len(keys) - len(pending)) as task:
            for done, new in self._answered(pending, answers):
                self._store.put(new)
                known |= new
                task.advance(done)
        answers.responses = {query: known[key] for query, key in keys.items() if key in known}
        self.problems |= dict.fromkeys(answers.problems)
        return answers

    @property
    def compares(self) -> bool:
        """Whether ``candidates`` can be asked."""
        return isinstance(self.model, CandidateModel) and Capability.LOSS in self.capabilities

    def candidates(self, values: Mapping[Query, Sequence[str]], purpose: str) -> dict[str, list[Score]]:
        """How likely the model takes each of several answers to a question to be.

        Args:
            values: Query to the answers to compare.

        Returns:
            Query id to scores in order; a query whose page cannot be read is left out.

        Raises:
            TypeError: The model cannot compare answers.
        """
        if not isinstance(self.model, CandidateModel):
            raise TypeError("the model cannot compare answers")
        found: dict[str, list[Score]] = {}
        with self._progress.task(purpose, len(values), 0) as task:
            for query, some in values.items():
                try:
                    keys = [self._key(replace(query, answers=(value,)), "loss alone") for value in some]
                    known = self._store.get(keys)
                    pending = {key: value for key, value in zip(keys, some, strict=True) if key not in known}
                    scores = self.model.candidate_losses(query, list(pending.values())) if pending else []
                    self._fit(tokens_found(self.model))
                except UnanswerableError as error:
                    self.problems[Problem(query.document.id, error.reason)] = None
                else:
                    new = {
                        key: Response("", None, score.loss, score.tokens)
                        for key, score in zip(pending, scores, strict=True)
                    }
                    if new:
                        self._store.put(new)
                    self.asked += len(new)
                    self.reused += len(keys) - len(new)
                    known |= new
                    found[query.id] = [Score(known[key].loss or 0.0, known[key].tokens or 0) for key in keys]
                task.advance(1)
        return found

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
        if not isinstance(self.model, GuessingModel):
            raise TypeError("the model gives one answer only")
        keys: dict[str, str] = {}
        for query in queries:
            try:
                keys[query.id] = self._key(replace(query, answers=("",)), f"{width} likely answers")
            except UnanswerableError as error:
                self.problems[Problem(query.document.id, error.reason)] = None
        records = Records(self._store)
        found = {key: guesses for key in keys.values() if (guesses := _kept(records, key, width)) is not None}
        pending = {keys[query.id]: query for query in queries if query.id in keys and keys[query.id] not in found}
        self.reused += len(keys) - len(pending)
        with self._progress.task(purpose, len(keys), len(keys) - len(pending)) as task:
            for batch in self._batches(pending, width):
                new = self._guessed(self.model, batch, width)
                for key, guesses in new.items():
                    records.put(key, {"guesses": [asdict(guess) for guess in guesses]})
                self.asked += len(new)
                found |= new
                task.advance(len(batch))
        return {query: found[key] for query, key in keys.items() if key in found}

    def _guessed(self, model: GuessingModel, batch: Mapping[str, Query], width: int) -> dict[str, list[Guess]]:
        """Ask a batch; where a page of it cannot be read, ask one by one and leave that page out."""
        try:
            guesses = model.guess(list(batch.values()), width)
            self._fit(tokens_found(self.model))
            return dict(zip(batch, guesses, strict=True))
        except UnanswerableError as error:
            if len(batch) == 1:
                (query,) = batch.values()
                self.problems[Problem(query.document.id, error.reason)] = None
                return {}
            parts = [self._guessed(model, {key: query}, width) for key, query in batch.items()]
            return {key: guesses for part in parts for key, guesses in part.items()}

    def _answered(self, pending: Mapping[str, Query], answers: Answers) -> Iterator[tuple[int, dict[str, Response]]]:
        """Ask; yields the number of questions that are done, and their responses, before anything more is asked."""
        if not isinstance(self.model, ConcurrentModel):
            problems: dict[int, list[Problem]] = {}
            batches = self._batches(pending)
            for at, given in self._calls.each([partial(_responses, list(batch.values())) for batch in batches]):
                problems[at] = []
                yield len(batches[at]), self._taken(batches[at], given, problems[at])
            answers.problems += [problem for at in sorted(problems) for problem in problems[at]]
            return
        keys = sorted(pending)  # hashes, so that the first ones are a random sample, as an estimate needs
        for at, found in self.model.respond_each([pending[key] for key in keys]):
            if isinstance(found, Response):
                self.asked += 1
                yield 1, {keys[at]: found}
            else:
                answers.problems.append(Problem(pending[keys[at]].document.id, found.reason))
                yield 1, {}

    def _fit(self, tokens: int | None) -> None:
        """Keep and say what memory was found to have room for."""
        if tokens is not None and (self.batch_tokens is None or tokens < self.batch_tokens):
            self.batch_tokens = tokens
            self._progress.say(f"memory ran out: batches of at most {tokens:,} tokens from here on")

    def _taken(
        self, batch: Mapping[str, Query], given: _Given | UnanswerableError, problems: list[Problem]
    ) -> dict[str, Response]:
        """The responses of a batch; where a page of it could not be read, asked one by one without that page."""
        if not isinstance(given, UnanswerableError):
            self.asked += len(batch)
            self._fit(given.tokens)
            return dict(zip(batch, given.responses, strict=True))
        if len(batch) == 1:
            (query,) = batch.values()
            problems.append(Problem(query.document.id, given.reason))
            return {}
        alone = [{key: query} for key, query in batch.items()]
        each = InTurn(self.model).each([partial(_responses, list(one.values())) for one in alone])
        parts = [self._taken(alone[at], response, problems) for at, response in each]
        return {key: response for part in parts for key, response in part.items()}

    def _batches(self, pending: Mapping[str, Query], share: int = 1) -> list[dict[str, Query]]:
        """Group by length, longest first (what does not fit shows at once), a page's questions together.

        Args:
            share: Rows that the model computes for a query.
        """
        costs = {key: self.model.cost(query) for key, query in pending.items()}
        pages: dict[str, int] = {}
        for key, query in pending.items():
            pages[query.document.id] = max(pages.get(query.document.id, 0), costs[key])
        order = sorted(pending, key=lambda key: (-pages[pending[key].document.id], pending[key].document.id, key))
        batches: list[dict[str, Query]] = []
        longest = 0
        for key in order:
            if not batches or len(batches[-1]) >= max(1, self.model.batch_size(max(longest, costs[key])) // share):
                batches.append({})
                longest = 0
            batches[-1][key] = pending[key]
            longest = max(longest, costs[key])
        return batches

    def _key(self, query: Query, *purpose: str) -> str:
        asked = query.question
        if isinstance(self.model, FieldModel):
            self.model.require_field(query)
            asked = f"key {query.key}"
        content = [__version__, *self._model, query.document.digest, asked, query.answers[0], *purpose]
        # Recorded answers go by id, and two pages of the same content may have different ones.
        return sha256_json(content if Capability.LIVE in self.capabilities else [*content, query.id])


@dataclass(frozen=True)
class _Given:
    """What a call gave, perhaps in another process.

    Attributes:
        tokens: As of ``tokens_found``.
    """

    responses: list[Response]
    tokens: int | None


def _responses(queries: Sequence[Query], model: DocumentModel) -> _Given:
    return _Given(model.respond(queries), tokens_found(model))


_GUESSES: Final = TypeAdapter(list[Guess])


def _kept(records: Records, key: str, width: int) -> list[Guess] | None:
    """Likely answers as they were kept, or None where there are none."""
    try:
        guesses = _GUESSES.validate_python((records.get(key) or {}).get("guesses"))
    except ValidationError:
        return None
    return guesses if len(guesses) <= width and all(isfinite(guess.loss) for guess in guesses) else None
