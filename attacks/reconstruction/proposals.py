"""How likely the next token of an attempt is: by the target's losses, by a target's own logits, or by PUB-MLM alone.

Source: cdmi-reconstruction, Algorithm 2 (lines 2 to 9), "Targeting a MLM head" (section 4.3), baseline (section 5.2).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from pfl_audit.attacks.reconstruction.likelihoods import (
    log_mean,
    log_softmax,
    loss_scores,
    temperature_at,
    top,
)
from pfl_audit.attacks.reconstruction.specs import ReconstructionSettings
from pfl_audit.errors import AuditError, UsageError
from pfl_audit.metrics.arrays import Floats, Integers
from pfl_audit.models.form_protocol import Attempt, FormModel
from pfl_audit.models.protocol import Capability

_LEAST = float(np.log(np.finfo(np.float64).tiny))
"""Below this a logarithm of a likelihood is cut off, so that it stays a number."""

_REMEMBERED = 20_000
"""Proposals that are kept: 60 MB with 128 candidates each."""

Kind = Literal["attack", "baseline"]


@dataclass(frozen=True, eq=False)
class Candidates:
    """Candidates for one token.

    Attributes:
        tokens: int64 (n,), ids of the candidates.
        log_target: float64 (n,), logarithm of the likelihood to sample from; sums to 1 over the candidates.
    """

    tokens: Integers
    log_target: Floats


@dataclass(frozen=True, eq=False)
class Proposal(Candidates):
    """Candidates for one token, with what a membership metric needs.

    Attributes:
        log_public: float64 (n,), logarithm of the PUB-MLM likelihood.
    """

    log_public: Floats


@dataclass(frozen=True, eq=False)
class Proposer:
    """A procedure that proposes tokens.

    Attributes:
        name: For the progress.
        kind: Attack or baseline, which draw apart.
        identity: Fingerprints and settings: everything that decides what it proposes.
        propose: The procedure: attempts that are all at the same step, and that step.
        weigh: The same candidates and likelihoods, without the passes of PUB-MLM that only ranking needs.
    """

    name: str
    kind: Kind
    identity: tuple[object, ...]
    propose: Callable[[Sequence[Attempt], int], list[Proposal]]
    weigh: Callable[[Sequence[Attempt], int], Sequence[Candidates]]


def proposers(public: FormModel, target: FormModel, settings: ReconstructionSettings) -> tuple[Proposer, Proposer]:
    """The procedures of the attack and of the baseline, which keep what they proposed last.

    Args:
        public: PUB-MLM, with TOKENS.
        target: The model under audit: with its own token logits where its task is ``mlm``, else by its losses.

    Raises:
        UsageError: The models have different vocabularies, or lack what they are asked for.
    """
    return remembering(proposer(public, target, settings)), remembering(baseline_proposer(public, settings))


def proposer(public: FormModel, target: FormModel, settings: ReconstructionSettings) -> Proposer:
    """The attack's procedure against this target.

    Raises:
        UsageError: The models have different vocabularies, or lack what they are asked for.
    """
    if public.vocabulary != target.vocabulary:
        raise UsageError(
            "the public model and the target have different vocabularies", "Train them with the same tokenizer"
        )
    _require(public, Capability.TOKENS, "public model")
    mlm = target.task == "mlm"
    _require(target, Capability.TOKENS if mlm else Capability.FORM_LOSS, "target")
    if settings.shortlist == "gradient" and Capability.LOSS_ESTIMATES not in target.capabilities:
        raise UsageError(
            f"the target ({target.task}) gives no estimated losses", "Leave out --set reconstruction.shortlist=gradient"
        )
    by = _by_logits if mlm else _by_losses

    def propose(attempts: Sequence[Attempt], step: int) -> list[Proposal]:
        return by(public, target, settings, attempts, step)

    def weigh(attempts: Sequence[Attempt], step: int) -> Sequence[Candidates]:
        return _own(target, settings, attempts, step) if mlm else propose(attempts, step)

    identity = ("attack", public.fingerprint, target.fingerprint, *_relevant(settings, mlm=mlm))
    return Proposer("reconstruct", "attack", identity, propose, weigh)


def baseline_proposer(public: FormModel, settings: ReconstructionSettings) -> Proposer:
    """The same with PUB-MLM alone: what can be guessed from public knowledge (section 5.2).

    Raises:
        UsageError: The public model lacks a masked-language head.
    """
    _require(public, Capability.TOKENS, "public model")

    def propose(attempts: Sequence[Attempt], step: int) -> list[Proposal]:
        return _by_public(public, settings, attempts, step)

    identity = ("baseline", public.fingerprint, *_relevant(settings, mlm=True))
    return Proposer("baseline", "baseline", identity, propose, propose)


def remembering(proposer: Proposer) -> Proposer:
    """A procedure that keeps its latest proposals, so that a search reuses those of the attempts."""
    known: OrderedDict[tuple[str, str, tuple[int, ...]], Proposal] = OrderedDict()

    def key(attempt: Attempt) -> tuple[str, str, tuple[int, ...]]:
        return attempt.blank.window.form.id, attempt.blank.span.field.id, attempt.tokens

    def propose(attempts: Sequence[Attempt], step: int) -> list[Proposal]:
        found = proposer.propose(attempts, step)
        known.update(zip(map(key, attempts), found, strict=True))
        while len(known) > _REMEMBERED:
            known.popitem(last=False)
        return found

    def weigh(attempts: Sequence[Attempt], step: int) -> Sequence[Candidates]:
        unknown = [attempt for attempt in attempts if key(attempt) not in known]
        fresh = iter(proposer.weigh(unknown, step) if unknown else ())
        return [known[key(attempt)] if key(attempt) in known else next(fresh) for attempt in attempts]

    return replace(proposer, propose=propose, weigh=weigh)


def _by_public(
    public: FormModel, settings: ReconstructionSettings, attempts: Sequence[Attempt], step: int
) -> list[Proposal]:
    """Steps 1 and 3: the top candidates of PUB-MLM with their likelihoods among each other."""
    found = _own(public, settings, attempts, step)
    return [Proposal(some.tokens, some.log_target, some.log_target) for some in found]


def _by_losses(
    public: FormModel, target: FormModel, settings: ReconstructionSettings, attempts: Sequence[Attempt], step: int
) -> list[Proposal]:
    """Steps 1 to 5: candidates, weighed by the public model and by what the target loses on each."""
    if settings.shortlist == "gradient":
        guessed = _by_estimates(public, target, settings, attempts, step)
    else:
        guessed = _by_public(public, settings, attempts, step)
    tried = [
        Attempt(attempt.blank, (*attempt.tokens, int(token)))
        for attempt, proposal in zip(attempts, guessed, strict=True)
        for token in proposal.tokens
    ]
    losses = np.asarray(target.losses(tried), dtype=np.float64)
    if losses.shape != (len(tried),) or not np.isfinite(losses).all():
        raise _not_numbers(target, "losses")
    ends = np.cumsum([len(proposal.tokens) for proposal in guessed])[:-1]
    proposals = []
    for proposal, some in zip(guessed, np.split(losses, ends), strict=True):
        log_target = mix_likelihoods(some, proposal.log_public, settings)
        proposals.append(Proposal(proposal.tokens, log_target, proposal.log_public))
    return proposals


def _by_estimates(
    public: FormModel, target: FormModel, settings: ReconstructionSettings, attempts: Sequence[Attempt], step: int
) -> list[Proposal]:
    """Candidates by steps 3 to 5 over the whole vocabulary, with estimates of the losses instead of losses."""
    temperature = softmax_temperature(settings, step)
    proposals = []
    estimates = target.estimated_losses(attempts)
    if estimates.shape != (len(attempts), len(target.vocabulary)) or np.isnan(estimates).any():
        raise _not_numbers(target, "estimated losses")
    for logits, losses in zip(_logits(public, attempts), estimates, strict=True):
        open_ = np.flatnonzero(np.isfinite(logits) & np.isfinite(losses))
        mixed = mix_likelihoods(losses[open_].astype(np.float64), log_softmax(logits[open_], temperature), settings)
        tokens = open_[top(mixed, settings.candidates)]
        among = log_softmax(logits[tokens], temperature)
        proposals.append(Proposal(tokens, among, among))
    return proposals


def mix_likelihoods(losses: Floats, log_public: Floats, settings: ReconstructionSettings) -> Floats:
    """The target's losses and the public model's likelihoods, mixed in logarithms (steps 4 and 5), float64 (n,)."""
    log_loss = log_softmax(loss_scores(losses), settings.target_temperature)
    return log_mean(log_loss, log_public, settings.weight, settings.mean)


def _by_logits(
    public: FormModel, target: FormModel, settings: ReconstructionSettings, attempts: Sequence[Attempt], step: int
) -> list[Proposal]:
    """Private MLM (section 4.3): steps 1 and 3 with the target's own logits, and no other.

    PUB-MLM's likelihood, which ranking alone needs, is taken over its whole vocabulary at the same temperature:
    over its own candidates a token could be missing, over the target's it would look likelier than it is.
    """
    temperature = softmax_temperature(settings, step)
    proposals = []
    weighed = _own(target, settings, attempts, step)
    for candidates, others in zip(weighed, _logits(public, attempts), strict=True):
        log_public = np.maximum(log_softmax(others, temperature)[candidates.tokens], _LEAST)
        proposals.append(Proposal(candidates.tokens, candidates.log_target, log_public))
    return proposals


def _own(
    model: FormModel, settings: ReconstructionSettings, attempts: Sequence[Attempt], step: int
) -> list[Candidates]:
    """The likeliest tokens by a model's own logits, with their likelihoods among each other."""
    found = []
    for logits in _logits(model, attempts):
        tokens = top(logits, settings.candidates)
        found.append(Candidates(tokens, log_softmax(logits[tokens], softmax_temperature(settings, step))))
    return found


