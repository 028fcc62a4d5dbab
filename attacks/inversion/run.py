"""The checks of gradient inversion, run."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from pydantic import TypeAdapter

from pfl_audit.attacks.inversion import bag, closed_form, question_answer
from pfl_audit.attacks.inversion.attack import ANALYTIC, FEDERATION, TEXT, WORDS
from pfl_audit.attacks.inversion.context import Case, GradientContext, bounds_of, keep_page, unscored
from pfl_audit.attacks.inversion.gradients import observation_key
from pfl_audit.attacks.inversion.methods import METHODS
from pfl_audit.attacks.inversion.present import Presenter
from pfl_audit.attacks.inversion.present_bag import bag_check
from pfl_audit.attacks.inversion.reading import ReadingEngine, open_engine
from pfl_audit.attacks.inversion.reconstruction import reconstruct
from pfl_audit.attacks.inversion.rounds.opened import RoundContext
from pfl_audit.attacks.inversion.rounds.present import messages_check
from pfl_audit.attacks.inversion.rounds.read import read_messages
from pfl_audit.attacks.inversion.scoring import Scored, score
from pfl_audit.attacks.inversion.settings import InversionSettings
from pfl_audit.attacks.inversion.texts import given_for
from pfl_audit.core.attack import CheckSpec
from pfl_audit.core.failures import failure
from pfl_audit.core.results import Check
from pfl_audit.files import sha256_json


@dataclass(frozen=True)
class Runner:
    """What every check needs."""

    context: GradientContext
    settings: InversionSettings
    engine: ReadingEngine
    say: Presenter


def runner(context: GradientContext, settings: InversionSettings) -> Runner:
    """Open the reading engine.

    Raises:
        UsageError: It is not to be had.
    """
    engine = open_engine(settings.ocr, settings.ocr_weights)
    return Runner(context, settings, engine, Presenter(context, settings, engine.name))


def run_check(work: Runner, spec: CheckSpec) -> Check:
    """One check over all observations; an exception ends it with its reason, and leaves the other methods alone."""
    try:
        if spec.id == TEXT.id:
            return work.say.text(spec, question_answer.attack(work.context))
        if spec.id == ANALYTIC.id:
            return work.say.analytic(spec, closed_form.attack(work.context, work.engine))
        if spec.id == WORDS.id:
            found = bag.attack(work.context)
            return bag_check(spec, work.context, found, bounds_of(work.context))
        return work.say.search(spec, _search(work.context, work.settings, work.engine, spec))
    except Exception as error:  # a method that fails never stops another
        return spec.not_run(*failure(error, spec.id, work.context))


def run_federation(context: RoundContext) -> Check:
    """The check of kept messages; an exception ends it with its reason."""
    try:
        return messages_check(FEDERATION, context, read_messages(context))
    except Exception as error:
        return FEDERATION.not_run(*failure(error, FEDERATION.id, context))


def _search(
    context: GradientContext, settings: InversionSettings, engine: ReadingEngine, spec: CheckSpec
) -> list[Scored]:
    name = spec.id.split(".")[1]
    scored = []
    for case in context.cases:
        pages, steps, objective = _pages(context, settings, name, case)
        if not case.truths:
            keep_page(context, name, case, pages[0])
            continue
        rng = context.rng("inversion", "guesses", case.seen.name)
        scored.append(score(case, pages, engine, rng, steps, objective))
    if not scored:
        raise unscored()
    return scored


def _pages(
    context: GradientContext, settings: InversionSettings, name: str, case: Case
) -> tuple[Sequence[NDArray[np.uint8]], int, float]:
    """What came back of one observation, from the records where it is known."""
    method = METHODS[name]
    relevant = settings.model_dump(mode="json", exclude={"ocr", "ocr_weights"})
    observed = observation_key(context.model, case.seen)
    key = sha256_json(["inversion", name, asdict(method), relevant, context.seed, observed])
    stored = context.records.get(key)
    if stored is not None:
        known = _RECORD.validate_python(stored)
    else:
        rng = context.rng("inversion", "text", case.seen.name)
        given = given_for(context.model, case, settings.known, rng, recovers=method.text)
        found = reconstruct(
            context.model,
            case.seen,
            given,
            method,
            settings,
            int(context.rng("inversion", "start", case.seen.name).integers(1 << 31)),
            context.progress,
            f"{method.title}, {case.seen.name}",
            context.states / f"{key}.state",
        )
        known = _Record([_pack(page) for page in found.pages], found.trace.steps, found.trace.least)
        context.records.put(key, asdict(known))
    return [_unpack(page) for page in known.pages], known.steps, known.objective


@dataclass(frozen=True)
class _Record:
    """What is stored of an inversion: pages as PNG in base64."""

    pages: list[str]
    steps: int
    objective: float


_RECORD = TypeAdapter(_Record)


def _pack(page: NDArray[np.uint8]) -> str:
    content = io.BytesIO()
    Image.fromarray(page).save(content, "PNG")
    return base64.b64encode(content.getvalue()).decode()


def _unpack(page: str) -> NDArray[np.uint8]:
    with Image.open(io.BytesIO(base64.b64decode(page))) as image:
        return np.array(image.convert("RGB"), dtype=np.uint8)
