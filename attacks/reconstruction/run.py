"""The checks of the reconstruction of scrubbed fields, run."""

from __future__ import annotations

from collections.abc import Sequence

from pfl_audit.attacks.reconstruction import present
from pfl_audit.attacks.reconstruction.attack import MULTI_SHOT, ONE_SHOT, ReconstructionSettings
from pfl_audit.attacks.reconstruction.context import FormContext
from pfl_audit.attacks.reconstruction.document_permutation import permute_documents
from pfl_audit.attacks.reconstruction.evaluation import evaluate
from pfl_audit.attacks.reconstruction.outcomes import Attacked, CheckpointOutcome
from pfl_audit.attacks.reconstruction.plan import Chosen, Truth, choose, count_passes
from pfl_audit.attacks.reconstruction.search import Reconstruction, reconstruct
from pfl_audit.core.redaction import visible
from pfl_audit.core.results import Check
from pfl_audit.documents.forms.form import Form
from pfl_audit.errors import UsageError
from pfl_audit.models.form_protocol import Blank, FormModel

_ANSWER = "answer"
_COMPARED = 8
"""Fields by which a coarser precision is judged."""
_LISTED = 20


def run_checks(context: FormContext, settings: ReconstructionSettings) -> list[Check]:
    """Attack, and say what was found in the checks that were chosen.

    Raises:
        UsageError: No form has a label that is asked for.
    """
    wanted = [spec for spec in (ONE_SHOT, MULTI_SHOT) if spec.id in context.checks]
    labels = _labels(settings.labels, context.corpus.labels)
    chosen, lost = _fields(context, settings, labels, context.parts.private)
    if not chosen.fields:
        names = " or ".join(visible(label, 60) for label in labels[:_LISTED])
        reason = (
            f"no field of the private forms labelled {names or 'at all'} "
            f"has {settings.shortest} to {settings.longest} tokens ({len(chosen.too_short)} are shorter, "
            f"{len(chosen.too_long)} longer, {len(lost)} not read whole by the model)"
        )
        return [spec.not_run("skipped", reason) for spec in wanted]
    new = _fields(context, settings, labels, context.parts.validation)[0] if settings.control else None
    _tell(context, settings, chosen, new)
    target, precision = _quickest(context, settings, chosen)
    outcome = _attack(context, settings, target, chosen, lost, new, "private forms")
    epochs = {
        epoch: _attack(context, settings, open_epoch(), chosen, lost, None, f"epoch {epoch}")
        for epoch, open_epoch in context.epochs.items()
    }
    say = present.Presenter(context, settings, precision)
    return [
        say.one_shot(ONE_SHOT, outcome, epochs) if spec is ONE_SHOT else say.multi_shot(MULTI_SHOT, outcome)
        for spec in wanted
    ]


def _fields(
    context: FormContext, settings: ReconstructionSettings, labels: Sequence[str], forms: Sequence[Form]
) -> tuple[Chosen, tuple[tuple[str, str], ...]]:
    """The fields to attack; and those that the model cannot read whole, which are none of its blanks."""
    pairs = [pair for form in forms for pair in context.target.blanks(form) if pair[0].span.field.label in labels]
    read = {(blank.window.form.id, blank.span.field.id) for blank, _ in pairs}
    named = [(form.id, field.id) for form in forms for field in form.fields if field.label in labels]
    return choose(pairs, settings, context.seed), tuple(name for name in named if name not in read)


def _labels(wanted: Sequence[str], known: Sequence[str]) -> tuple[str, ...]:
    """What is asked for, or what is personal on a form: the answers where these have a label (section 5.1).

    Raises:
        UsageError: No form has such a label.
    """
    if unknown := [label for label in wanted if label not in known]:
        raise UsageError(
            f"no form has a field of label '{visible(unknown[0], 60)}'",
            f"Choose among: {', '.join(visible(label, 60) for label in known[:_LISTED])}",
        )
    return tuple(wanted) or ((_ANSWER,) if _ANSWER in known else tuple(known))


def _tell(context: FormContext, settings: ReconstructionSettings, chosen: Chosen, new: Chosen | None) -> None:
    """How much work it will be; how long, the progress shows after the first fields."""
    rounds = 1 + len(context.epochs)
    fields = [blank for blank, _ in chosen.fields * rounds + (new.fields if new is not None else ())]
    passes = count_passes(fields, settings, mlm=context.target.task == "mlm")
    over = f" (over {rounds} checkpoints)" if rounds > 1 else ""
    context.progress.say(
        f"{len(fields)} fields{over}: {passes.target_least:,} to {passes.target_most:,} forward passes of the target, "
        f"{passes.public_least:,} to {passes.public_most:,} of the public model"
    )


def _quickest(context: FormContext, settings: ReconstructionSettings, chosen: Chosen) -> tuple[FormModel, str]:
    """The coarser target where it fills the first fields in as the exact one does, token for token; and what to say."""
    if context.quick is None:
        return context.target, "float32"
    first = chosen.fields[:_COMPARED]
    exact = _fill(context, settings, context.target, first, "in full precision")
    coarse = _fill(context, settings, context.quick, first, "in coarser precision")
    same = all(
        one.tokens == other.tokens
        for here, there in zip(exact, coarse, strict=True)
        for one, other in zip(here.attack, there.attack, strict=True)
    )
    found = f"{len(first)} fields come out {'the same' if same else 'otherwise'} in coarser precision"
    context.progress.say(found)
    return (context.quick, f"coarser: {found}") if same else (context.target, f"float32: {found}")


def _attack(
    context: FormContext,
    settings: ReconstructionSettings,
    target: FormModel,
    chosen: Chosen,
    lost: tuple[tuple[str, str], ...],
    new: Chosen | None,
    label: str,
) -> CheckpointOutcome:
    def attacked(some: Chosen, what: str) -> tuple[Attacked, ...]:
        found = _fill(context, settings, target, some.fields, what)
        return tuple(
            Attacked(blank.window.form.document.file, truth, guess)
            for (blank, truth), guess in zip(some.fields, found, strict=True)
        )

    fields = attacked(chosen, label)
    private = evaluate(fields, settings.epsilon, context.rng("reconstruction", "private"))
    if new is None or not new.fields:
        return CheckpointOutcome(chosen, lost, fields, private, None, None)
    controls = attacked(new, "new forms")
    control = evaluate(controls, settings.epsilon, context.rng("reconstruction", "new"))
    permutation = permute_documents(
        private,
        control,
        ([field.document for field in fields], [field.document for field in controls]),
        settings.epsilon,
        settings.ranking,
        context.rng("reconstruction", "exchange"),
    )
    return CheckpointOutcome(chosen, lost, fields, private, control, permutation)


def _fill(
    context: FormContext,
    settings: ReconstructionSettings,
    target: FormModel,
    fields: Sequence[tuple[Blank, Truth]],
    label: str,
) -> list[Reconstruction]:
    return reconstruct(
        [blank for blank, _ in fields],
        context.public,
        target,
        settings,
        context.seed,
        progress=context.progress,
        keep=context.records,
        label=label,
    )
