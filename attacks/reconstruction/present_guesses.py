"""Metrics, tables and finding of the fields that are put back within k guesses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pfl_audit.attacks.reconstruction.evidence import place_of
from pfl_audit.attacks.reconstruction.finding import REMEDIES, finding_of
from pfl_audit.attacks.reconstruction.present import NEW, PRIVATE, Presenter, share, slice_of
from pfl_audit.attacks.reconstruction.putting_back import FEWEST_DIFFERENT, GuessOutcome, PutBack
from pfl_audit.core.attack import CheckSpec
from pfl_audit.core.fields import Cell
from pfl_audit.core.frequencies import hundredths, out_of
from pfl_audit.core.metric import bootstrap_over, build_metric
from pfl_audit.core.results import Check, Finding, Metric, Table
from pfl_audit.metrics.intervals import Estimate

SECRETS, FIELDS = "secrets put back", "fields put back"
OVER = "over public knowledge"


def guesses(spec: CheckSpec, say: Presenter, outcome: GuessOutcome) -> Check:
    """What is put back within k guesses: secrets first, by which the finding goes, then all fields."""
    metrics: list[Metric] = []
    for name, found in ((SECRETS, outcome.secrets), (FIELDS, outcome.every)):
        for one in sorted(found.values(), key=lambda one: -one.guesses):
            metrics += _metrics(say, name, one)
    return spec.ran(
        settings=say.said(),
        metrics=metrics,
        tables=[_shares(outcome), _no_secrets(outcome), _values(say, outcome)],
        finding=_finding(say, outcome),
    )


def _finding(say: Presenter, outcome: GuessOutcome) -> Finding:
    if not outcome.secrets:
        text = (
            f"None of {len(outcome.private)} fields holds a secret: every value stands elsewhere on its page, in "
            "another form, or in public forms."
        )
        return Finding(level="unresolved", text=text, remedy=" ".join(REMEDIES), plain=text)
    most = max(outcome.secrets)
    found = outcome.secrets[most]
    level, private = found.level(say.budget), found.private
    text = (
        f"Of {private.fields} secrets of {private.units} {say.units.name} (values that stand in one form and nowhere "
        f"else), {most} guesses put {share(private.attack)} back, and {share(private.public)} with the public model "
        "alone"
    )
    fewer = [f"{share(one.private.attack)} within {k}" for k, one in sorted(outcome.secrets.items()) if k < most]
    text += f" ({', '.join(fewer)})" if fewer else ""
    text += f"; sign-flip p {found.sign_flip:.4f}"
    if found.new is not None and found.permutation is not None:
        text += f"; {share(found.new.attack)} of new forms, permutation p {found.permutation:.4f}"
    smallest = found.smallest(say.budget.weak)
    few = min(some.units for some in (private, found.new) if some is not None)
    end = {
        "leak": f" Values were put back.{say.apart()}",
        "weak": f" That is a sign; {_why_weak(found)}.{say.apart()}",
        "none": f" That is no evidence that values can be put back; {smallest} secrets, each of another unit, would "
        f"have been found.{say.learnt_little()}",
        "unresolved": f" {say.too_few(few)}"
        if not found.enough
        else f" Too few {say.units.name} to tell, even if all secrets were put back: {private.units}.",
    }[level]
    about = slice_of(PRIVATE, "the attack") | {"guesses": most}
    cases, count = out_of(private.attack.value, private.fields, "blacked-out values that stand nowhere else")
    plain = (
        f"{cases[:1].upper()}{cases[1:]}, an attacker who has the model's weights finds {count} within {most} guesses; "
        f"with public knowledge alone, {hundredths(private.public.value)}."
    )
    shares = private.attack.value, private.public.value
    return finding_of(level, f"{text}.{end}", plain, shares, f"{SECRETS} {OVER}", about)


def _why_weak(found: PutBack) -> str:
    if found.permutation is None:
        return "without forms that are new to the model, it may know no more than their kind"
    if found.different < FEWEST_DIFFERENT:
        return f"attack and public model differ on {found.different} units, and {FEWEST_DIFFERENT} are needed"
    return "it is too weak for one of several checks"


def _metrics(say: Presenter, name: str, found: PutBack) -> Iterator[Metric]:
    sides = {PRIVATE: found.private, **({NEW: found.new} if found.new is not None else {})}
    for fields, shares in sides.items():
        rows: Mapping[tuple[str, str], Estimate] = {
            (f"{name} {OVER}", "the attack"): shares.difference,
            (name, "the attack"): shares.attack,
            (name, "public knowledge alone"): shares.public,
        }
        for (title, attacker), estimate in rows.items():
            yield build_metric(
                title,
                estimate,
                format="percent",
                n=shares.units,
                unit=say.units.name,
                method=bootstrap_over(say.units.name, exact=True),
                chance=0.0 if title != name else None,
                about=slice_of(fields, attacker) | {"guesses": found.guesses},
            )


def _shares(outcome: GuessOutcome) -> Table:
    rows: list[list[Cell]] = []
    for name, found in (("secrets", outcome.secrets), ("all fields", outcome.every)):
        for one in found.values():
            for forms, shares in ((PRIVATE, one.private), (NEW, one.new)):
                if shares is not None:
                    numbers = (share(some) for some in (shares.attack, shares.public, shares.difference))
                    rows.append([name, forms, one.guesses, shares.fields, *numbers])
    cut = [
        sum(rank.cut for rank in ranks) for ranks in zip(*((f.attack, f.public) for f in outcome.private), strict=True)
    ]
    exact = "exact over the candidates" if not any(cut) else f"cut off for {cut[0]} fields (public model: {cut[1]})"
    return Table(
        title="Put back within k guesses",
        columns=["fields", "forms", "guesses", "number", "the attack", "public model", "difference"],
        rows=rows,
        note=f"The search is {exact}. A search of the attack that is cut off counts as a miss, one of the public model "
        "as a hit where it may be one.",
    )


def _no_secrets(outcome: GuessOutcome) -> Table:
    """Fields whose value is no secret, by the first reason that holds."""
    reasons = {
        "stands elsewhere on its page": [found.on_page > 0 for found in outcome.occurrences],
        "stands in another private or new form": [found.elsewhere > 0 for found in outcome.occurrences],
        "stands in a public form": [found.public > 0 for found in outcome.occurrences],
    }
    left = [True] * len(outcome.occurrences)
    rows: list[list[Cell]] = []
    for reason, holds in reasons.items():
        hit = [rank.attack.within(max(outcome.every)) for rank in outcome.private]
        mine = [a and b for a, b in zip(left, holds, strict=True)]
        rows.append([reason, sum(mine), sum(a and b for a, b in zip(mine, hit, strict=True))])
        left = [a and not b for a, b in zip(left, holds, strict=True)]
    return Table(
        title="Fields that hold no secret",
        columns=["reason", "fields", "put back"],
        rows=rows,
        note="Values are compared without case, punctuation and accents, and on their own page approximately as well.",
    )


def _values(say: Presenter, outcome: GuessOutcome) -> Table:
    """Secrets that were put back, masked; each value stands in one form, so all are different."""
    hide = say.redactor
    most = max(outcome.every)
    fields = [
        (field.attack.before + 1, blank)
        for field, (blank, _) in zip(outcome.private, outcome.chosen.fields, strict=True)
        if field.secret and field.attack.within(most)
    ]
    rows: list[list[Cell]] = []
    for number, blank in sorted(fields, key=lambda pair: (pair[0], hide.order(pair[1].window.form.id))):
        form, field = blank.window.form, blank.span.field
        value = hide.value(form.text(field))
        rows.append([place_of(hide, form, field), field.label, value, hide.count(blank.length), number])
    return Table(
        title="Secrets that were put back",
        columns=["form", "label", "value", "tokens", "guess"],
        rows=rows,
        note=f"Of {sum(field.secret for field in outcome.private)} secrets, by the number of the guess.",
    )
