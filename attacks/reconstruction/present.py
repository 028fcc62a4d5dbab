"""Metrics, tables, curves and findings of reconstructions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final

import numpy as np

from pfl_audit.attacks.guesses.present import share
from pfl_audit.attacks.guesses.putting_back import FEWEST_UNITS
from pfl_audit.attacks.reconstruction import measures
from pfl_audit.attacks.reconstruction.context import FormContext
from pfl_audit.attacks.reconstruction.evidence import place_of, show_reconstructions
from pfl_audit.attacks.reconstruction.finding import (
    ELSEWHERE,
    finding_of,
    learnt_little,
    memory_level,
    smallest_difference,
)
from pfl_audit.attacks.reconstruction.outcomes import SHARES, CheckpointOutcome, Compared, Evaluation, MultiShot
from pfl_audit.attacks.reconstruction.specs import ReconstructionSettings
from pfl_audit.attacks.reconstruction.units import Units
from pfl_audit.core.attack import CheckSpec
from pfl_audit.core.fields import Cell
from pfl_audit.core.frequencies import hundredths, out_of
from pfl_audit.core.metric import bootstrap_over, build_metric
from pfl_audit.core.results import Check, Curve, Finding, Format, Level, Metric, Series, SliceValue, Table
from pfl_audit.metrics.intervals import Estimate

IMPROVEMENT = "improvement factor"
TOKENS = "right tokens over public knowledge"
PERFECT = "perfect reconstructions over public knowledge"
GAIN = "AccAUC over public knowledge"
_READ = {
    "PR": "perfect reconstructions",
    "HD": "Hamming distance",
    "LD": "Levenshtein distance",
    "JWD": "Jaro-Winkler distance",
}
_FIRST = {name: f"{name} of the first 10 % over the average" for name in ("PR", "Hamming similarity")}
_FORMATS: Final[dict[str, Format]] = dict.fromkeys((TOKENS, PERFECT, _READ["PR"], _FIRST["PR"], *SHARES), "percent")
"""Formats of metrics that are shares of fields."""
PRIVATE, NEW = "private forms", "new forms"
_ALIKE = 1e-9
DISAGREE = (
    "A permutation of the units finds a difference between private and new forms, but an interval by resampling holds "
    "0: more units are needed to tell."
)
BELOW = (
    "A permutation of the units finds a difference between private and new forms, but on private forms the attack does "
    "no better than public knowledge alone: another --public, or --tune, may tell."
)


class Presenter:
    """Builds the checks of one audit.

    Args:
        units: Units that intervals and permutations go by.
        precision: Precision of the model under audit, and what was found about it.
    """

    def __init__(
        self, context: FormContext, settings: ReconstructionSettings, units: Units, precision: str = "float32"
    ) -> None:
        self._context = context
        self.budget, self.redactor = context.budget, context.redactor
        self._settings = settings
        self.units = units
        self._precision = precision

    def one_shot(self, spec: CheckSpec, outcome: CheckpointOutcome, epochs: Mapping[int, CheckpointOutcome]) -> Check:
        """The first attempt at every field, and where they were given, at checkpoints of earlier epochs."""
        found = {fields: evaluation.one_shot for fields, evaluation in _evaluations(outcome).items()}
        private, new = found[PRIVATE], found.get(NEW)
        text = (
            f"With one attempt at each of {outcome.private.fields} fields of {outcome.private.units} "
            f"{self.units.name}, the attack gets {share(private.tokens)} more tokens right than public knowledge "
            f"alone, and puts {share(private.scores['PR'].attack)} of the fields back without an error (public "
            f"knowledge: {share(private.scores['PR'].baseline)})"
        )
        if new is not None:
            text += f"; {share(new.tokens)} more tokens on forms that the model has never seen"
        p_value = outcome.permutation.tokens if outcome.permutation else None
        metrics = [self._metric(TOKENS, shot.tokens, outcome, fields, 0.0) for fields, shot in found.items()]
        for fields, shot in found.items():
            metrics.append(self._metric(PERFECT, shot.scores["PR"].difference, outcome, fields, 0.0))
            for name in measures.NAMES:
                metrics += self._both(_READ[name], shot.scores[name], outcome, fields)
            factor = self._metric(IMPROVEMENT, shot.improvement, outcome, fields, 1.0)
            metrics.append(factor.model_copy(update={"note": f"epsilon {self._settings.epsilon:g}"}))
        return spec.ran(
            settings=self.said(),
            metrics=metrics,
            tables=[self._by_label(outcome), self._left_out(outcome)],
            curves=_epoch_curves(epochs),
            finding=self._finding(
                _plain(private.scores["PR"], outcome.private.fields, ""),
                private.scores["PR"],
                text,
                TOKENS,
                private.tokens,
                new.tokens if new else None,
                p_value,
                outcome.permutation.smallest_tokens if outcome.permutation else None,
                outcome,
            ),
        )

    def multi_shot(self, spec: CheckSpec, outcome: CheckpointOutcome) -> Check:
        """The most plausible attempt at every field, and the fields in the order of their plausibility."""
        ranking = self._settings.ranking
        found = {fields: one.multi_shot[ranking] for fields, one in _evaluations(outcome).items()}
        private, new = found[PRIVATE], found.get(NEW)
        scores, gain = private.scores, private.scores["AccAUC"].difference
        text = (
            f"Of the 5 % of the fields that the attacker believes in most, {share(scores['AccAt 5 %'].attack)} are "
            f"without an error (public knowledge alone: {share(scores['AccAt 5 %'].baseline)}); AccAUC "
            f"{scores['AccAUC'].attack.text()} against {scores['AccAUC'].baseline.text()}"
        )
        p_value = outcome.permutation.gain if outcome.permutation else None
        metrics = [self._metric(GAIN, gain, outcome, PRIVATE, 0.0)]
        for fields, shot in found.items():
            for name, score in shot.scores.items():
                metrics += self._both(name, score, outcome, fields)
        metrics += [self._metric(_FIRST[name], one, outcome, PRIVATE, 0.0) for name, one in private.first.items()]
        return spec.ran(
            settings=self.said(),
            metrics=metrics,
            tables=[self._perfect(outcome), self._rankings(outcome)],
            curves=_curves(private),
            evidence=show_reconstructions(self._context, outcome, ranking),
            finding=self._finding(
                _plain(scores["AccAt 5 %"], None, " among the surest 5 %"),
                scores["AccAt 5 %"],
                text,
                GAIN,
                gain,
                new.scores["AccAUC"].difference if new else None,
                p_value,
                outcome.permutation.smallest_gain if outcome.permutation else None,
                outcome,
            ),
        )

    def _finding(
        self,
        plain: str,
        scores: Compared,
        text: str,
        metric: str,
        found: Estimate,
        new: Estimate | None,
        p_value: float | None,
        smallest: float | None,
        outcome: CheckpointOutcome,
    ) -> Finding:
        """Whether the model remembers these forms; values that are put back are counted by the check of guesses."""
        units = min(some.units for some in _evaluations(outcome).values())
        if new is not None and p_value is not None:
            text += f"; permutation p {p_value:.4f}"
        level, elsewhere = self.unless_elsewhere(memory_level(found, new, p_value, units, self.budget))
        why = "Memory of these forms is detected, which is no value put back"
        if p_value is None:
            why = "That is a sign; without forms that are new to the model, it may know no more than their kind"
        none = "That is no evidence that these forms are remembered"
        smallest = smallest_difference(found, new if p_value is not None else None, smallest, self.budget.weak)
        over = "over public knowledge" if p_value is None else "between private and new forms"
        if smallest < _ALIKE:
            none += "; the attack does as public knowledge alone does"
        else:
            none += f"; a difference of {smallest:.3f} {over} would have been found"
        apart = BELOW if found.high < 0.0 else DISAGREE
        end = {
            "weak": f" {why}.{self.apart()}",
            "none": f" {none}.{self.learnt_little()}",
            "unresolved": f" {self.too_few(units) if units < FEWEST_UNITS else ELSEWHERE if elsewhere else apart}",
        }[level]
        return finding_of(
            level,
            f"{text}.{end}",
            plain,
            (scores.attack.value, scores.baseline.value),
            metric,
            slice_of(PRIVATE, "the attack"),
            elsewhere=elsewhere,
        )

    def unless_elsewhere(self, level: Level) -> tuple[Level, bool]:
        """The level, unresolved in place of none if the model was trained on other forms; and whether it is that."""
        elsewhere = level == "none" and self._context.elsewhere
        return ("unresolved" if elsewhere else level), elsewhere

    def apart(self) -> str:
        """A warning, where no provider has both private and new forms."""
        if not self.units.apart:
            return ""
        return (
            " Private and new forms share no provider, so that what the model knows of a few providers may pass for "
            "memory of their forms."
        )

    def learnt_little(self) -> str:
        """A warning that no evidence says little, where a model has learnt little."""
        return learnt_little(self._context.training)

    def too_few(self, units: int) -> str:
        """Why nothing can be decided."""
        ids = " (ids are read as document_page)" if self.units.name == "documents" else ""
        return f"Too few {self.units.name} to tell: {units}{ids}, not {FEWEST_UNITS}."

    def _metric(
        self,
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
            n=_evaluations(outcome)[fields].units,
            unit=self.units.name,
            method=bootstrap_over(self.units.name),
            chance=chance,
            about=slice_of(fields, attacker),
        )

    def _both(self, name: str, found: Compared, outcome: CheckpointOutcome, fields: str) -> list[Metric]:
        return [
            self._metric(name, found.attack, outcome, fields),
            self._metric(name, found.baseline, outcome, fields, attacker="public knowledge alone"),
        ]

    def _perfect(self, outcome: CheckpointOutcome) -> Table:
        """What came back without an error, masked, by rank."""
        hide, pick = self._context.redactor, outcome.private.multi_shot[self._settings.ranking].attack
        often = Counter(form.text(field).casefold() for form in self._context.parts.private for field in form.fields)
        public = Counter(form.text(field).casefold() for form in self._context.parts.public for field in form.fields)
        rows: list[list[Cell]] = []
        shown: set[str] = set()
        for rank, place in enumerate(pick.order, start=1):
            blank = outcome.chosen.fields[place][0]
            form, field = blank.window.form, blank.span.field
            text = form.text(field)
            if pick.values[place, 0] and text.casefold() not in shown:
                shown.add(text.casefold())
                seen = often[text.casefold()], public[text.casefold()]
                numbers = (hide.count(number) for number in (blank.length, *seen))
                rows.append([rank, place_of(hide, form, field), field.label, hide.value(text), *numbers])
        return Table(
            title="Fields that came back without an error",
            columns=["rank", "form", "label", "value", "tokens", "fields with it, private", "public"],
            rows=rows,
            note=f"Of {len(outcome.fields)} fields, in the order in which the attacker believes in them, each value "
            "once. A value that occurs in public forms as well may have been guessed.",
        )

    def _rankings(self, outcome: CheckpointOutcome) -> Table:
        """Every membership metric."""
        private = outcome.private
        kinds = [
            float(np.mean([len({guess.tokens for guess in guesses}) for guesses in side]))
            for side in zip(*((field.found.attack, field.found.baseline) for field in outcome.fields), strict=True)
        ]
        names = ["AccAUC", "HamAAC", "AccAt 1 %", "AccAt 5 %", "AccAt 100 %"]
        rows: list[list[Cell]] = [
            [name, *(found.scores[score].attack.text() for score in names), round(kinds[0], 2)]
            for name, found in private.multi_shot.items()
        ]
        some = next(iter(private.multi_shot.values()))
        baseline = [some.scores[score].baseline.text() for score in names]
        rows.append(["public knowledge alone", *baseline, round(kinds[1], 2)])
        return Table(
            title="By membership metric",
            columns=["metric", *names, "distinct attempts"],
            rows=rows,
            note=f"Distinct attempts: mean number of different ones among {self._settings.attempts}; where it is "
            f"1, no metric has a choice. The finding goes by the {self._settings.ranking}, which was fixed before the "
            "attack.",
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
                ("not read whole", chosen.not_read),
            )
            for form, field in some
        )
        rows: list[list[Cell]] = [[*row] for row in found]
        note = f"Attacked are fields of {self._settings.shortest} to {self._settings.longest} tokens."
        if chosen.not_read:
            note += " Not read whole: a token is unknown to the model, none is left, or the field exceeds its window."
        if chosen.not_drawn:
            note += f" {chosen.not_drawn} more were not drawn."
        return Table(title="Fields that were not attacked", columns=["form", "label", "reason"], rows=rows, note=note)

    def said(self) -> dict[str, object]:
        """Settings of the attack, and of what it was run with."""
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
    return {PRIVATE: outcome.private, **({NEW: outcome.new} if outcome.new is not None else {})}


def slice_of(fields: str, attacker: str) -> dict[str, SliceValue]:
    """Slice of a metric: whose fields, and who fills them in."""
    return {"model": "target", "fields": fields, "with": attacker}


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


def _plain(scores: Compared, fields: int | None, which: str) -> str:
    """How many fields come back, and how many by public knowledge alone."""
    cases, count = out_of(scores.attack.value, fields, f"blacked-out fields{which}")
    return (
        f"{cases[:1].upper()}{cases[1:]}, an attacker who has the model's weights fills in {count} without an error; "
        f"with public knowledge alone, {hundredths(scores.baseline.value)}."
    )
