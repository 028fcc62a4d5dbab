"""Metrics, tables and finding of the fields that are put back within k guesses."""

from __future__ import annotations

from collections.abc import Sequence

from pfl_audit.attacks.guesses.present import (
    Words,
    closing,
    guess_metrics,
    no_secrets,
    numbers_of,
    share_table,
    why_weak,
)
from pfl_audit.attacks.guesses.putting_back import Outcome
from pfl_audit.attacks.reconstruction.evidence import place_of
from pfl_audit.attacks.reconstruction.finding import ELSEWHERE, REMEDIES, finding_of
from pfl_audit.attacks.reconstruction.plan import Truth
from pfl_audit.attacks.reconstruction.present import NEW, PRIVATE, Presenter
from pfl_audit.core.attack import CheckSpec
from pfl_audit.core.fields import Cell
from pfl_audit.core.frequencies import hundredths, out_of
from pfl_audit.core.results import Check, Finding, Table
from pfl_audit.models.form_protocol import Blank

_ELSEWHERE = (
    "occurs elsewhere on its page",
    "occurs in another private or new form",
    "occurs in a public form",
)


def guesses(spec: CheckSpec, say: Presenter, outcome: Outcome, fields: Sequence[tuple[Blank, Truth]]) -> Check:
    """What is put back within k guesses: secrets first, by which the finding goes, then all fields.

    Args:
        fields: Private fields, in the order of the outcome.
    """
    words = _words(say)
    note = "Values are compared without case, punctuation and accents, and on their own page approximately as well."
    return spec.ran(
        settings=say.said(),
        metrics=list(guess_metrics(words, outcome)),
        tables=[
            share_table(words, outcome, _searched(outcome)),
            no_secrets(words, outcome, _ELSEWHERE, note),
            _values(say, outcome, fields),
        ],
        finding=_finding(say, words, outcome),
    )


def _words(say: Presenter) -> Words:
    return Words(
        field="fields",
        hold="hold",
        document="forms",
        private=PRIVATE,
        new=NEW,
        attack="the attack",
        public="public knowledge alone",
        model="public model",
        over="over public knowledge",
        units=say.units.name,
        unseen="without forms that are new to the model, it may know no more than their kind",
    )


def _finding(say: Presenter, words: Words, outcome: Outcome) -> Finding:
    if not outcome.secrets:
        text = (
            f"None of {len(outcome.private)} fields holds a secret: every value occurs elsewhere on its page, in "
            "another form, or in public forms."
        )
        return Finding(level="unresolved", text=text, remedy=" ".join(REMEDIES), plain=text)
    most = max(outcome.secrets)
    found = outcome.secrets[most]
    level, elsewhere = say.unless_elsewhere(found.level(say.budget))
    private = found.private
    text = (
        f"Of {private.fields} secrets of {private.units} {say.units.name} (values that occur in one form and nowhere "
        f"else), {numbers_of(words, outcome.secrets)}"
    )
    end = (
        ELSEWHERE
        if elsewhere
        else closing(
            level,
            found,
            say.budget.weak,
            why=why_weak(words, found, outcome),
            unit="unit",
            units=say.units.name,
            too_few=say.too_few(found.units),
        )
    )
    end += say.apart() if level in ("leak", "weak") else say.learnt_little() if level == "none" else ""
    cases, count = out_of(private.attack.value, private.fields, "blacked-out values that occur nowhere else")
    plain = (
        f"{cases[:1].upper()}{cases[1:]}, an attacker who has the model's weights finds {count} within {most} guesses; "
        f"with public knowledge alone, {hundredths(private.public.value)}."
    )
    shares = private.attack.value, private.public.value
    about = words.about(PRIVATE, words.attack, most)
    return finding_of(level, f"{text}. {end}", plain, shares, words.headline, about, elsewhere=elsewhere)


def _searched(outcome: Outcome) -> str:
    """Whether the places are exact."""
    cut = [
        sum(rank.cut for rank in ranks) for ranks in zip(*((f.attack, f.public) for f in outcome.private), strict=True)
    ]
    exact = "exact over the candidates" if not any(cut) else f"cut off for {cut[0]} fields (public model: {cut[1]})"
    return (
        f"The search is {exact}. A search of the attack that is cut off counts as a miss, one of the public model as a "
        "hit where it may be one."
    )


def _values(say: Presenter, outcome: Outcome, fields: Sequence[tuple[Blank, Truth]]) -> Table:
    """Secrets that were put back, masked; each value occurs in one form, so all are different."""
    hide = say.redactor
    most = max(outcome.every)
    found = [
        (field.attack.before + 1, blank)
        for field, (blank, _) in zip(outcome.private, fields, strict=True)
        if field.secret and field.attack.within(most)
    ]
    rows: list[list[Cell]] = []
    for number, blank in sorted(found, key=lambda pair: (pair[0], hide.order(pair[1].window.form.id))):
        form, field = blank.window.form, blank.span.field
        value = hide.value(form.text(field))
        rows.append([place_of(hide, form, field), field.label, value, hide.count(blank.length), number])
    return Table(
        title="Secrets that were put back",
        columns=["form", "label", "value", "tokens", "guess"],
        rows=rows,
        note=f"Of {sum(field.secret for field in outcome.private)} secrets, by the number of the guess.",
    )
