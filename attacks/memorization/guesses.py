"""Values put back within k guesses: the likeliest answers to questions for values that were taken off the page.

Every model searches with a beam of the same width. Its answers are compared as in every other check, and ranked by the
mean log-likelihood of their tokens; answers that differ in case alone are one guess.

Source: the pages and questions of privacy-aware-docvqa, section 5.1; guesses are the deterministic counterpart of
probabilistic discoverable extraction (Hayes et al. 2024), and the ratio of likelihoods that of Carlini et al. 2021.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pfl_audit.attacks.guesses.field import Guessed, Occurrences, Rank
from pfl_audit.attacks.guesses.putting_back import PutBack, outcome_of, put_back, reported
from pfl_audit.attacks.memorization.present_guesses import Presenter, Value
from pfl_audit.attacks.memorization.recall import scrubbed_pages, second_look
from pfl_audit.attacks.memorization.secrets import Texts
from pfl_audit.attacks.memorization.specs import GUESSES, MemorizationSettings, in_words
from pfl_audit.attacks.questions.context import QuestionContext
from pfl_audit.attacks.questions.engine import QueryEngine
from pfl_audit.core.results import Check
from pfl_audit.documents.corpus import Problem
from pfl_audit.documents.document import Query
from pfl_audit.documents.keys import NAMES, PROVIDER_KEYS
from pfl_audit.documents.scrubbing.questions import UNKNOWN
from pfl_audit.documents.units import DOCUMENT
from pfl_audit.metrics.answers import accuracy
from pfl_audit.models.protocol import Guess, Score

_ONE_ANSWER = "gives one answer to a question and not its likeliest ones"


def guesses(context: QuestionContext, settings: MemorizationSettings) -> Check:
    """Run the check."""
    spec = in_words(GUESSES, context.unit)
    control = context.control_name
    other = context.models[control] if control is not None else None
    for name, engine in (("the model", context.target), (f"the {control} model", other)):
        if engine is not None and not engine.guesses:
            return spec.not_run("skipped", f"{name} {_ONE_ANSWER}")
    asked, left_out = _questions(context, settings)
    if not asked:
        return spec.not_run("skipped", f"no page of a labelled {context.unit.name} gives a value that can be taken off")
    said, before, ratios = _ask(context, other, list(asked), settings.guesses)
    members = context.members
    values = [
        Value(
            query.document.unit,
            place_of(said[query.id], query, settings.guesses),
            place_of(before.get(query.id, ()), query, settings.guesses),
            asked[query].secret,
            query,
            place_of(ratios[query.id], query, settings.guesses) if query.id in ratios else None,
        )
        for query in asked
        if query.id in said and (other is None or query.id in before)
    ]
    here = [value for value in values if members[value.query.document.unit]]
    there = [value for value in values if not members[value.query.document.unit]]
    if not here:
        return spec.not_run("skipped", f"no value of a member {context.unit.name} could be asked for")
    outcome = outcome_of(
        here,
        there,
        [asked[value.query] for value in here],
        settings.guesses,
        lambda what, k: context.rng("memorization", "guesses", what, k),
    )
    unread = {query.document.id for query in asked if query.id not in said}
    problems = [*left_out, *(problem for problem in context.target.problems if problem.record in unread)]
    say = Presenter(context, settings, control)
    return say.check(spec, outcome, _by_ratio(context, here, there, settings.guesses), here, problems)


def place_of(answers: Sequence[str], query: Query, most: int) -> Rank:
    """Place of the accepted answer among guesses.

    Args:
        answers: Guesses, the first one first; those that differ in case or in blanks around them are one.
        most: Number of guesses; a value that is not among them has this place.
    """
    different = dict.fromkeys(answer.strip().lower() for answer in answers)
    hits = (at for at, answer in enumerate(different) if accuracy(answer, query.answers))
    return Rank(min(next(hits, most), most))


def _questions(
    context: QuestionContext, settings: MemorizationSettings
) -> tuple[dict[Query, Occurrences], list[Problem]]:
    """Questions for scrubbed values with their other occurrences, and pages with a value that were left out.

    Values of providers are asked for, and of single documents every value that has a question.
    """
    members = context.members
    queries: list[Query] = []
    problems: list[Problem] = []
    for key in NAMES if context.unit is DOCUMENT else PROVIDER_KEYS:
        test = scrubbed_pages(context, key, settings)
        queries += [query for query in test.queries if query.document.unit in members]
        problems += [problem for problem in test.skipped if problem.reason != UNKNOWN]
    if settings.guessed_values is not None and len(queries) > settings.guessed_values:
        order = context.rng("memorization", "guesses", "values").permutation(len(queries))
        queries = [queries[at] for at in sorted(order[: settings.guessed_values].tolist())]
    clues = second_look(context, queries)
    texts = Texts(context.red, context.blue, members)
    return {query: texts.occurrences(query, clues[query.id]) for query in queries}, problems


Answers = Mapping[str, Sequence[str]]
"""Query id to guesses, the first one first."""


def _ask(
    context: QuestionContext, other: QueryEngine | None, queries: Sequence[Query], width: int
) -> tuple[Answers, Answers, Answers]:
    """Guesses of the target and of its control, and the target's in the order of the ratio of the two likelihoods."""
    said = context.target.likely_answers(queries, width, f"{width} guesses a value (target)")
    if other is None:
        return _texts(said), {}, {}
    before = other.likely_answers(queries, width, f"{width} guesses a value (control)")
    scores: Mapping[str, Sequence[Score]] = {}
    if other.compares and width > 1:
        compared = {query: [guess.answer for guess in some] for query in queries if (some := said.get(query.id))}
        scores = other.candidates(compared, "the target's guesses under the control")
    ratios = {
        name: [guess.answer for _, guess in sorted(zip(own, said[name], strict=True), key=lambda pair: pair[0])]
        for name, some in scores.items()
        if (own := [guess.loss - score.loss for guess, score in zip(said[name], some, strict=True)])
    }
    return _texts(said), _texts(before), ratios


def _texts(said: Mapping[str, Sequence[Guess]]) -> Answers:
    return {name: [guess.answer for guess in some] for name, some in said.items()}


def _by_ratio(
    context: QuestionContext, here: Sequence[Value], there: Sequence[Value], guesses: int
) -> dict[int, PutBack]:
    """What fewer guesses than all put back of secrets in the order of the ratio; all are the same in any order."""

    def ranked(values: Sequence[Value]) -> list[Guessed]:
        return [
            replace(value, attack=value.by_ratio) for value in values if value.secret and value.by_ratio is not None
        ]

    private, new = ranked(here), ranked(there)
    if not private:
        return {}
    return {
        k: put_back(private, new, k, context.rng("memorization", "guesses", "ratio", k))
        for k in reported(guesses)
        if k < guesses
    }
