"""Comparison of membership scores: a control that reads as well, the documents, or classes drawn at random.

A difference between members and non-members is a trace of training only where the classes are alike otherwise. Either
they were drawn at random, or the score of a control is subtracted, and so is what the documents explain.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, Literal

import numpy as np
from sklearn.preprocessing import scale

from pfl_audit.attacks.membership.evaluation import Outcome
from pfl_audit.attacks.questions.context import QuestionContext
from pfl_audit.attacks.questions.engine import QueryEngine
from pfl_audit.documents.corpus import Corpus
from pfl_audit.documents.document import Query
from pfl_audit.documents.units import Unit
from pfl_audit.fitness.blind import Blind, blind_baseline
from pfl_audit.fitness.document_features import document_features
from pfl_audit.metrics.answers import anls
from pfl_audit.metrics.arrangements import FEWEST, arrangements_of
from pfl_audit.metrics.arrays import Bools, Floats, Integers
from pfl_audit.metrics.relabelling import Relabelling

COMPETENT: Final = (0.75, 1.3)
"""Least and most that a control reads, as a multiple of what the model under audit does (docs/membership.md)."""
QUESTIONS: Final = 30
"""Fewest questions about pages that are set aside, from which the competence of a control is measured."""
MOVABLE: Final = 20.0
"""Effective number of units below which the documents separate the classes."""
CONTRADICTION: Final = "the documents contradict that the classes were drawn at random"
CONTRADICTED: Final = 0.001
"""p-value of the documents alone at and below which they contradict that the classes were drawn at random."""
_A_FEATURE: Final = 5
"""Units for each kind of feature below which no odds are estimated from documents."""


@dataclass(frozen=True)
class Reading:
    """Competence of a control, on pages of non-members that no attack is judged on.

    Attributes:
        name: What it is in a sentence, such as "the control".
        target: ANLS of the model under audit, 0 to 1.
        control: ANLS of the control.
        questions: Number of questions that both were asked.
        units: Number of non-members that these are about.
    """

    name: str
    target: float
    control: float
    questions: int
    units: int

    def refusal(self, unit: Unit) -> str | None:
        """Reason why the control is not used, or None where it reads as well as the model under audit."""
        if self.questions < QUESTIONS:
            return (
                f"{self.questions} questions about {self.units} non-member {unit.many} that are not attacked do not "
                f"tell how well {self.name} reads; {QUESTIONS} are needed"
            )
        numbers = f"than the model: ANLS {100 * self.control:.0f} % against {100 * self.target:.0f} %, and at"
        if not self.target:
            return "the model under audit reads nothing on these pages"
        if self.control < COMPETENT[0] * self.target:
            return f"{self.name} reads these pages worse {numbers} least {100 * COMPETENT[0]:.0f} % of it is needed"
        if self.control > COMPETENT[1] * self.target:
            return f"{self.name} reads these pages better {numbers} most {100 * COMPETENT[1]:.0f} % of it is allowed"
        return None


def reading(name: str, target: QueryEngine, control: QueryEngine, queries: Sequence[Query]) -> Reading:
    """Measure the competence of a control; both models are asked about the pages that are set aside."""
    asked = [engine.ask(queries, f"how {name} reads").responses for engine in (target, control)]
    both = [query for query in queries if all(query.id in answers for answers in asked)]
    right = [[anls(answers[query.id].answer, query.answers) for answers in asked] for query in both]
    model, other = np.mean(right, axis=0) if right else (0.0, 0.0)
    return Reading(name, float(model), float(other), len(both), len({query.document.unit for query in both}))


def control_text(control: str, unit: Unit) -> str:
    """Description of a control, and of what it excludes, by its name in ``QuestionContext.models``."""
    if control == "control":
        return "a model that saw neither class (--control)"
    return (
        "the model that training began from (--pretrained): it excludes what that model reads in the pages, not what "
        f"training on other {unit.nouns} since would change; a model of equal competence that saw neither class "
        "(--control) would"
    )


def documents_alone(context: QuestionContext, corpus: Corpus, name: str) -> Blind:
    """Result of the documents alone, of all units of a corpus.

    Args:
        corpus: Questions about units of known membership.
        name: Name of the family of attacks, in the seed of what is drawn.
    """
    described, members = document_features(corpus, context.progress), context.members
    labels, groups = (np.array([table[unit] for unit in described.units]) for table in (members, context.groups))
    return blind_baseline(described, labels, context.rng(name, "blind"), groups=groups.tolist())


def make_basis(
    context: QuestionContext,
    corpus: Corpus,
    units: Iterable[str],
    outcome: Outcome,
    blind: Blind,
    subtracted: str | None,
) -> Basis:
    """The basis of an audit; models are asked about the pages of non-members that no attack is judged on.

    Args:
        context: With the models.
        corpus: Questions about units of known membership.
        units: Names of the units of an attack, in the order of its labels.
        outcome: The attack; those that its first draw leaves are attacked.
        blind: Result of the documents alone, of all units.
        subtracted: Model that the attacks were run on as well, ``control`` or ``pre-trained``; None without one.
    """
    names, attacked = np.array([*units]), outcome.trials[0].test
    aside = set(np.delete(names, attacked)[~np.delete(outcome.labels, attacked)])
    queries = [query for query in corpus.queries if query.document.unit in aside]
    # The control is one of the reference models.
    references = [*context.references, *([context.control] if context.control else [])] if context.references else []
    models: dict[str, tuple[str, list[QueryEngine]]] = {
        "control": ("the control", [context.control] if context.control else []),
        "pre-trained": ("the pre-trained model", [context.pretrained] if context.pretrained else []),
        "references": ("a reference model", references),
    }
    readings = {
        name: _least_competent([reading(said, context.target, one, queries) for one in engines], context.unit)
        for name, (said, engines) in models.items()
        if engines
    }
    rows = {unit: row for row, unit in enumerate(blind.units)}
    return Basis(
        unit=context.unit,
        attacked=np.array([rows[unit] for unit in names[attacked]]),
        labels=outcome.attacked,
        groups=[context.groups[unit] for unit in names[attacked]],
        declared=context.classes_random,
        subtracted=subtracted,
        readings=readings,
        blind=blind,
    )


@dataclass(frozen=True, eq=False)
class Basis:
    """Attacked units, and what their scores are compared with.

    Attributes:
        unit: Unit of privacy.
        attacked: Rows of the attacked units among those of ``blind``, int (n,).
        labels: Their membership, bool (n,).
        groups: Name of the group of each.
        declared: What the user declares to have been drawn at random, ``units`` or whole ``groups``; or None.
        subtracted: Model whose scores are subtracted: ``control``, ``pre-trained`` or None.
        readings: ``control``, ``pre-trained`` and ``references`` to their competence.
        blind: Result of the documents alone.
    """

    unit: Unit
    attacked: Integers
    labels: Bools
    groups: Sequence[str]
    declared: Literal["units", "groups"] | None
    subtracted: str | None
    readings: Mapping[str, Reading]
    blind: Blind

    @property
    def drawn(self) -> bool:
        """True where scores are compared as they are: the classes were drawn at random, and no document contradicts."""
        return self.declared == "groups" or (self.declared == "units" and self.blind.p_value > CONTRADICTED)

    @cached_property
    def relabelling(self) -> Relabelling:
        """Arrangements of the labels that are as likely as the observed one without a leak."""
        plain = Relabelling.plain(self.labels, None if self.declared == "units" else self.groups)
        if self.drawn or len(set(self.groups)) < _A_FEATURE * len(self.blind.kinds):
            return plain
        return replace(plain, log_odds=self.blind.log_odds()[self.attacked])

    def subtracts(self, reference: str | None) -> bool:
        """True where the score of the control is to be subtracted from that of an attack.

        A score that subtracts the same model already is not compared with it again.

        Args:
            reference: Model that it subtracts, as of ``refusal``.
        """
        own = (self.subtracted, "control", "references")
        return not self.drawn and self.subtracted is not None and reference not in own

    def statistic(self, scores: Floats, control: Floats | None) -> Floats:
        """Scores of the attacked units, less those of the control and what the documents explain, float (n,).

        Both scores are divided by their deviation over the attacked units, which no label enters.

        Args:
            scores: Scores of an attack on the model under audit, float (n,).
            control: Scores of the same attack on the control, float (n,); None where none are subtracted.
        """
        found: Floats = scale(scores)
        if self.drawn:
            return found
        return self.blind.unexplained(found if control is None else found - scale(control), self.attacked)

    def refusal(self, reference: str | None) -> str | None:
        """Reason why nothing is concluded from an attack, or None.

        Args:
            reference: Model that its score subtracts: ``control``, ``pre-trained``, ``references`` or None.
        """
        drawn = self.relabelling
        if self.declared != "units" and (few := arrangements_of(self.labels, self.groups)).count < FEWEST:
            return (
                f"{few.members} and {few.others} groups wholly of one class have {few.count} arrangements of their "
                f"labels, and {FEWEST} are needed: {few.groups_needed()} groups of each class at least"
            )
        if self.drawn:
            return None
        model = reference if reference in self.readings and reference != "pre-trained" else self.subtracted
        if model is None:
            contradicted = f"{CONTRADICTION}, and " if self.declared else ""
            return (
                f"{contradicted}there is no control: give a model that saw neither class and reads as well (--control, "
                "or --train-control), or declare that the classes were drawn at random (--classes-random)"
            )
        if drawn.movable < MOVABLE:
            return (
                f"the documents alone separate the classes: they do not tell the class of {drawn.movable:.0f} "
                f"{self.unit.many}, and {MOVABLE:.0f} such are needed"
            )
        return self.readings[model].refusal(self.unit)


def _least_competent(found: Sequence[Reading], unit: Unit) -> Reading:
    """The first model that is refused, else the first."""
    return next((read for read in found if read.refusal(unit)), found[0])
