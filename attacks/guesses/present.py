"""Metrics, tables and sentences of the fields that are put back within k guesses, in the terms of an attack."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from pfl_audit.attacks.guesses.putting_back import FEWEST_DIFFERENT, FEWEST_UNITS, Outcome, PutBack
from pfl_audit.core.fields import Cell
from pfl_audit.core.metric import bootstrap_over, build_metric
from pfl_audit.core.results import Level, Metric, Role, SliceValue, Table
from pfl_audit.metrics.intervals import Estimate

SECRETS = "secrets put back"


@dataclass(frozen=True)
class Words:
    """Terms of an attack in metrics, tables and sentences.

    Attributes:
        field: A value that was taken off, in the plural.
        hold: Verb between these and a secret, in the plural.
        document: What it was taken off, in the plural.
        private: Documents that the target was trained on.
        new: Documents that it has never seen.
        attack: Who guesses.
        public: Guesses of a model without the target's training data, or None without such a model.
        model: That model.
        over: Comparison of the attack with that model.
        units: What intervals go by, in the plural.
        unseen: What is missing where there are no new documents, as the first half of a sentence.
    """

    field: str
    hold: str
    document: str
    private: str
    new: str
    attack: str
    public: str | None
    model: str
    over: str
    units: str
    unseen: str

    @property
    def every(self) -> str:
        """Name of the metric of all fields."""
        return f"{self.field} put back"

    @property
    def headline(self) -> str:
        """Name of the metric that the finding goes by."""
        return f"{SECRETS} {self.over}" if self.public is not None else SECRETS

    def about(self, documents: str, attacker: str, guesses: int) -> dict[str, SliceValue]:
        """Slice of a metric: whose fields, who guesses, and how often."""
        return {"model": "target", "fields": documents, "with": attacker, "guesses": guesses}


def share(found: Estimate) -> str:
    """A share in percent, with its interval."""
    return found.text(".1%").replace("%", " %")


def guess_metrics(words: Words, outcome: Outcome) -> Iterator[Metric]:
    """Shares of secrets and of all fields, those of most guesses first."""
    for name, found in ((SECRETS, outcome.secrets), (words.every, outcome.every)):
        for one in sorted(found.values(), key=lambda one: -one.guesses):
            yield from metrics_of(words, name, one)


def metrics_of(words: Words, name: str, found: PutBack) -> Iterator[Metric]:
    """Shares that the attack puts back, on private and on new documents, beside those of the public model."""
    sides = {words.private: found.private, **({words.new: found.new} if found.new is not None else {})}
    for documents, shares in sides.items():
        rows: Mapping[tuple[str, str], Estimate] = {(name, words.attack): shares.attack}
        if words.public is not None:
            rows = {
                (f"{name} {words.over}", words.attack): shares.difference,
                **rows,
                (name, words.public): shares.public,
            }
        for (title, attacker), estimate in rows.items():
            role: Role | None = None
            if title == SECRETS and documents == words.private:
                role = "put_back" if attacker == words.attack else "guessed"
            yield build_metric(
                title,
                estimate,
                format="percent",
                n=shares.units,
                unit=words.units,
                method=bootstrap_over(words.units, exact=True),
                chance=0.0 if title != name else None,
                about=words.about(documents, attacker, found.guesses),
                role=role,
            )


def share_table(
    words: Words, outcome: Outcome, note: str, further: Mapping[str, Mapping[int, PutBack]] | None = None
) -> Table:
    """Shares by number of guesses.

    Args:
        further: Other orders of the guesses, by name.
    """
    rows: list[list[Cell]] = []
    for name, found in (
        ("secrets", outcome.secrets),
        *(further or {}).items(),
        (f"all {words.field}", outcome.every),
    ):
        for one in found.values():
            for documents, shares in ((words.private, one.private), (words.new, one.new)):
                if shares is not None:
                    numbers = [shares.attack]
                    numbers += [shares.public, shares.difference] if words.public is not None else []
                    rows.append([name, documents, one.guesses, shares.fields, *map(share, numbers)])
    compared = [words.model, "difference"] if words.public is not None else []
    return Table(
        title="Put back within k guesses",
        columns=[words.field, words.document, "guesses", "number", words.attack, *compared],
        rows=rows,
        note=note,
    )


def no_secrets(words: Words, outcome: Outcome, reasons: tuple[str, str, str], note: str) -> Table:
    """Private fields whose value is no secret, by the first reason that holds.

    Args:
        reasons: Texts for values that also occur on their page, in other documents, in public documents.
    """
    places = outcome.occurrences
    holds = {
        reasons[0]: [found.on_page > 0 for found in places],
        reasons[1]: [found.elsewhere > 0 for found in places],
        reasons[2]: [found.public > 0 for found in places],
    }
    if any(empty := [found.empty for found in places]):
        holds["has no letter and no digit"] = empty
    hit = np.array([field.attack.within(max(outcome.every)) for field in outcome.private], dtype=bool)
    # Twice the running sum is one at the first reason that holds alone.
    first = np.cumsum(list(holds.values()), axis=0).cumsum(axis=0) == 1
    rows: list[list[Cell]] = [
        [reason, int(mine.sum()), int((mine & hit).sum())] for reason, mine in zip(holds, first, strict=True)
    ]
    return Table(
        title=f"{words.field.capitalize()} that {words.hold} no secret",
        columns=["reason", words.field, "put back"],
        rows=rows,
        note=note,
    )


def numbers_of(words: Words, found: Mapping[int, PutBack]) -> str:
    """Shares and p-values of the most guesses, in a sentence; shares of fewer guesses in brackets."""
    most = max(found)
    head = found[most]
    text = f"{most} guesses put {share(head.private.attack)} back"
    text += f", and {share(head.private.public)} with the {words.model} alone" if words.public is not None else ""
    fewer = [f"{share(one.private.attack)} within {k}" for k, one in sorted(found.items()) if k < most]
    text += f" ({', '.join(fewer)})" if fewer else ""
    text += f"; sign-flip p {head.sign_flip:.2g}" if words.public is not None else ""
    if head.new is not None and head.permutation is not None:
        text += f"; {share(head.new.attack)} on {words.new}, permutation p {head.permutation:.4f}"
    return text


def why_weak(words: Words, found: PutBack, outcome: Outcome) -> str:
    """Why what was found is a sign and no leak."""
    if found.permutation is None and outcome.new:
        return f"of {words.new} no value is a secret, so that there is nothing to compare with"
    if found.permutation is None:
        return words.unseen
    if found.different < FEWEST_DIFFERENT:
        return f"attack and {words.model} differ on {found.different} units, and {FEWEST_DIFFERENT} are needed"
    return "it is too weak for one of several checks"


def closing(level: Level, found: PutBack, alpha: float, *, why: str, unit: str, units: str, too_few: str) -> str:
    """Last sentence of a finding.

    Args:
        alpha: Level at which an effect would have been found.
        why: Reason of a weak sign.
        unit: What intervals go by, in the singular.
        units: The same in the plural.
        too_few: Sentence for fewer units than a finding needs.
    """
    if level == "leak":
        return "Values were put back."
    if level == "weak":
        return f"That is a sign; {why}."
    if level == "none":
        smallest = found.smallest(alpha) or 0
        where = f"each of another {unit}" if smallest <= found.private.units else f"spread over all {units}"
        return f"That is no evidence that values can be put back; {smallest} secrets, {where}, would have been found."
    if found.units < FEWEST_UNITS:
        return too_few
    return f"Too few {units} to tell, even if all secrets were put back: {found.private.units}."
