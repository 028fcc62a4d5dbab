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
from pfl_audit.core.metric import bootstrap_over, build_metric
from pfl_audit.core.results import Check, Curve, Finding, Format, Metric, Series, SliceValue, Table
from pfl_audit.core.verdict import at_most_weak, level_of
from pfl_audit.documents.forms.form import Field, Form
from pfl_audit.metrics.intervals import Estimate, estimate

REMEDY = (
    "Do not hand out the weights of a model that was trained on documents like these; behind an interface, give no "
    "scores and limit repeated queries on one page; do not share the scrubbed documents; train with "
    "differential privacy."
)
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
_TARGET: dict[str, SliceValue] = {"model": "target"}
_PRIVATE: dict[str, SliceValue] = {"fields": "private forms", "with": "the attack"}
_NEW: dict[str, SliceValue] = {"fields": "new forms", "with": "the attack"}


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
        private, new = outcome.private, outcome.new
        metrics = [_metric(IMPROVEMENT, private.one_shot.improvement, private, _PRIVATE, chance=1.0)]
        if new is not None:
            metrics.append(_metric(IMPROVEMENT, new.one_shot.improvement, new, _NEW, chance=1.0))
        for found, fields in ((private, "private forms"), (new, "new forms")):
            if found is not None:
                for name in similarity.NAMES:
                    metrics += _both(_READ[name], found.one_shot.scores[name], found, fields)
        return spec.ran(
            settings=self._said(),
            metrics=metrics,
            tables=[self._by_label(outcome), self._left_out(outcome)],
            curves=_epoch_curves(epochs),
            finding=self._one_shot_finding(outcome),
        )

    def multi_shot(self, spec: CheckSpec, outcome: CheckpointOutcome) -> Check:
        """The most plausible attempt at every field, and the fields in the order of their plausibility."""
        private, new, ranking = outcome.private, outcome.new, self._settings.ranking
        metrics = [
            _metric(GAIN, private.multi_shot[ranking].scores["AccAUC"].difference, private, _PRIVATE, chance=0.0)
        ]
        for found, fields in ((private, "private forms"), (new, "new forms")):
            if found is not None:
                for name, score in found.multi_shot[ranking].scores.items():
                    metrics += _both(name, score, found, fields)
        first = private.multi_shot[ranking].first
        metrics += [_metric(_FIRST[name], first[name], private, _PRIVATE, chance=0.0) for name in first]
        return spec.ran(
            settings=self._said(),
            metrics=metrics,
            tables=[self._perfect(outcome), self._rankings(private)],
            curves=_curves(private.multi_shot[ranking]),
            evidence=show_reconstructions(self._context, outcome, ranking),
            finding=self._multi_shot_finding(outcome),
        )

    def _one_shot_finding(self, outcome: CheckpointOutcome) -> Finding:
        private, new, permutation = outcome.private, outcome.new, outcome.permutation
        found = private.one_shot.improvement
        control = (_gap(found, new.one_shot.improvement), permutation.improvement) if new and permutation else None
        perfect = private.one_shot.scores["PR"]
        text = (
            f"Of {private.fields} fields of {private.documents} documents, the attack puts {_share(perfect.attack)} "
            f"back without an error, public knowledge alone {_share(perfect.baseline)}; improvement factor "
            f"{found.text('.3f')}, where 1 is no better"
        )
        if new is not None:
            text += f", and {new.one_shot.improvement.text('.3f')} on forms that the model has never seen"
        return self._finding(text, IMPROVEMENT, found, 1.0, control, (private, new))

    def _multi_shot_finding(self, outcome: CheckpointOutcome) -> Finding:
        private, new, permutation = outcome.private, outcome.new, outcome.permutation
        ranking = self._settings.ranking
        found = private.multi_shot[ranking].scores["AccAUC"].difference
        there = new.multi_shot[ranking].scores["AccAUC"].difference if new else None
        control = (_gap(found, there), permutation.gain) if there and permutation else None
        scores = private.multi_shot[ranking].scores
        text = (
            f"Of the 5 % of the fields that the attacker believes in most, {_share(scores['AccAt 5 %'].attack)} are "
            f"without an error (public knowledge alone: {_share(scores['AccAt 5 %'].baseline)}); AccAUC "
            f"{scores['AccAUC'].attack.text('.3f')} against {scores['AccAUC'].baseline.text('.3f')}"
        )
        return self._finding(text, GAIN, found, 0.0, control, (private, new))

    def _finding(
        self,
        text: str,
        metric: str,
        found: Estimate,
        chance: float,
        control: tuple[Estimate, float] | None,
        by: tuple[Evaluation, Evaluation | None],
    ) -> Finding:
        """Both must be sure: better than public knowledge, and better so than on forms that are new to the model.

        Of the second the bootstrap and a permutation of the documents must be sure alike.

        Without such forms, memory of these forms cannot be distinguished from knowing their kind: a weak sign at most.
        """
        documents = min(some.documents for some in by if some is not None)
        effects, p_values = [found.above(chance)], []
        if control is not None:
            gap, p_value = control
            text += f"; permutation p {p_value:.4f}"
            effects.append(gap.above(0.0))
            p_values.append(p_value)
        level = level_of(p_values, effects, self._context.budget, enough=documents >= FEWEST_DOCUMENTS)
        few = f"{documents} (ids are read as document_page), not {FEWEST_DOCUMENTS}"
        why = "it is too weak for one of several checks"
        if control is None:
            level = at_most_weak(level)
            why = "without forms that are new to the model, it may know no more than their kind"
        end = {
            "leak": "",
            "weak": f" That is a sign; {why}.",
            "none": " That is no evidence that these forms are remembered.",
            "unresolved": f" Too few documents to tell: {few}.",
        }[level]
        return Finding(level=level, text=f"{text}.{end}", remedy=REMEDY, metric=metric, slice={**_TARGET, **_PRIVATE})

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
        values, baseline = outcome.private.one_shot.attack, outcome.private.one_shot.baseline
        places: dict[str, list[int]] = {}
        for place, (blank, _) in enumerate(outcome.chosen.fields):
            places.setdefault(blank.span.field.label, []).append(place)
        rows: list[list[Cell]] = [
            [
                label,
                len(mine),
                int(values[mine, 0].sum()),
                int(baseline[mine, 0].sum()),
                round(float(values[mine, 1].mean()), 3),
                round(float(baseline[mine, 1].mean()), 3),
            ]
            for label, mine in sorted(places.items())
        ]
        columns = ["label", "fields", "perfect", "perfect, public alone", "Hamming distance", "the same, public alone"]
        return Table(title="By label, one attempt", columns=columns, rows=rows)

    def _left_out(self, outcome: CheckpointOutcome) -> Table:
        """Fields that were not attacked, by label and reason."""
        chosen, hide = outcome.chosen, self._context.redactor.within("not attacked")
        forms = {form.id: form for form in self._context.parts.private}
        found = sorted(
            (hide.page(form), _field(forms[form], field).label, reason)
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


def _metric(
    name: str, found: Estimate, by: Evaluation, about: dict[str, SliceValue], *, chance: float | None = None
) -> Metric:
    return build_metric(
        name,
        found,
        format=_FORMATS.get(name, "decimal"),
        n=by.documents,
        unit="documents",
        method=bootstrap_over("documents"),
        chance=chance,
        about={**_TARGET, **about},
    )


def _both(name: str, found: Compared, by: Evaluation, fields: str) -> list[Metric]:
    return [
        _metric(name, one, by, {"fields": fields, "with": what})
        for one, what in ((found.attack, "the attack"), (found.baseline, "public knowledge alone"))
    ]


def _gap(here: Estimate, there: Estimate) -> Estimate:
    """How much larger a number is here than there, from independent resamples."""
    return estimate(here.value - there.value, here.samples - there.samples)


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


def _field(form: Form, name: str) -> Field:
    return next(field for field in form.fields if field.id == name)


def _share(found: Estimate) -> str:
    return found.text(".1%").replace("%", " %")
