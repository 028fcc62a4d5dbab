"""Reconstruction of scrubbed fields: CDMI against encoders of forms.

Source: cdmi-reconstruction, sections 3 to 5.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pfl_audit.attacks.reconstruction import present
from pfl_audit.attacks.reconstruction.evaluation import evaluate
from pfl_audit.attacks.reconstruction.outcomes import Attacked, Evaluation
from pfl_audit.attacks.reconstruction.plan import Chosen, choose, count_passes
from pfl_audit.attacks.reconstruction.search import reconstruct
from pfl_audit.attacks.reconstruction.settings import ReconstructionSettings

from pfl_audit.audit.attack import CheckSpec, FormContext, Need, Resource
from pfl_audit.audit.results import Check
from pfl_audit.documents.forms.form import Form
from pfl_audit.models.form_protocol import FormModel
from pfl_audit.models.protocol import Capability

_NEEDS: frozenset[Need] = frozenset({Capability.FORM_LOSS, Resource.FORMS, Resource.PUBLIC})
_THREAT = {
    "knows": "the form with one field scrubbed, the field's label, place and number of tokens, and public forms of the "
    "same kind",
    "sees": "weights and architecture of the model, and so its loss for any way to fill the form in",
}
ONE_SHOT = CheckSpec(
    "reconstruction.one_shot",
    "Reconstruction of scrubbed fields, one attempt each",
    _NEEDS,
    {**_THREAT, "does": "fills the field in token by token, once"},
)
MULTI_SHOT = CheckSpec(
    "reconstruction.multi_shot",
    "Reconstruction of scrubbed fields, the most plausible of several attempts",
    _NEEDS,
    {
        **_THREAT,
        "does": "fills every field in several times, and believes what is likelier to the model than it should be",
    },
)
_ANSWER = "answer"
_COMPARED = 8
"""Fields by which a coarser precision is judged."""


@dataclass(frozen=True)
class Outcome:
    """What an attack on one checkpoint gave.

    Attributes:
        chosen: Fields of the forms that it was trained on.
        fields: The same with what was put there.
        private: Scores on them.
        new: Scores on fields of forms that it has never seen, or None.
    """

    chosen: Chosen
    fields: tuple[Attacked, ...]
    private: Evaluation
    new: Evaluation | None


class ReconstructionAttack:
    """One shot and several, on the same attempts."""

    name = "reconstruction"
    specs = (ONE_SHOT, MULTI_SHOT)
    Settings = ReconstructionSettings

    def run(self, context: FormContext, settings: ReconstructionSettings) -> list[Check]:
        """Attack, and say what was found in the checks that were chosen."""
        wanted = [spec for spec in self.specs if spec.id in context.checks]
        chosen = _fields(context, settings, context.parts.private)
        if not chosen.fields:
            reason = (
                f"no field of the private forms has {settings.shortest} to {settings.longest} tokens "
                f"({len(chosen.too_short)} are shorter, {len(chosen.too_long)} longer)"
            )
            return [spec.not_run("skipped", reason) for spec in wanted]
        new = _fields(context, settings, context.parts.validation) if settings.control else None
        _tell(context, settings, chosen, new)
        target = _quickest(context, settings, chosen)
        outcome = _attack(context, settings, target, chosen, new, "private forms")
        epochs = {
            epoch: _attack(context, settings, open_epoch(), chosen, None, f"epoch {epoch}")
            for epoch, open_epoch in context.epochs.items()
        }
        say = present.Presenter(context, settings)
        return [
            say.one_shot(ONE_SHOT, outcome, epochs) if spec is ONE_SHOT else say.multi_shot(MULTI_SHOT, outcome)
            for spec in wanted
        ]


def _fields(context: FormContext, settings: ReconstructionSettings, forms: Sequence[Form]) -> Chosen:
    labels = settings.labels or _labels(context.corpus.labels)
    pairs = [pair for form in forms for pair in context.target.blanks(form) if pair[0].span.field.label in labels]
    return choose(pairs, settings, context.seed)


def _labels(known: Sequence[str]) -> tuple[str, ...]:
    """What is personal on a form: the answers, where they are told from questions (section 5.1), else everything."""
    return (_ANSWER,) if _ANSWER in known else tuple(known)


def _tell(context: FormContext, settings: ReconstructionSettings, chosen: Chosen, new: Chosen | None) -> None:
    """How much work it will be; how long, the progress tells after the first fields."""
    every = [blank for some in (chosen, new) if some is not None for blank, _ in some.fields]
    passes = count_passes(every, settings, mlm=context.target.task == "mlm")
    context.progress.say(
        f"{len(every)} fields: {passes.target_least:,} to {passes.target_most:,} forward passes of the target, "
        f"{passes.public_least:,} to {passes.public_most:,} of the public model"
    )


def _quickest(context: FormContext, settings: ReconstructionSettings, chosen: Chosen) -> FormModel:
    """The coarser target where it fills the first fields in as the exact one does, token for token."""
    if context.quick is None:
        return context.target
    first = [blank for blank, _ in chosen.fields[:_COMPARED]]
    exact, coarse = (
        reconstruct(first, context.public, target, settings, context.seed, progress=context.progress, label="precision")
        for target in (context.target, context.quick)
    )
    same = all(
        one.tokens == other.tokens
        for here, there in zip(exact, coarse, strict=True)
        for one, other in zip(here.attack, there.attack, strict=True)
    )
    context.progress.say(f"{len(first)} fields come out {'the same' if same else 'otherwise'} in coarser precision")
    return context.quick if same else context.target


def _attack(
    context: FormContext,
    settings: ReconstructionSettings,
    target: FormModel,
    chosen: Chosen,
    new: Chosen | None,
    label: str,
) -> Outcome:
    def fill(some: Chosen, what: str) -> tuple[Attacked, ...]:
        found = reconstruct(
            [blank for blank, _ in some.fields],
            context.public,
            target,
            settings,
            context.seed,
            progress=context.progress,
            keep=context.records,
            label=what,
        )
        return tuple(
            Attacked(blank.window.form.document.file, truth, guess)
            for (blank, truth), guess in zip(some.fields, found, strict=True)
        )

    fields = fill(chosen, label)
    private = evaluate(fields, settings.epsilon, context.rng("reconstruction", "private"))
    if new is None or not new.fields:
        return Outcome(chosen, fields, private, None)
    control = evaluate(fill(new, "new forms"), settings.epsilon, context.rng("reconstruction", "new"))
    return Outcome(chosen, fields, private, control)


ATTACK = ReconstructionAttack()
