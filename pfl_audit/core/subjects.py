"""What an audit opens: a model that answers questions, reads the tokens of forms, or shares gradients."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from pfl_audit.core.attack import AuditContext, FormContext, GradientContext, Need, QuestionContext, Resource
from pfl_audit.core.engine import QueryEngine
from pfl_audit.core.redaction import Redactor
from pfl_audit.core.results import Data
from pfl_audit.core.store import Records
from pfl_audit.documents.corpus import Corpus, Problem
from pfl_audit.documents.forms.form import PARTS, FormCorpus
from pfl_audit.documents.forms.parts import Parts
from pfl_audit.models.form_protocol import FormModel

if TYPE_CHECKING:
    from pfl_audit.core.gradient_case import Case
    from pfl_audit.models.gradient_protocol import GradientModel

_LISTED_PROBLEMS = 100
_PLACE = re.compile(r"(?:.*/)?(?P<file>[^/]+\.(?:jsonl|npy))(?P<place> (?:line|row) \d+)?")
"""How a reader names a record by its place; everything else is the name of a page or of its file."""
_OURS = re.compile(r"(corpus|forms|docs)\.jsonl|(red|blue)(_(train|valid|val|test|positive|negative|client|\d+))*\.npy")
"""File names that a format prescribes, which identify no company."""


class Models(NamedTuple):
    """Facts of the models of an audit.

    Attributes:
        target: Under audit.
        before: Public one that it was trained from, or that the attacker has.
        control: One that saw no provider of the corpus.
        references: Further ones that saw none.
    """

    target: dict[str, Any]
    before: dict[str, Any] | None = None
    control: dict[str, Any] | None = None
    references: tuple[dict[str, Any], ...] = ()


class Opened(Protocol):
    """A model and the documents that it is audited with."""

    def have(self) -> frozenset[Need]:
        """What the checks may need and get."""
        ...

    def context(self, common: AuditContext) -> AuditContext:
        """Everything that an attack may use."""
        ...

    def models(self) -> Models:
        """Facts of the model under audit, and of those beside it."""
        ...

    def data(self, path: Path, hide: Redactor) -> Data:
        """What the model was asked about."""
        ...

    def work(self) -> dict[str, int]:
        """What was done, and what was known already."""
        ...


@dataclass(frozen=True)
class OpenedQuestions:
    """A model that answers questions about pages."""

    target: QueryEngine
    pretrained: QueryEngine | None
    reader: QueryEngine | None
    red: Corpus
    blue: Corpus | None
    control: QueryEngine | None = None
    references: tuple[QueryEngine, ...] = ()
    classes_random: bool = False

    def have(self) -> frozenset[Need]:
        """What the checks may need and get."""
        have: set[Need] = set(self.target.capabilities)
        if self.pretrained is not None:
            have.add(Resource.PRETRAINED)
        if self.blue is not None:
            have.add(Resource.BLUE)
        if self.references:
            have.add(Resource.REFERENCES)
        return frozenset(have)

    def context(self, common: AuditContext) -> QuestionContext:
        """Everything that an attack may use."""
        return QuestionContext(
            target=self.target,
            pretrained=self.pretrained,
            red=self.red,
            blue=self.blue,
            reader=self.reader,
            control=self.control,
            references=self.references,
            classes_random=self.classes_random,
            **_shared(common),
        )

    def models(self) -> Models:
        """Facts of the model under audit, and of those beside it."""
        before, control = (engine.model.describe() if engine else None for engine in (self.pretrained, self.control))
        references = tuple(engine.model.describe() for engine in self.references)
        return Models(self.target.model.describe(), before, control, references)

    def data(self, path: Path, hide: Redactor) -> Data:
        """What the model was asked about."""
        corpus = self.red
        unanswered = {problem for engine in self._engines() for problem in engine.problems}
        return Data(
            format=corpus.format,
            path=str(path),
            sha256=corpus.digest,
            providers=len(corpus.providers),
            members=len(corpus.members()),
            non_members=len(corpus.non_members()),
            documents=len(corpus.documents),
            queries=len(corpus.queries),
            classes_random=self.classes_random,
            problems=_listed(corpus.problems, unanswered, hide),
        )

    def work(self) -> dict[str, int]:
        """What was done, and what was known already."""
        engines = self._engines()
        return {
            "queries_asked": sum(engine.asked for engine in engines),
            "queries_reused": sum(engine.reused for engine in engines),
        }

    def _engines(self) -> list[QueryEngine]:
        every = (self.target, self.pretrained, self.control, *self.references, self.reader)
        return [engine for engine in every if engine is not None]


@dataclass(frozen=True)
class OpenedForms:
    """A model that reads the tokens of forms."""

    target: FormModel
    public: FormModel | None
    corpus: FormCorpus
    parts: Parts
    records: Records
    epochs: Mapping[int, Callable[[], FormModel]]
    quick: FormModel | None = None
    unseen: tuple[Problem, ...] = ()
    """Forms that were left out, because a bimodal model cannot look at their page."""
    notes: tuple[str, ...] = ()
    """What was found out about the model under audit besides, a sentence each."""

    def have(self) -> frozenset[Need]:
        """What the checks may need and get."""
        have: set[Need] = {*self.target.capabilities, Resource.FORMS}
        if self.public is not None:
            have.add(Resource.PUBLIC)
        return frozenset(have)

    def context(self, common: AuditContext) -> AuditContext:
        """Everything that an attack may use; without a public model no attack can run."""
        if self.public is None:
            return common
        return FormContext(
            target=self.target,
            public=self.public,
            corpus=self.corpus,
            parts=self.parts,
            records=self.records,
            epochs=self.epochs,
            quick=self.quick,
            **_shared(common),
        )

    def models(self) -> Models:
        """Facts of the model under audit, and of the public one."""
        facts = self.target.describe()
        facts["notes"] = [*facts["notes"], *self.notes]
        return Models(facts, self.public.describe() if self.public else None)

    def data(self, path: Path, hide: Redactor) -> Data:
        """What the model was asked about."""
        return Data(
            format=self.corpus.format,
            path=str(path),
            sha256=self.corpus.digest,
            documents=len(self.corpus.forms),
            queries=sum(len(form.fields) for form in self.corpus.forms),
            parts={
                **{part: len(self.parts.of(part)) for part in PARTS},
                "near_duplicates": self.parts.near_duplicates,
                "left_out": len(self.parts.left_out),
            },
            problems=_listed(self.corpus.problems, self.unseen, hide),
        )

    def work(self) -> dict[str, int]:
        """What was done, and what was known already."""
        return {"fields_filled": self.records.put_count, "fields_reused": self.records.got_count}


@dataclass(frozen=True)
class OpenedGradients:
    """A model of which clients share gradients."""

    model: GradientModel
    cases: tuple[Case, ...]
    records: Records
    states: Path
    about: Data
    public_form: bool = False

    def have(self) -> frozenset[Need]:
        """What the checks may need and get."""
        return frozenset({Resource.GRADIENT})

    def context(self, common: AuditContext) -> GradientContext:
        """Everything that an attack may use."""
        return GradientContext(
            model=self.model,
            cases=self.cases,
            records=self.records,
            states=self.states,
            public_form=self.public_form,
            **_shared(common),
        )

    def models(self) -> Models:
        """Facts of the model under audit."""
        return Models(self.model.describe())

    def data(self, path: Path, hide: Redactor) -> Data:
        """What the gradients are of."""
        return self.about

    def work(self) -> dict[str, int]:
        """What was done, and what was known already."""
        return {"inversions_made": self.records.put_count, "inversions_reused": self.records.got_count}


def _shared(common: AuditContext) -> dict[str, Any]:
    return {field.name: getattr(common, field.name) for field in fields(AuditContext)}


def _listed(read: Iterable[Problem], pages: Iterable[Problem], hide: Redactor) -> list[str]:
    """The first problems: of records by their place in a file, of pages by pseudonym and in its order.

    Args:
        read: Found by a reader: of a line or row of a file, or of a page.
        pages: Of pages, by name.
        hide: Makes the pseudonyms.
    """
    places, named = [], [f"{hide.page(problem.record)}: {_reason(problem, hide)}" for problem in pages]
    for problem in read:
        place = _PLACE.fullmatch(problem.record)
        if hide.reveal:
            places.append(f"{problem.record}: {problem.reason}")
        elif place is None:
            named.append(f"{hide.page(problem.record)}: {_reason(problem, hide)}")
        else:
            file = place["file"] if _OURS.fullmatch(place["file"]) else "a file"
            places.append(f"{file}{place['place'] or ''}: {problem.reason}")
    return [*places, *sorted(named)][:_LISTED_PROBLEMS]


def _reason(problem: Problem, hide: Redactor) -> str:
    """Why it cannot be used, without the name that the problem goes by."""
    named = problem.record.split(".")[0] in problem.reason
    return "it cannot be read" if named and not hide.reveal else problem.reason