def _logits(model: FormModel, attempts: Sequence[Attempt]) -> NDArray[np.float32]:
    logits = model.token_logits(attempts)
    usable = np.isfinite(logits).any(axis=-1).all() and not (np.isnan(logits) | np.isposinf(logits)).any()
    if logits.shape != (len(attempts), len(model.vocabulary)) or not usable:
        raise _not_numbers(model, "logits")
    return logits


def softmax_temperature(settings: ReconstructionSettings, step: int) -> float:
    """Temperature of a model's own logits at a step (step 3)."""
    return temperature_at(step, settings.public_temperature, settings.decay_start, settings.decay_steps)


def _relevant(settings: ReconstructionSettings, *, mlm: bool) -> tuple[object, ...]:
    """The settings that proposals depend on."""
    always = (settings.candidates, settings.public_temperature, settings.decay_start, settings.decay_steps)
    mixed = (settings.target_temperature, settings.mean, settings.weight, settings.shortlist)
    return always if mlm else (*always, *mixed)


def _require(model: FormModel, capability: Capability, who: str) -> None:
    if capability not in model.capabilities:
        head = "masked-language" if capability is Capability.TOKENS else model.task
        raise UsageError(f"the {who} ({model.task}) has no {head} head", "Name another checkpoint")


def _not_numbers(model: FormModel, what: str) -> AuditError:
    return AuditError(
        f"the model for {model.task} gives {what} that are not numbers", "Check that its checkpoint is whole"
    )
