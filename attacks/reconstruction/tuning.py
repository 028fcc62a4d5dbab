"""Settings of the attack, tuned on a shadow target: trained on public forms only, as the target was on private ones.

The public forms are divided like all forms. A shadow public model is trained on their public part and a shadow target
on their private part, with the settings that the training records of the two models state. On the shadow target's
fields the truth is known to the attacker, who takes the settings under which it is likeliest. Nothing of a private
form is used. Source: cdmi-reconstruction, appendix A, tunes on the fields that it attacks; shadow models are those of
Shokri et al. 2017.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product

import numpy as np
from numpy.typing import NDArray
from pydantic import JsonValue, TypeAdapter, ValidationError

from pfl_audit.attacks.reconstruction.calls import Pair, PairOpening
from pfl_audit.attacks.reconstruction.context import FormContext
from pfl_audit.attacks.reconstruction.likelihoods import log_softmax, top
from pfl_audit.attacks.reconstruction.plan import Truth, attacked_labels, fields_of
from pfl_audit.attacks.reconstruction.proposals import mix_likelihoods, softmax_temperature
from pfl_audit.attacks.reconstruction.search import held_by
from pfl_audit.attacks.reconstruction.specs import ReconstructionSettings
from pfl_audit.core.fields import Cell
from pfl_audit.core.results import Table
from pfl_audit.documents.forms.form import FormCorpus
from pfl_audit.documents.forms.partition import partition_forms
from pfl_audit.documents.forms.readers.jsonl import write_forms
from pfl_audit.errors import UsageError
from pfl_audit.files import sha256_json
from pfl_audit.metrics.arrays import Floats
from pfl_audit.models.calls import Calls, InTurn, taken
from pfl_audit.models.form_protocol import Attempt, Blank
from pfl_audit.models.open import open_form_model
from pfl_audit.models.openings import FormOpening
from pfl_audit.progress import Task
from pfl_audit.training.forms.run import FormRun, run_form_training
from pfl_audit.training.forms.settings import FormTrainSettings, TrainedPart
from pfl_audit.version import __version__

TUNED = "Tuned on a shadow target"
"""Title of the table: setting, value before, value after; its last row is the likelihood that they give."""
FIELDS = 100
"""Fields of the shadow target that are used at most."""
_SETTINGS_AT_ONCE = 40
"""Settings that one call tries."""
_GRID: Mapping[str, Sequence[object]] = {
    "public_temperature": (0.2, 0.3, 0.5, 1.0, 2.0),
    "decay_start": (1.0, 2.0, 3.0),
    "weight": (0.0, 0.2, 0.4, 0.6, 0.8, 0.9, 0.95),
    "target_temperature": (0.03, 0.1, 0.3, 1.0),
    "mean": ("geometric", "arithmetic"),
}
_OF_MLM = ("public_temperature", "decay_start")
"""Settings that an MLM target's own logits depend on."""
_SETTINGS = TypeAdapter(FormTrainSettings)


@dataclass(frozen=True, eq=False)
class Seen:
    """One token of a field whose truth is known, with the true tokens before it filled in.

    Attributes:
        step: Place of the token in its field, from 0.
        truth: Place of the true token among the candidates.
        logits: float64 (n,), logits of the candidates by the model that names them.
        losses: float64 (n,), the target's losses with each candidate in place; None for an MLM target.
    """

    step: int
    truth: int
    logits: Floats
    losses: Floats | None


@dataclass(frozen=True)
class _Kept:
    """As of Seen, in the store."""

    step: int
    truth: int
    logits: list[float]
    losses: list[float] | None


_RECORD = TypeAdapter(list[_Kept])


