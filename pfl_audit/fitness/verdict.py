"""The rule by which a corpus is fit, unfit, or cannot be decided."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from pfl_audit.core.power import NEEDED
from pfl_audit.core.redaction import Redactor
from pfl_audit.documents.corpus import Corpus
from pfl_audit.documents.document import Document
from pfl_audit.fitness.check import GROUPS, TRAINING, Findings, measure
from pfl_audit.fitness.classes import BUDGET, LEVEL, ClassComparison
from pfl_audit.fitness.document_features import KINDS
from pfl_audit.fitness.page_look import PageLooks
from pfl_audit.metrics.intervals import Estimate
from pfl_audit.progress import Progress

TOLERATED: Final = 0.05
"""Share of the units of privacy or pages of a class that may be on both sides before the corpus is unfit."""

Verdict = Literal["fit", "unfit", "cannot be decided"]


@dataclass(frozen=True)
class Fitness:
    """The verdict on a corpus.

    Attributes:
        found: What was measured.
        verdict: ``unfit`` where there is a reason, else ``cannot be decided`` with fewer than NEEDED units of a
            class, or with groups of which no test can be significant, else ``fit``.
        reasons: Why the corpus is unfit, or cannot be decided; without names and values.
    """

    found: Findings
    verdict: Verdict
    reasons: tuple[str, ...]

    def to_dict(self, redactor: Redactor) -> dict[str, object]:
        """As JSON, with names, pages and words masked."""
        verdict = {"verdict": self.verdict, "reasons": list(self.reasons), "warnings": warnings_of(self.found)}
        return verdict | as_json(self.found, redactor)


def fitness_of(
    corpus: Corpus,
    looks: PageLooks,
    rng: np.random.Generator,
    progress: Progress,
    training: Sequence[Document] = (),
) -> Fitness:
    """Measure a corpus and decide; the arguments are those of ``check.measure``."""
    return decide(measure(corpus, looks, rng, progress, training))


def decide(found: Findings) -> Fitness:
    """Decide whether a corpus can carry an audit of membership.

    Args:
        found: What was measured.
    """
    reasons = tuple(_reasons(found))
    if reasons:
        return Fitness(found, "unfit", reasons)
    few = tuple(_too_few(found))
    return Fitness(found, "cannot be decided" if few else "fit", few)


def _too_few(found: Findings) -> Iterator[str]:
    members, others = found.units.members, found.units.others
    if min(members, others) < NEEDED:
        yield f"{members} member and {others} non-member {found.units.unit.many}, {NEEDED} of each are needed"
    if found.groups is not None and found.groups.too_few is not None:
        yield found.groups.too_few


def _reasons(found: Findings) -> Iterator[str]:
    if found.classes is not None:
        yield from _separated(found.classes)
    names = found.units
    for count, of, text in (
        (
            len(names.both_sides),
            names.members + names.others,
            f"{names.unit.many} are on both sides, written differently",
        ),
        (len(names.trained_others), names.others, "non-members have training pages"),
        (len(names.untrained_members), names.members, "members have no training page"),
    ):
        if count > TOLERATED * of:
            yield f"{count} of {of} {text}"
    for row in found.duplicates:
        if row.share > TOLERATED:
            what = "training page" if row.among == TRAINING else f"page of {GROUPS[row.among]}"
            yield f"{len(row.pairs)} of {row.pages} pages of {GROUPS[row.group]} have a near-duplicate {what}"


def _separated(classes: ClassComparison) -> Iterator[str]:
    """Significant tests, and the feature that differs most."""
    most = f"; largest difference: {_largest(classes)}" if classes.differences else ""
    if "baseline" in classes.significant:
        auc, p_value = classes.blind.auc.text(), classes.blind.p_value
        yield (
            f"documents alone distinguish members from non-members, without a model (AUC {auc}, p {p_value:.4f}){most}"
        )
        most = ""
    for name, what in (("text", "the words of the pages"), ("pages", "the page images")):
        if name in classes.significant:
            one = classes.distances[name]
            yield (
                f"{what} of members and non-members are distributed differently (sliced Wasserstein distance "
                f"{one.value:.3f}, {one.chance:.3f} for random classes, p {one.p_value:.4f}){most}"
            )
            most = ""


def _largest(classes: ClassComparison) -> str:
    first = classes.differences[0]
    if first.kind == "words":
        return (
            f"{KINDS['words']} (a word on pages of {first.members:.0%} of members, {first.others:.0%} of non-members)"
        )
    values = f"{first.name}: {first.members:.6g} for members, {first.others:.6g} for non-members"
    return f"{KINDS[first.kind]} ({values})"


def warnings_of(found: Findings) -> list[str]:
    """What does not decide, but should be looked at; without names and values."""
    names, values, groups = found.units, found.values, found.groups
    same, similar = (sum(one.same is kind for one in names.spellings) for kind in (True, False))
    asked, missing = sum(values.asked.values()), sum(values.missing.values())
    lines = [
        (same, f"{names.unit.many} written in several ways"),
        (similar, f"pairs of similar names of {names.unit.many}"),
        (len(names.both_sides), f"names of {names.unit.many} on both sides but for their spelling"),
        (len(names.trained_others), "non-members with training pages"),
        (len(names.untrained_members), "members without a training page"),
        (len(values.without_text), "pages without text"),
    ]
    shares = [(missing, asked, "questions without an accepted answer on their page")]
    shares += [
        (len(row.pairs), row.pages, f"pages of {GROUPS[row.group]} with a near-duplicate among {GROUPS[row.among]}")
        for row in found.duplicates
    ]
    if groups is not None:
        lines.append((len(groups.joined), f"groups joined, because {names.unit.many} are in several"))
    counted = [f"{what}: {count}" for count, what in lines if count]
    if groups is not None and groups.by_client:
        counted.append("classes and clients coincide")
    return counted + [f"{what}: {count} of {total}" for count, total, what in shares if count]


def as_json(found: Findings, redactor: Redactor) -> dict[str, object]:
    """Everything that was measured.

    Args:
        found: What was measured.
        redactor: Masks names, pages and words.
    """
    names, values = found.units, found.values
    return {
        "unit": names.unit.name,
        "groups": None if found.groups is None else found.groups.to_dict(redactor),
        "classes": None if found.classes is None else _classes(found.classes, redactor),
        "near_duplicates": [
            {
                "group": GROUPS[row.group],
                "among": GROUPS[row.among],
                "pages": row.pages,
                "with_near_duplicate": len(row.pairs),
                "pairs": sorted([redactor.page(one), redactor.page(other)] for one, other in row.pairs),
            }
            for row in found.duplicates
        ],
        "spellings": [
            {"names": sorted(redactor.name(name) for name in one.names), "same": one.same} for one in names.spellings
        ],
        "providers_on_both_sides": sorted(map(redactor.name, names.both_sides)),
        "non_members_with_training_pages": sorted(map(redactor.name, names.trained_others)),
        "members_without_training_pages": sorted(map(redactor.name, names.untrained_members)),
        "pages_without_text": sorted(map(redactor.page, values.without_text)),
        "answers_not_on_page": {
            key: {"questions": asked, "missing": values.missing.get(key, 0)} for key, asked in values.asked.items()
        },
    }


def _classes(classes: ClassComparison, redactor: Redactor) -> dict[str, object]:
    return {
        "members": classes.members,
        "non_members": classes.others,
        "budget": BUDGET,
        "level": LEVEL,
        "significant": list(classes.significant),
        "baseline": {
            "auc": _interval(classes.blind.auc),
            "balanced_accuracy": _interval(classes.blind.balanced_accuracy),
            "p_value": classes.blind.p_value,
            "kinds": {kind: _interval(auc) for kind, auc in classes.blind.kinds.items()},
        },
        "distances": {
            name: {"value": one.value, "chance": one.chance, "p_value": one.p_value}
            for name, one in classes.distances.items()
        },
        "differences": [
            {
                "kind": one.kind,
                "feature": redactor.value(one.name, "word") if one.kind == "words" else one.name,
                "members": _number(one.members),
                "non_members": _number(one.others),
                "auc": one.auc,
                "p_value": one.p_value,
            }
            for one in classes.differences
        ],
    }


def _interval(found: Estimate) -> dict[str, float]:
    return {"value": found.value, "low": found.low, "high": found.high}


def _number(value: float) -> float | None:
    """None for NaN: no provider of the class has the feature."""
    return value if value == value else None
