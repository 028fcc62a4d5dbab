"""The checks of the reconstruction of scrubbed fields, run."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pfl_audit.attacks.guesses.field import Guessed, Occurrences
from pfl_audit.attacks.guesses.putting_back import Outcome, outcome_of
from pfl_audit.attacks.reconstruction import present, present_guesses
from pfl_audit.attacks.reconstruction.calls import Held
from pfl_audit.attacks.reconstruction.context import FormContext
from pfl_audit.attacks.reconstruction.evaluation import METRICS, WITH_REFERENCE, evaluate
from pfl_audit.attacks.reconstruction.guessing import rank_truths
from pfl_audit.attacks.reconstruction.outcomes import Attacked, CheckpointOutcome
from pfl_audit.attacks.reconstruction.plan import LISTED, Chosen, Truth, attacked_labels, count_passes, fields_of
from pfl_audit.attacks.reconstruction.proposals import Proposer, proposers
from pfl_audit.attacks.reconstruction.ratios import with_ratios
from pfl_audit.attacks.reconstruction.search import Reconstruction, reconstruct
from pfl_audit.attacks.reconstruction.secrets import Texts
from pfl_audit.attacks.reconstruction.specs import GUESSES, MULTI_SHOT, ONE_SHOT, ReconstructionSettings
from pfl_audit.attacks.reconstruction.units import permute_units, units_of
from pfl_audit.core.redaction import visible
from pfl_audit.core.results import Check, Table
from pfl_audit.errors import UsageError
from pfl_audit.models.calls import Calls
from pfl_audit.models.form_protocol import Attempt, Blank, FormModel
from pfl_audit.models.protocol import Capability

_COMPARED = 8
"""Fields by which a coarser precision is judged."""


def run_checks(context: FormContext, settings: ReconstructionSettings) -> list[Check]:
    """Attack, and say what was found in the checks that were chosen.

    Raises:
        UsageError: No form has a label that is asked for, or what the settings need is not given.
        AuditError: Shadow models cannot be trained.
    """
    if settings.ranking not in METRICS and context.public_target is None:
        raise UsageError(f"nothing to rank by the {settings.ranking}", "Give --public-target, or another --ranking")
    wanted = [spec for spec in (GUESSES, ONE_SHOT, MULTI_SHOT) if spec.id in context.checks]
    labels = attacked_labels(settings.labels, context.corpus.labels)
    chosen = fields_of(context.parts.private, context.target, settings, labels, context.seed)
    if not chosen.fields:
        names = " or ".join(visible(label, 60) for label in labels[:LISTED])
        reason = (
            f"no field of the private forms labelled {names or 'at all'} "
            f"has {settings.shortest} to {settings.longest} tokens ({len(chosen.too_short)} are shorter, "
            f"{len(chosen.too_long)} longer, {len(chosen.not_read)} not read whole by the model)"
        )
        return [spec.not_run("skipped", reason) for spec in wanted]
    tuned: list[Table] = []
    if settings.tune:
        from pfl_audit.attacks.reconstruction.tuning import tune

        settings, table = tune(context, settings)
        tuned = [table]
    new = None
    if settings.control:
        new = fields_of(context.parts.validation, context.target, settings, labels, context.seed)
    attempted = [spec for spec in wanted if spec is not GUESSES]
    if attempted:
        _tell(context, settings, chosen, new)
    target, precision = _quickest(context, settings, chosen)
    attack = _Attack(context, settings, target, chosen, new)
    say = present.Presenter(context, settings, attack.units, precision)
    checks: list[Check] = []
    if attempted:
        outcome = attack.attempts("private forms")
        epochs = {
            epoch: _Attack(context, settings, open_epoch(), chosen, None).attempts(f"epoch {epoch}")
            for epoch, open_epoch in context.epochs.items()
        }
        checks = [
            say.one_shot(ONE_SHOT, outcome, epochs) if spec is ONE_SHOT else say.multi_shot(MULTI_SHOT, outcome)
            for spec in attempted
        ]
    if GUESSES in wanted:  # last, since the search reuses what the attempts have asked
        checks.insert(0, present_guesses.guesses(GUESSES, say, attack.guesses(), chosen.fields))
    return [check.model_copy(update={"tables": [*check.tables, *tuned]}) for check in checks[:1]] + checks[1:]


def _tell(context: FormContext, settings: ReconstructionSettings, chosen: Chosen, new: Chosen | None) -> None:
    """How much work it will be; how long, the progress shows after the first fields."""
    rounds = 1 + len(context.epochs)
    fields = [blank for blank, _ in chosen.fields * rounds + (new.fields if new is not None else ())]
    target, public = count_passes(fields, settings, mlm=context.target.task == "mlm")
    over = f" (over {rounds} checkpoints)" if rounds > 1 else ""
    context.progress.say(
        f"{len(fields)} fields{over}: {target[0]:,} to {target[1]:,} forward passes of the target, "
        f"{public[0]:,} to {public[1]:,} of the public model"
    )


def _quickest(context: FormContext, settings: ReconstructionSettings, chosen: Chosen) -> tuple[FormModel, str]:
    """The coarser target where it fills the first fields in as the exact one does, token for token; and what to say."""
    if context.quick is None:
        return context.target, "float32"
    first = chosen.fields[:_COMPARED]
    exact, coarse = (
        _fill(context, settings, proposers(context.public, model, settings), first, f"in {name} precision")
        for model, name in ((context.target, "full"), (context.quick, "coarser"))
    )
    same = sum(
        [one.tokens for one in here.attack] == [other.tokens for other in there.attack]
        for here, there in zip(exact, coarse, strict=True)
    )
    found = f"{same} of {len(first)} sampled fields come out as in float32"
    if Capability.FORM_LOSS in context.target.capabilities:
        true = [Attempt(blank, truth) for blank, truth in first]
        apart = np.abs(context.target.losses(true) - context.quick.losses(true)).max(initial=0.0)
        found += f", and the losses of their true values differ by at most {apart:.2g} nats"
    context.progress.say(found)
    return (context.quick, f"coarser: {found}") if same == len(first) else (context.target, f"float32: {found}")


class _Attack:
    """The attack on one checkpoint.

    Args:
        new: Fields of forms that it has never seen, or None.
    """

    def __init__(
        self,
        context: FormContext,
        settings: ReconstructionSettings,
        target: FormModel,
        chosen: Chosen,
        new: Chosen | None,
    ) -> None:
        self._context, self._settings, self._target = context, settings, target
        self._chosen = chosen
        self._new = new.fields if new is not None else ()
        self._by = proposers(context.public, target, settings)
        self._calls = context.calls.of(context.public, target, settings) if context.calls is not None else None
        self._validation = context.parts.validation if settings.control else ()
        self.units = units_of(context.parts.private, self._validation)

    def attempts(self, label: str) -> CheckpointOutcome:
        """One attempt at every field and several, and their evaluation."""
        context, settings = self._context, self._settings
        fields = self._attempted(self._chosen.fields, label)
        metrics = METRICS if context.public_target is None else WITH_REFERENCE
        private = evaluate(fields, settings.epsilon, context.rng("reconstruction", "private"), metrics=metrics)
        if not self._new:
            return CheckpointOutcome(self._chosen, fields, private, None, None)
        controls = self._attempted(self._new, "new forms")
        control = evaluate(controls, settings.epsilon, context.rng("reconstruction", "new"), metrics=metrics)
        permutation = permute_units(
            private,
            control,
            ([field.unit for field in fields], [field.unit for field in controls]),
            settings.ranking,
            context.rng("reconstruction", "exchange"),
            alpha=context.budget.weak,
        )
        return CheckpointOutcome(self._chosen, fields, private, control, permutation)

    def guesses(self) -> Outcome:
        """Places of the truths among the likeliest fillings, of secrets and of all fields."""
        parts = self._context.parts
        texts = Texts([*parts.private, *self._validation], parts.public)
        found = [
            tuple(texts.occurrences(blank.window.form, blank.span.field) for blank, _ in fields)
            for fields in (self._chosen.fields, self._new)
        ]
        private = self._guessed(self._chosen.fields, found[0], "private forms")
        new = self._guessed(self._new, found[1], "new forms")
        return outcome_of(
            private,
            new,
            found[0],
            self._settings.guesses,
            lambda what, guesses: self._context.rng("reconstruction", "guesses", what, guesses),
        )

    def _attempted(self, fields: Sequence[tuple[Blank, Truth]], label: str) -> tuple[Attacked, ...]:
        found = _fill(self._context, self._settings, self._by, fields, label, self._calls)
        if self._context.public_target is not None:
            blanks, reference = [blank for blank, _ in fields], self._context.public_target
            progress, held = self._context.progress, self._context.calls
            calls = held.pair(self._target, reference) if held is not None else None
            found = with_ratios(found, blanks, self._target, reference, progress=progress, label=label, calls=calls)
        return tuple(
            Attacked(self.units.of[blank.window.form.id], truth, guess)
            for (blank, truth), guess in zip(fields, found, strict=True)
        )

    def _guessed(
        self, fields: Sequence[tuple[Blank, Truth]], found: Sequence[Occurrences], label: str
    ) -> tuple[Guessed, ...]:
        context, settings = self._context, self._settings
        attack, public = (
            rank_truths(
                fields,
                by,
                settings.guesses,
                settings.expansions,
                progress=context.progress,
                keep=context.records,
                label=label,
                calls=self._calls,
            )
            for by in self._by
        )
        return tuple(
            Guessed(self.units.of[blank.window.form.id], ours, theirs, where.secret)
            for (blank, _), where, ours, theirs in zip(fields, found, attack, public, strict=True)
        )


def _fill(
    context: FormContext,
    settings: ReconstructionSettings,
    by: tuple[Proposer, Proposer],
    fields: Sequence[tuple[Blank, Truth]],
    label: str,
    calls: Calls[Held] | None = None,
) -> list[Reconstruction]:
    return reconstruct(
        [blank for blank, _ in fields],
        *by,
        settings,
        context.seed,
        progress=context.progress,
        keep=context.records,
        label=label,
        calls=calls,
    )