def tune(context: FormContext, settings: ReconstructionSettings) -> tuple[ReconstructionSettings, Table]:
    """Settings under which the truth of a shadow target's fields is likeliest, and a table of what changed.

    Raises:
        UsageError: It is not known how the models were trained, or the public forms have no field to tune on.
        AuditError: The shadow models cannot be trained.
    """
    pair, calls, fields = _shadow(context, settings)
    target = pair[1]
    seen = _look(pair, calls, fields, settings.candidates, context)
    if not seen:
        raise UsageError(
            "no field of the public forms is named by the shadow public model, so there is nothing to tune on",
            "Leave out --tune, or give more public forms",
        )
    names = _OF_MLM if target.task == "mlm" else tuple(_GRID)
    grid = list(product(*(_GRID[name] for name in names)))
    tried = [settings.model_copy(update=dict(zip(names, values, strict=True))) for values in grid]
    best, level = settings, likelihood(seen, settings)
    for one, found in zip(tried, _levels(seen, tried, calls, context), strict=True):
        if found > level:
            best, level = one, found
    rows: list[list[Cell]] = [[name, *(_cell(getattr(one, name)) for one in (settings, best))] for name in names]
    rows.append(["log-likelihood of a token", *(round(likelihood(seen, one), 3) for one in (settings, best))])
    kept = " ".join(f"--set reconstruction.{name}={_cell(getattr(best, name))}" for name in names)
    note = (
        f"On {len(fields)} fields of a shadow target that was trained on public forms alone; {len(grid)} settings. "
        f"To attack with them without tuning again: {kept}"
    )
    return best, Table(title=TUNED, columns=["setting", "before", "tuned"], rows=rows, note=note)


def likelihood(seen: Sequence[Seen], settings: ReconstructionSettings) -> float:
    """Mean log-likelihood of the true token under the attack's likelihoods (steps 3 to 5), natural."""
    total = 0.0
    for one in seen:
        log = log_softmax(one.logits, softmax_temperature(settings, one.step))
        if one.losses is not None:
            log = mix_likelihoods(one.losses, log, settings)
        total += max(float(log[one.truth]), -100.0)
    return total / len(seen)


def _levels(
    seen: Sequence[Seen], tried: Sequence[ReconstructionSettings], calls: Calls[Pair], context: FormContext
) -> list[float]:
    """The likelihood of each of some settings."""
    starts = range(0, len(tried), _SETTINGS_AT_ONCE)
    works = [partial(_likelihoods, seen, tried[start : start + _SETTINGS_AT_ONCE]) for start in starts]
    units = [len(tried[start : start + _SETTINGS_AT_ONCE]) for start in starts]
    with context.progress.task("settings of the attack", len(tried)) as task:
        found = dict(taken(calls, works, lambda given: isinstance(given, list), task, units))
    return [level for at in sorted(found) for level in found[at]]


def _likelihoods(seen: Sequence[Seen], tried: Sequence[ReconstructionSettings], pair: Pair, task: Task) -> list[float]:
    return [likelihood(seen, settings) for settings in tried]


def _look(
    pair: Pair,
    calls: Calls[Pair],
    fields: Sequence[tuple[Blank, Truth]],
    candidates: int,
    context: FormContext,
) -> list[Seen]:
    """What the models say of every token of the fields; tokens that are no candidate are left out."""
    identity = [__version__, "cdmi tune", *(model.fingerprint for model in pair), candidates]
    keys = [sha256_json([*identity, held_by(blank), truth]) for blank, truth in fields]
    found = {at: _kept(record) for at, key in enumerate(keys) if (record := context.records.get(key)) is not None}
    pending = [at for at in range(len(fields)) if at not in found]
    works = [partial(_looked, *fields[at], candidates) for at in pending]
    with context.progress.task("fields of the shadow target", len(fields), len(found)) as task:
        for number, seen in taken(calls, works, lambda given: isinstance(given, list), task, [1] * len(works)):
            at = pending[number]
            found[at] = seen
            context.records.put(keys[at], {"seen": [_record_of(one) for one in seen]})
    return [one for at in sorted(found) for one in found[at]]


