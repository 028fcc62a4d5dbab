"""The checks of gradient inversion, run."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np

from pfl_audit.attacks.inversion import bag, closed_form, question_answer
from pfl_audit.attacks.inversion.calls import Work, keeps_states, recorded
from pfl_audit.attacks.inversion.context import Case, GradientContext, bounds_of, keep_page
from pfl_audit.attacks.inversion.gradients import observation_key
from pfl_audit.attacks.inversion.methods import METHODS, Method
from pfl_audit.attacks.inversion.present import Presenter
from pfl_audit.attacks.inversion.present_bag import bag_check
from pfl_audit.attacks.inversion.reading import ReadingEngine, ReadingOpening, open_engine
from pfl_audit.attacks.inversion.reconstruction import reconstruct
from pfl_audit.attacks.inversion.rounds.opened import RoundContext
from pfl_audit.attacks.inversion.rounds.present import messages_check
from pfl_audit.attacks.inversion.rounds.read import read_messages
from pfl_audit.attacks.inversion.scoring import Scored, pack, scored_by, scoring, unpack
from pfl_audit.attacks.inversion.settings import InversionSettings
from pfl_audit.attacks.inversion.specs import ANALYTIC, FEDERATION, TEXT, WORDS
from pfl_audit.attacks.inversion.texts import given_for
from pfl_audit.core.attack import CheckSpec
from pfl_audit.core.failures import failure
from pfl_audit.core.results import Check
from pfl_audit.files import sha256_json
from pfl_audit.models.calls import Call, Calls, InTurn
from pfl_audit.models.gradient_protocol import GradientModel
from pfl_audit.progress import Task, Within
from pfl_audit.version import __version__


@dataclass(frozen=True)
class Runner:
    """What every check needs."""

    context: GradientContext
    settings: InversionSettings
    readers: Calls[ReadingEngine]
    say: Presenter


def runner(context: GradientContext, settings: InversionSettings) -> Runner:
    """Open the reading engine.

    Raises:
        UsageError: It is not to be had.
    """
    engine = open_engine(settings.ocr, settings.ocr_weights)
    readers: Calls[ReadingEngine] = InTurn(engine)
    if context.workers is not None and context.workers.shares_files:  # another machine may have another engine
        readers = context.workers.calls(ReadingOpening(settings.ocr, settings.ocr_weights, engine.name))
    return Runner(context, settings, readers, Presenter(context, settings, engine.name))


def run_check(work: Runner, spec: CheckSpec) -> Check:
    """One check over all observations; an exception ends it with its reason, and leaves the other methods alone."""
    try:
        if spec.id == TEXT.id:
            return work.say.text(spec, question_answer.attack(work.context))
        if spec.id == ANALYTIC.id:
            return work.say.analytic(spec, closed_form.attack(work.context, work.readers))
        if spec.id == WORDS.id:
            found = bag.attack(work.context)
            return bag_check(spec, work.context, found, bounds_of(work.context))
        return work.say.search(spec, _search(work.context, work.settings, work.readers, spec))
    except Exception as error:  # a method that fails never stops another
        return spec.not_run(*failure(error, spec.id, work.context))


def run_federation(context: RoundContext) -> Check:
    """The check of kept messages; an exception ends it with its reason."""
    try:
        return messages_check(FEDERATION, context, read_messages(context))
    except Exception as error:
        return FEDERATION.not_run(*failure(error, FEDERATION.id, context))


def _search(
    context: GradientContext, settings: InversionSettings, readers: Calls[ReadingEngine], spec: CheckSpec
) -> list[Scored]:
    name = spec.id.split(".")[1]
    works: dict[int, Call[ReadingEngine, Scored]] = {}
    for at, known in _known(context, settings, name):
        case, pages = context.cases[at], [base64.b64decode(page) for page in known.pages]
        if not case.truths:
            keep_page(context, name, case, unpack(pages[0]))
            continue
        rng = context.rng("inversion", "guesses", case.seen.name)
        works[at] = scoring(case, pages, rng, known.steps, known.objective)
    return scored_by(readers, works, context.progress)


def _known(context: GradientContext, settings: InversionSettings, name: str) -> Iterator[tuple[int, _Record]]:
    """The number of each case and what came back of it, from the records where it is known."""
    method = METHODS[name]
    keys = [_key(context, case, settings, name) for case in context.cases]

    def work(at: int) -> Work[_Record]:
        document = context.cases[at].seen.name
        return partial(
            _sought,
            method=method,
            settings=settings,
            rng=context.rng("inversion", "text", document),
            seed=int(context.rng("inversion", "start", document).integers(1 << 31)),
            state=context.states / f"{keys[at]}.state" if keeps_states(context) else None,
        )

    title = f"{method.title}, documents: {len(keys)}"
    return recorded(context, keys, work, _Record, title, [settings.iterations] * len(keys))


def _key(context: GradientContext, case: Case, settings: InversionSettings, name: str) -> str:
    """SHA-256 of all that decides what a search brings back: texts too, where the observer is given some."""
    method, observed = METHODS[name], observation_key(context.model, case.seen)
    relevant = settings.model_dump(mode="json", exclude={"ocr", "ocr_weights"})
    given = [] if settings.known == "recovered" and method.text else [truth.text for truth in case.truths]
    texts = [sorted((part, value.tolist()) for part, value in text.items()) for text in given]
    parts = [__version__, "inversion", name, asdict(method), relevant, context.seed, observed]
    return sha256_json([*parts, texts] if texts else parts)


def _sought(
    model: GradientModel,
    case: Case,
    task: Task,
    *,
    method: Method,
    settings: InversionSettings,
    rng: np.random.Generator,
    seed: int,
    state: Path | None,
) -> _Record:
    """What a search brings back of one observation."""
    given = given_for(model, case, settings.known, rng, recovers=method.text)
    found = reconstruct(model, case.seen, given, method, settings, seed, Within(task), case.seen.name, state)
    pages = [base64.b64encode(pack(page)).decode() for page in found.pages]
    return _Record(pages, found.trace.steps, found.trace.least)


@dataclass(frozen=True)
class _Record:
    """What is stored of an inversion: pages as PNG in base64."""

    pages: list[str]
    steps: int
    objective: float
