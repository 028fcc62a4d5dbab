"""Metrics, tables and finding of the values that are put back within k guesses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pfl_audit.attacks.guesses.field import Guessed, Rank
from pfl_audit.attacks.guesses.present import (
    SECRETS,
    Words,
    closing,
    guess_metrics,
    metrics_of,
    no_secrets,
    numbers_of,
    share_table,
    why_weak,
)
from pfl_audit.attacks.guesses.putting_back import FEWEST_UNITS, Outcome, PutBack, reported
from pfl_audit.attacks.memorization.present import LISTED, skipped_table
from pfl_audit.attacks.memorization.specs import MemorizationSettings
from pfl_audit.attacks.questions.context import QuestionContext
from pfl_audit.core.attack import CheckSpec
from pfl_audit.core.fields import Cell
from pfl_audit.core.frequencies import hundredths, out_of
from pfl_audit.core.remedies import NO_DUPLICATES, NO_SCORES, ONLY_FROM_THE_PAGE, private_training
from pfl_audit.core.results import Check, Finding, Level, Table
from pfl_audit.core.verdict import at_most_weak
from pfl_audit.documents.corpus import Problem
from pfl_audit.documents.document import Query

BY_RATIO = "secrets put back by the ratio"
_NO_CONTROL = "no control was asked (--control, --pretrained), so that the values may be easy to guess"


@dataclass(frozen=True)
class Value(Guessed):
    """A value that was taken off a page, and how many guesses it takes: of the target, and of its control.

    Attributes:
        query: Question about the page.
        by_ratio: Place among the target's guesses in the order of the ratio of likelihoods, or None without one.
    """

    query: Query
    by_ratio: Rank | None


class Presenter:
    """Builds the check of one audit.

    Args:
        control: Name of the model that the target is held against, or None.
    """

    def __init__(self, context: QuestionContext, settings: MemorizationSettings, control: str | None) -> None:
        self._budget, self._unit, self._settings, self._control = context.budget, context.unit, settings, control
        self._redactor = context.redactor
        unit = context.unit
        self._words = Words(
            field="values",
            hold="are",
            document="pages",
            private="pages of members",
            new="pages of non-members",
            attack="the model",
            public=f"the {control} model alone" if control is not None else None,
            model=f"{control} model",
            over=f"over the {control} model",
            units=unit.many,
            unseen=f"without pages of {unit.nouns} that it has never seen, the values may be easy to guess",
        )
        self._elsewhere = (
            "something on its page still points to it",
            f"occurs on a page of another {unit.noun} in training",
            f"occurs on a page of a {unit.noun} that is not in training",
        )

    def check(
        self,
        spec: CheckSpec,
        outcome: Outcome,
        by_ratio: Mapping[int, PutBack],
        values: Sequence[Value],
        problems: Sequence[Problem],
    ) -> Check:
        """What is put back within k guesses: secrets first, by which the finding goes, then all values.

        Args:
            by_ratio: Secrets that fewer guesses put back in the order of the ratio of likelihoods.
            values: Values of members, in the order of the outcome.
            problems: Pages that were left out.
        """
        words, most = self._words, self._settings.guesses
        hide = self._redactor.within(spec.id)
        ratio = [metric for one in by_ratio.values() for metric in metrics_of(words, BY_RATIO, one)]
        note = (
            f"Answers of a beam of {most}, tried by the mean log-likelihood of their tokens under the model that gives "
            "them"
        )
        note += f"; by the ratio, by that minus the same under the {words.model}." if by_ratio else "."
        return spec.ran(
            settings={**self._settings.model_dump(mode="json"), "alpha": self._budget.leak},
            metrics=[*guess_metrics(words, outcome), *ratio],
            tables=[
                share_table(words, outcome, note, {"secrets, by the ratio": by_ratio}),
                no_secrets(
                    words,
                    outcome,
                    self._elsewhere,
                    f"A secret may occur on other pages of its {self._unit.noun}. Values are compared without case, "
                    "punctuation and accents, and on their own page approximately as well.",
                ),
                self._keys(values),
                self._values(spec, values),
                skipped_table(problems, hide),
            ],
            finding=self._finding(outcome),
        )

    def _finding(self, outcome: Outcome) -> Finding:
        words, unit, most = self._words, self._unit, self._settings.guesses
        remedies = [private_training(unit.many), ONLY_FROM_THE_PAGE, NO_SCORES, NO_DUPLICATES]
        if not outcome.secrets:
            text = (
                f"None of {len(outcome.private)} values of members is a secret: something on every page points to it, "
                f"or it occurs on a page of another {unit.noun}."
            )
            return Finding(level="unresolved", text=text, remedy=" ".join(remedies), plain=text)
        found = outcome.secrets[most]
        private, level = found.private, found.level(self._budget)
        if self._control is None:
            level = at_most_weak(level)
        text = (
            f"Of {private.fields} secrets of {private.units} {unit.nouns} in training (values that no page of another "
            f"{unit.noun} has, taken off the page without a trace), {numbers_of(words, outcome.secrets)}"
        )
        why = why_weak(words, found, outcome) if self._control is not None else _NO_CONTROL
        end = closing(
            level,
            found,
            self._budget.weak,
            why=why,
            unit=unit.noun,
            units=unit.nouns,
            too_few=f"Too few {unit.nouns} to tell: {found.units}, not {FEWEST_UNITS}.",
        )
        return Finding(
            level=level,
            text=f"{text}. {end}",
            remedy=" ".join(remedies),
            remedies=remedies if level in ("leak", "weak") else [],
            plain=self._plain(found, level),
            success=private.attack.value,
            false_alarms=found.new.attack.value if found.new is not None else None,
            metric=words.headline,
            slice=words.about(words.private, words.attack, most),
        )

    def _plain(self, found: PutBack, level: Level) -> str:
        private, words = found.private, self._words
        cases, count = out_of(private.attack.value, private.fields, "values that were taken off their page", "value")
        text = (
            f"{cases[:1].upper()}{cases[1:]} and that no other {self._unit.noun} has, an attacker who may try "
            f"{found.guesses} answers of the model finds {count}"
        )
        if words.public is not None:
            text += f"; with the {words.model} alone, {hundredths(private.public.value)}"
        return (
            text
            + {
                "leak": ".",
                "weak": ". This is a sign, not proof.",
                "none": f". That is no evidence that values of {self._unit.nouns} in training are remembered.",
                "unresolved": ". These pages are too few to tell.",
            }[level]
        )

    def _keys(self, values: Sequence[Value]) -> Table:
        """How many secrets of members of each key are put back."""
        most = self._settings.guesses
        rows: list[list[Cell]] = []
        for key in dict.fromkeys(value.query.key for value in values if value.secret):
            mine = [value for value in values if value.secret and value.query.key == key]
            row: list[Cell] = [key, len(mine), *(sum(one.attack.within(k) for one in mine) for k in reported(most))]
            if self._control is not None:
                row.append(sum(one.public.within(most) for one in mine))
            rows.append(row)
        compared = [f"{self._words.model}, within {most}"] if self._control is not None else []
        return Table(
            title="Secrets of members by key",
            columns=["key", "secrets", *(f"within {k}" for k in reported(most)), *compared],
            rows=rows,
            note="Counts of values, a page each; the finding goes by all keys together.",
        )

    def _values(self, spec: CheckSpec, values: Sequence[Value]) -> Table:
        """Secrets of members that were put back, masked."""
        hide, most = self._redactor.within(spec.id), self._settings.guesses
        found = [value for value in values if value.secret and value.attack.within(most)]
        rows: list[list[Cell]] = []
        for value in sorted(found, key=lambda one: (one.attack.before, hide.order(one.query.id))):
            query, public = value.query, value.public
            row: list[Cell] = [
                hide.page(query.document.id if hide.reveal else query.id),
                query.key,
                hide.value(query.answers[0], query.key),
                value.attack.before + 1,
            ]
            if self._control is not None:
                row.append(public.before + 1 if public.within(most) else "not found")
            rows.append(row)
        compared = [self._words.model] if self._control is not None else []
        return Table(
            title=f"{SECRETS.capitalize()} of members",
            columns=["page", "key", "value", "guess", *compared],
            rows=rows[:LISTED],
            note=f"Of {sum(value.secret for value in values)} secrets, by the number of the guess"
            + (f"; the first {LISTED}." if len(rows) > LISTED else "."),
        )
