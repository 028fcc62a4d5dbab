"""Metrics, tables, curves and findings of reconstructions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final

from pfl_audit.attacks.reconstruction import similarity
from pfl_audit.attacks.reconstruction.attack import ReconstructionSettings
from pfl_audit.attacks.reconstruction.context import FormContext
from pfl_audit.attacks.reconstruction.evidence import place_of, show_reconstructions
from pfl_audit.attacks.reconstruction.outcomes import SHARES, CheckpointOutcome, Compared, Evaluation, MultiShot
from pfl_audit.core.attack import CheckSpec
from pfl_audit.core.fields import Cell
from pfl_audit.core.frequencies import hundredths, out_of
from pfl_audit.core.metric import bootstrap_over, build_metric
from pfl_audit.core.remedies import NO_SCORES, private_training
from pfl_audit.core.results import Check, Curve, Finding, Format, Metric, Series, SliceValue, Table
from pfl_audit.core.verdict import at_most_weak, level_of
from pfl_audit.metrics.intervals import Estimate

REMEDIES = [
    "Do not hand out the weights of a model that was trained on documents like these.",
    private_training("documents"),
    "Do not share the scrubbed documents.",
    NO_SCORES,
    "Limit repeated queries on one page.",
]
IMPROVEMENT = "improvement factor"
GAIN = "AccAUC over public knowledge"
FEWEST_DOCUMENTS = 10
_READ = {
    "PR": "perfect reconstructions",
    "HD": "Hamming distance",
    "LD": "Levenshtein distance",
    "JWD": "Jaro-Winkler distance",
}
_FIRST = {name: f"{name} of the first 10 % over the average" for name in ("PR", "Hamming similarity")}
_FORMATS: Final[dict[str, Format]] = dict.fromkeys((_READ["PR"], _FIRST["PR"], *SHARES), "percent")
"""Formats of metrics that are shares of fields."""
_PRIVATE, _NEW = "private forms", "new forms"


class Presenter:
    """Builds the checks of one audit.

    Args:
        precision: Precision of the model under audit, and what was found about it.
    """

    def __init__(self, context: FormContext, settings: ReconstructionSettings, precision: str = "float32") -> None:
        self._context = context
        self._settings = settings
        self._precision = precision

    def one_shot(self, spec: CheckSpec, outcome: CheckpointOutcome, epochs: Mapping[int, CheckpointOutcome]) -> Check:
        """The first attempt at every field, and where they were given, at checkpoints of earlier epochs."""
        found = {fields: evaluation.one_shot for fields, evaluation in _evaluations(outcome).items()}
        private, new = found[_PRIVATE], found.get(_NEW)
        text = (
            f"Of {outcome.private.fields} fields of {outcome.private.documents} documents, the attack puts "
            f"{_share(private.scores['PR'].attack)} back without an error, public knowledge alone "
            f"{_share(private.scores['PR'].baseline)}; improvement factor {private.improvement.text()}, where 1 is no "
            "better"
        )
        if new is not None:
            text += f", and {new.improvement.text()} on forms that the model has never seen"
        p_value = outcome.permutation.improvement if outcome.permutation else None
        metrics = [_metric(IMPROVEMENT, shot.improvement, outcome, fields, 1.0) for fields, shot in found.items()]
        for fields, shot in found.items():
            for name in similarity.NAMES:
                metrics += _both(_READ[name], shot.scores[name], outcome, fields)
        return spec.ran(
            settings=self._said(),
            metrics=metrics,
            tables=[self._by_label(outcome), self._left_out(outcome)],
            curves=_epoch_curves(epochs),
            finding=self._finding(
                _plain(private.scores["PR"], outcome.private.fields, ""),
                private.scores["PR"],
                text,
                IMPROVEMENT,
                1.0,
                private.improvement,
                new.improvement if new else None,
                p_value,
                outcome,
            ),
        )

    def multi_shot(self, spec: CheckSpec, outcome: CheckpointOutcome) -> Check:
        """The most plausible attempt at every field, and the fields in the order of their plausibility."""
        ranking = self._settings.ranking
        found = {fields: one.multi_shot[ranking] for fields, one in _evaluations(outcome).items()}
        private, new = found[_PRIVATE], found.get(_NEW)
        scores, gain = private.scores, private.scores["AccAUC"].difference
        text = (
            f"Of the 5 % of the fields that the attacker believes in most, {_share(scores['AccAt 5 %'].attack)} are "
            f"without an error (public knowledge alone: {_share(scores['AccAt 5 %'].baseline)}); AccAUC "
            f"{scores['AccAUC'].attack.text()} against {scores['AccAUC'].baseline.text()}"
        )
        p_value = outcome.permutation.gain if outcome.permutation else None
        metrics = [_metric(GAIN, gain, outcome, _PRIVATE, 0.0)]
        for fields, shot in found.items():
            for name, score in shot.scores.items():
                metrics += _both(name, score, outcome, fields)
        metrics += [_metric(_FIRST[name], one, outcome, _PRIVATE, 0.0) for name, one in private.first.items()]
        return spec.ran(
            settings=self._said(),
            metrics=metrics,
            tables=[self._perfect(outcome), self._rankings(outcome.private)],
            curves=_curves(private),
            evidence=show_reconstructions(self._context, outcome, ranking),
            finding=self._finding(
                _plain(scores["AccAt 5 %"], None, " among the surest 5 %"),
                scores["AccAt 5 %"],
                text,
                GAIN,
                0.0,
                gain,
                new.scores["AccAUC"].difference if new else None,
                p_value,
                outcome,
            ),
        )

    def _finding(
        self,
        plain: str,
        share: Compared,
        text: str,
        metric: str,
        chance: float,
        found: Estimate,
        new: Estimate | None,
        p_value: float | None,
        outcome: CheckpointOutcome,
    ) -> Finding:
        """Both must be sure: better than public knowledge, and better so than on forms that are new to the model.

        Of the second the bootstrap and a permutation of the documents must be sure alike.

        Without such forms, memory of these forms cannot be distinguished from knowing their kind: a weak sign at most.
        """
        documents = min(some.documents for some in _evaluations(outcome).values())
        effects, p_values = [found.above(chance)], []
        if new is not None and p_value is not None:
            text += f"; permutation p {p_value:.4f}"
            effects.append(found.minus(new).above(0.0))
            p_values.append(p_value)
        level = level_of(p_values, effects, self._context.budget, enough=documents >= FEWEST_DOCUMENTS)
        few = f"{documents} (ids are read as document_page), not {FEWEST_DOCUMENTS}"
        why = "it is too weak for one of several checks"
        if not p_values:
            level = at_most_weak(level)
            why = "without forms that are new to the model, it may know no more than their kind"
        end = {
            "leak": "",
            "weak": f" That is a sign; {why}.",
            "none": " That is no evidence that these forms are remembered.",
            "unresolved": f" Too few documents to tell: {few}.",
        }[level]
        return Finding(
            level=level,
            text=f"{text}.{end}",
            remedy=" ".join(REMEDIES),
            remedies=REMEDIES if level in ("leak", "weak") else [],
            plain=plain + {"leak": "", "weak": " This is a sign, not proof."}.get(level, end),
            success=share.attack.value,
            false_alarms=share.baseline.value,
            metric=metric,
            slice=_slice(_PRIVATE, "the attack"),
        )

    def _perfect(self, outcome: CheckpointOutcome) -> Table:
        """What came back without an error, masked, by rank."""
        hide, pick = self._context.redactor, outcome.private.multi_shot[self._settings.ranking].attack
        often = Counter(form.text(field).casefold() for form in self._context.parts.private for field in form.fields)
        public = Counter(form.text(field).casefold() for form in self._context.parts.public for field in form.fields)
        rows: list[list[Cell]] = []
        for rank, place in enumerate(pick.order, start=1):
            if pick.values[place, 0]:
                blank = outcome.chosen.fields[place][0]
                form, field = blank.window.form, blank.span.field
                text = form.text(field)
                seen = often[text.casefold()], public[text.casefold()]
                numbers = (hide.count(number) for number in (blank.length, *seen))
                rows.append([rank, place_of(hide, form, field), field.label, hide.value(text), *numbers])
        return Table(
            title="Fields that came back without an error",
            columns=["rank", "form", "label", "value", "tokens", "fields with it, private", "public"],
            rows=rows,
            note=f"Of {len(outcome.fields)} fields, in the order in which the attacker believes in them. A value that "
            "stands in public forms as well may have been guessed.",
        )

    def _rankings(self, private: Evaluation) -> Table:
        """Every membership metric."""
        names = ["AccAUC", "HamAAC", "AccAt 1 %", "AccAt 5 %", "AccAt 100 %"]
        rows: list[list[Cell]] = [
            [name, *(found.scores[score].attack.text() for score in names)]
            for name, found in private.multi_shot.items()
        ]
        some = next(iter(private.multi_shot.values()))
        rows.append(["public knowledge alone", *(some.scores[score].baseline.text() for score in names)])
        return Table(
            title="By membership metric",
            columns=["metric", *names],
            rows=rows,
            note=f"The finding goes by the {self._settings.ranking}; the metric was fixed before the attack.",
        )

    def _by_label(self, outcome: CheckpointOutcome) -> Table:
        both = outcome.private.one_shot.attack, outcome.private.one_shot.baseline
        places: dict[str, list[int]] = {}
        for place, (blank, _) in enumerate(outcome.chosen.fields):
            places.setdefault(blank.span.field.label, []).append(place)
        rows: list[list[Cell]] = [
            [
                label,
                len(mine),
                *(int(values[mine, 0].sum()) for values in both),
                *(round(float(values[mine, 1].mean()), 3) for values in both),
            ]
            for label, mine in sorted(places.items())
        ]
        columns = ["label", "fields", "perfect", "perfect, public alone", "Hamming distance", "the same, public alone"]
        return Table(title="By label, one attempt", columns=columns, rows=rows)

    def _left_out(self, outcome: CheckpointOutcome) -> Table:
        """Fields that were not attacked, by label and reason."""
        chosen, hide = outcome.chosen, self._context.redactor.within("not attacked")
        labels = {(form.id, field.id): field.label for form in self._context.parts.private for field in form.fields}
        found = sorted(
            (hide.page(form), labels[form, field], reason)
            for reason, some in (
                ("too short", chosen.too_short),
                ("too long", chosen.too_long),
                ("not read whole", outcome.lost),
            )
            for form, field in some
        )
        rows: list[list[Cell]] = [[*row] for row in found]
        note = f"Attacked are fields of {self._settings.shortest} to {self._settings.longest} tokens."
        if outcome.lost:
            note += " Not read whole: a token is unknown to the model, none is left, or the field exceeds its window."
        if chosen.not_drawn:
            note += f" {chosen.not_drawn} more were not drawn."
        return Table(title="Fields that were not attacked", columns=["form", "label", "reason"], rows=rows, note=note)

    def _said(self) -> dict[str, object]:
        context = self._context
        return {
            **self._settings.model_dump(mode="json"),
            "alpha": context.budget.leak,
            "precision": self._precision,
            "target task": context.target.task,
            "target family": context.target.family,
            "public model": context.public.describe()["sha256"],
        }


def _evaluations(outcome: CheckpointOutcome) -> dict[str, Evaluation]:
    """Scores by whose fields they are: those of private and, where there are any, of new forms."""
    return {_PRIVATE: outcome.private, **({_NEW: outcome.new} if outcome.new is not None else {})}


def _slice(fields: str, attacker: str) -> dict[str, SliceValue]:
    return {"model": "target", "fields": fields, "with": attacker}


def _metric(
    name: str,
    found: Estimate,
    outcome: CheckpointOutcome,
    fields: str,
    chance: float | None = None,
    attacker: str = "the attack",
) -> Metric:
    return build_metric(
        name,
        found,
        format=_FORMATS.get(name, "decimal"),
        n=_evaluations(outcome)[fields].documents,
        unit="documents",
        method=bootstrap_over("documents"),
        chance=chance,
        about=_slice(fields, attacker),
    )


def _both(name: str, found: Compared, outcome: CheckpointOutcome, fields: str) -> list[Metric]:
    return [
        _metric(name, found.attack, outcome, fields),
        _metric(name, found.baseline, outcome, fields, attacker="public knowledge alone"),
    ]


def _curves(found: MultiShot) -> list[Curve]:
    parts = ((found.attack, "attack"), (found.baseline, "public knowledge alone"))
    kinds = (
        ("AccAt(p)", "fields without an error", "acc_at"),
        ("HamAt(p)", "wrong tokens (Hamming distance)", "ham_at"),
    )
    return [
        Curve(
            title=title,
            kind="step",
            x_label="share of the fields, the most believed in first (p)",
            y_label=label,
            series=[
                Series(name=name, x=pick.shares.round(5).tolist(), y=getattr(pick, values).round(5).tolist())
                for pick, name in parts
            ],
        )
        for title, label, values in kinds
    ]


def _epoch_curves(epochs: Mapping[int, CheckpointOutcome]) -> list[Curve]:
    """How the attack fares as training goes on."""
    if not epochs:
        return []
    found = [outcome.private.one_shot.improvement for outcome in epochs.values()]
    series = [
        Series(
            name=IMPROVEMENT,
            x=list(epochs),
            y=[one.value for one in found],
            low=[one.low for one in found],
            high=[one.high for one in found],
        ),
        Series(name="no better", x=list(epochs), y=[1.0] * len(found)),
    ]
    return [Curve(title="Over the training", kind="line", x_label="epoch", y_label=IMPROVEMENT, series=series)]


def _share(found: Estimate) -> str:
    return found.text(".1%").replace("%", " %")


def _plain(share: Compared, fields: int | None, which: str) -> str:
    """How many fields come back, and how many by public knowledge alone."""
    cases, count = out_of(share.attack.value, fields, f"blacked-out fields{which}")
    return (
        f"{cases[:1].upper()}{cases[1:]}, somebody who has the model's weights fills in {count} without an error; with "
        f"public knowledge alone, {hundredths(share.baseline.value)}."
    )
