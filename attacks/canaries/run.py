"""The test of document canaries, and the wording of its finding."""

from __future__ import annotations

from typing import Final

import numpy as np

from pfl_audit.attacks.questions.context import QuestionContext
from pfl_audit.attacks.questions.engine import QueryEngine
from pfl_audit.core.attack import CheckSpec
from pfl_audit.core.metric import build_metric
from pfl_audit.core.remedies import private_training
from pfl_audit.core.results import Check, Finding, Level
from pfl_audit.core.verdict import at_most_weak, level_of
from pfl_audit.documents.document import Query
from pfl_audit.documents.synthetic.canaries import draw_canaries
from pfl_audit.metrics.arrays import Floats
from pfl_audit.privacy.document_canaries import (
    CanaryBounds,
    bound_epsilon,
    contradicted,
    guess_coins,
    pages_asked,
    smallest_epsilon,
)
from pfl_audit.privacy.guarantee import PrivacyGuarantee
from pfl_audit.privacy.lower_bounds import ERROR, Guesses, epsilon_lower_bound, p_value
from pfl_audit.training.verify import summed_loss

LARGEST_EPSILON: Final = 1.0
"""Epsilon of a canary that an audit must be able to find before it says that there is no evidence."""
EPSILON: Final = "epsilon at least"
_METHOD = "one run, dependent guesses (Steinke, Nasr and Jagielski 2023; Mahloujifar, Melis and Chaudhuri 2024)"
_CONTRADICTED = ["Do not release the model: trainer or guarantee is wrong. See docs/canaries.md."]
_REMEDIES = [private_training("providers"), "Train with fewer passes over the data, and test with canaries again."]


def measure_documents(spec: CheckSpec, context: QuestionContext) -> Check:
    """Ask the model under audit, and the pre-trained model if there is one, for the values of all canaries."""
    released = context.canaries
    if released is None:
        raise AssertionError("a need of the check")
    manifest, claim = released.manifest, released.claim
    if manifest is None:
        return spec.not_run("failed", f"{released.text}: compare the checkpoint with the one that was trained")
    numbers = pages_asked(manifest, claim)
    queries = draw_canaries(numbers, manifest.salt, released.pages, context.progress, pointed=manifest.pointed)
    evidence = -_losses(context.target, queries)
    if context.pretrained is not None:
        evidence += _losses(context.pretrained, queries)
    guesses, budget = guess_coins(evidence, manifest), context.budget
    smallest = smallest_epsilon(guesses.made, budget.weak)
    level = level_of(
        [p_value(guesses, 0.0, 0.0)],
        [lambda share: epsilon_lower_bound(guesses, 0.0, share)],
        budget,
        resolved=smallest <= LARGEST_EPSILON,
    )
    why = contradicted(guesses, claim, budget.leak) if claim else None
    if claim:
        level = "leak" if why else at_most_weak(level)
    bounds = bound_epsilon(guesses, claim)
    metrics = [
        build_metric(EPSILON, bounds.largest, n=guesses.made, unit="guesses", chance=0.0, role="epsilon",
                     note=f"{round(100 * (1 - ERROR))} % confidence; {_METHOD}"),
        build_metric("correct guesses", guesses.correct / guesses.made, format="percent", n=guesses.made,
                     unit="guesses", chance=0.5, note="no interval: the guesses of one run depend on each other"),
    ]  # fmt: skip
    finding = Finding(
        level=level,
        text=_sentence(level, bounds, claim, why, smallest),
        remedy=" ".join(_CONTRADICTED if why else _REMEDIES),
        remedies=[] if level in ("none", "unresolved") else _CONTRADICTED if why else _REMEDIES,
        plain=_plain(level, guesses, bounds.largest, contradicts=bool(why)),
        success=guesses.correct / guesses.made,
        false_alarms=1 - guesses.correct / guesses.made,
        metric=EPSILON,
        smallest_effect=smallest if np.isfinite(smallest) else None,
    )
    settings = {"canaries": manifest.canaries, "guesses": manifest.guesses, "commitment": manifest.commitment}
    return spec.ran(settings=settings, metrics=metrics, finding=finding)


def _plain(level: Level, guesses: Guesses, epsilon: float, *, contradicts: bool) -> str:
    """The same in a sentence: canaries are a positive control that the trainer planted, and no company's data."""
    counted = f"of the coin flips for planted test pages, {guesses.correct} of {guesses.made} guesses were right"
    if contradicts:
        return f"The stated privacy guarantee is false: {counted}, more than it allows."
    if level in ("leak", "weak"):
        return f"Planted test pages show what was trained on: {counted}, so epsilon is at least {epsilon:.3g}."
    return f"Planted test pages do not show what was trained on: {counted}, where chance gives half."


def _losses(engine: QueryEngine, queries: list[Query]) -> Floats:
    """Summed negative log-likelihood of every value, float64 (queries,).

    Raises:
        AuditError: The model gives none for a value.
    """
    answers = engine.ask(queries, "canaries")
    return np.array([summed_loss(answers.responses.get(query.id)) for query in queries])


def _sentence(
    level: Level, bounds: CanaryBounds, claim: PrivacyGuarantee | None, why: str | None, smallest: float
) -> str:
    guesses = bounds.guesses
    counted = f"{guesses.correct} of {guesses.made} guesses of the coins of {guesses.canaries} canaries are correct"
    if why:
        return f"The guarantee is contradicted: {why}. {counted}."
    measured = f"measured epsilon is at least {bounds.largest:.3g}"
    within = f" It does not contradict the stated {claim.epsilon:.4g}." if claim else ""
    power = f" Four of five such audits would have found an epsilon of {smallest:.2g} of a canary."
    if not np.isfinite(smallest):
        power = " Even if all guesses were correct, they would be too few to be distinguished from chance."
    text = {
        "leak": f"The model shows which canaries it was trained on: {counted}, so the {measured}.",
        "weak": f"The model shows which canaries it was trained on: {counted}, so the {measured}.{within}",
        "none": f"No sign of which canaries were trained on: {counted}.{within}{power}",
        "unresolved": f"Too few guesses to resolve which canaries were trained on: {counted}.{within}{power}",
    }
    return text[level]