def _looked(blank: Blank, truth: Truth, candidates: int, pair: Pair, task: Task) -> list[Seen]:
    """What the models say of every token of a field."""
    public, target = pair
    mlm = target.task == "mlm"
    attempts = [Attempt(blank, truth[:step]) for step in range(len(truth))]
    rows: NDArray[np.float32] = (target if mlm else public).token_logits(attempts)
    seen = []
    for step, row in enumerate(rows):
        tokens = top(row, candidates)
        place = np.flatnonzero(tokens == truth[step])
        if not len(place):
            continue
        tried = [Attempt(blank, (*truth[:step], int(token))) for token in tokens]
        losses = None if mlm else np.asarray(target.losses(tried), dtype=np.float64)
        seen.append(Seen(step, int(place[0]), row[tokens].astype(np.float64), losses))
    return seen


def _record_of(one: Seen) -> dict[str, object]:
    losses = None if one.losses is None else one.losses.tolist()
    return {"step": one.step, "truth": one.truth, "logits": one.logits.tolist(), "losses": losses}


def _kept(record: Mapping[str, JsonValue]) -> list[Seen]:
    """As it was put."""
    return [
        Seen(one.step, one.truth, np.array(one.logits), None if one.losses is None else np.array(one.losses))
        for one in _RECORD.validate_python(record["seen"])
    ]


def _shadow(
    context: FormContext, settings: ReconstructionSettings
) -> tuple[Pair, Calls[Pair], tuple[tuple[Blank, Truth], ...]]:
    """Shadow public model and shadow target, what calls them, and fields that the latter was trained on."""
    recipes = [_recipe(record, who) for record, who in zip(context.training, ("public model", "target"), strict=True)]
    if context.states is None:
        raise UsageError("there is no folder for the shadow models", "Leave out --tune")
    corpus = FormCorpus(context.parts.public, "forms.jsonl")
    key = sha256_json([corpus.digest, *(recipe.to_dict() for recipe in recipes)])
    folder = context.states / f"shadow-{key[:16]}"
    write_forms(corpus, folder / "forms")
    starts = (None, folder / "public" / "best-loss")
    parts_of: tuple[TrainedPart, TrainedPart] = ("public", "private")
    for name, part, recipe, start in zip(("public", "target"), parts_of, recipes, starts, strict=True):
        context.progress.say(f"shadow {name}: {recipe.task} for {recipe.epochs} epochs")
        run = FormRun(folder / "forms", folder / name, start, context.device)
        run_form_training(run, replace(recipe, part=part, split_seed=0, keep_every=0), context.progress)
    names = [str(folder / name) for name in ("public/best-loss", "target/best-precision")]
    public, target = (open_form_model(name, device=context.device) for name in names)
    calls: Calls[Pair] = InTurn((public, target))
    workers = context.calls.workers if context.calls is not None else None
    if workers is not None and workers.shares_files:  # the shadow models lie on this machine alone
        first, second = (
            FormOpening(name, context.device, model.fingerprint)
            for name, model in zip(names, (public, target), strict=True)
        )
        calls = workers.calls(PairOpening(first, second))
    parts = partition_forms(corpus, seed=0)
    labels = attacked_labels(settings.labels, corpus.labels)
    few = settings.model_copy(update={"fields": FIELDS})
    return (public, target), calls, fields_of(parts.private, target, few, labels, context.seed).fields


def _recipe(record: Mapping[str, object], who: str) -> FormTrainSettings:
    identity = record.get("identity")
    said = identity.get("settings") if isinstance(identity, dict) else None
    if isinstance(said, dict) and said.get("task") in ("ee-spade", "el"):
        said = {"labelled_tokens": "fields", **said}  # records from before there was a choice
    try:
        return _SETTINGS.validate_python(said)
    except ValidationError as error:
        raise UsageError(
            f"--tune trains a shadow model as the {who} was, whose training.json does not state its settings",
            "Leave out --tune, and give the settings by --set",
        ) from error


def _cell(value: object) -> Cell:
    return value if isinstance(value, (int, float)) else str(value)
