"""What an attack is: checks with their needs, and one function that runs them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np
from pydantic import BaseModel

from pfl_audit.core.engine import QueryEngine
from pfl_audit.core.evidence import EvidenceBox
from pfl_audit.core.redaction import Redactor
from pfl_audit.core.results import Check
from pfl_audit.core.store import Records
from pfl_audit.core.verdict import Budget
from pfl_audit.documents.corpus import Corpus
from pfl_audit.documents.forms.form import FormCorpus
from pfl_audit.documents.forms.parts import Parts
from pfl_audit.errors import UsageError
from pfl_audit.models.form_protocol import FormModel
from pfl_audit.models.protocol import Capability
from pfl_audit.progress import Progress

if TYPE_CHECKING:  # they bring torch along, which 'pfl-audit list' can do without
    from pfl_audit.core.gradient_case import Case
    from pfl_audit.models.gradient_protocol import GradientModel

GROUP = "pfl_audit.attacks"


class Resource(StrEnum):
    """What an audit may have besides the target's own capabilities."""

    PRETRAINED = "pre-trained model (--pretrained)"
    REFERENCES = "reference models (--reference)"
    BLUE = "training corpus (--blue)"
    FORMS = "forms with labelled fields (--forms)"
    PUBLIC = "masked language model of public forms (--public)"
    GRADIENT = "a shared gradient and its template (--template)"


Need = Capability | Resource
Subject = Literal["questions", "forms", "gradients"]
"""What a model is audited by: questions about pages, the tokens of forms, or gradients that clients share."""


@dataclass(frozen=True)
class CheckSpec:
    """A check that an attack offers.

    Attributes:
        id: Family, dot, name; stable.
        title: For people.
        needs: Without which it cannot run.
        threat_model: ``knows``, ``sees`` and ``does``, a sentence each.
        part_of: Id of the check whose finding this one is part of; it has none of its own then.
    """

    id: str
    title: str
    needs: frozenset[Need]
    threat_model: Mapping[str, str] = field(default_factory=dict)
    part_of: str | None = None

    @property
    def family(self) -> str:
        """Name of the attack that it belongs to."""
        return self.id.split(".", 1)[0]

    @property
    def subject(self) -> Subject:
        """What it works on."""
        if Resource.GRADIENT in self.needs:
            return "gradients"
        return "forms" if Resource.FORMS in self.needs else "questions"

    def ran(self, **parts: Any) -> Check:
        """The check's result: metrics, tables, curves, evidence, settings, finding."""
        return self._check(status="ran", **parts)

    def not_run(self, status: Literal["skipped", "failed"], reason: str) -> Check:
        """A row that says that the check did not run, and why."""
        return self._check(status=status, reason=reason)

    def _check(self, **parts: Any) -> Check:
        return Check(
            id=self.id,
            family=self.family,
            title=self.title,
            threat_model=dict(self.threat_model),
            part_of=self.part_of,
            **parts,
        )


@dataclass(frozen=True, kw_only=True)
class AuditContext:
    """What every attack may use.

    Attributes:
        checks: Ids of the checks that shall run; their needs are met.
        seed: Of the whole audit.
        budget: What one finding may spend of the chance of a false alarm.
        redactor: Through which every name and value goes.
        evidence: Takes pictures.
        progress: Told of the work.
    """

    checks: frozenset[str]
    seed: int
    budget: Budget
    redactor: Redactor
    evidence: EvidenceBox
    progress: Progress

    def rng(self, *purpose: str | int) -> np.random.Generator:
        """A generator for one purpose, seeded apart from all others."""
        words = [part if isinstance(part, int) else int.from_bytes(part.encode(), "little") for part in purpose]
        return np.random.default_rng(np.random.SeedSequence([self.seed, *words]))


@dataclass(frozen=True, kw_only=True)
class QuestionContext(AuditContext):
    """For attacks that ask questions about pages.

    Attributes:
        target: The model under audit.
        pretrained: The public model that it was trained from, or None.
        red: Queries of member and non-member providers.
        blue: The training corpus, or None.
        reader: Reads pages' pictures by OCR, or None.
        control: A model that saw no provider of RED, as competent as the target (an out-model), or None.
        references: Further out-models, for attacks that compare the target with several; none, or two at least.
        classes_random: The user declares that members and non-members were drawn at random.
    """

    target: QueryEngine
    pretrained: QueryEngine | None
    red: Corpus
    blue: Corpus | None
    reader: QueryEngine | None = None
    control: QueryEngine | None = None
    references: tuple[QueryEngine, ...] = ()
    classes_random: bool = False


@dataclass(frozen=True, kw_only=True)
class FormContext(AuditContext):
    """For attacks that fill forms in.

    Attributes:
        target: The model under audit.
        public: A masked language model of public forms.
        corpus: All forms.
        parts: ``private`` the target was trained on, ``public`` everybody may have, ``validation`` is new to both.
        records: Memory of earlier runs.
        epochs: Epoch of the target's training to how its checkpoint is opened; empty where none was kept.
        quick: The target in a coarser precision, to be used where that changes nothing, or None.
    """

    target: FormModel
    public: FormModel
    corpus: FormCorpus
    parts: Parts
    records: Records
    epochs: Mapping[int, Callable[[], FormModel]] = field(default_factory=dict)
    quick: FormModel | None = None


@dataclass(frozen=True, kw_only=True)
class GradientContext(AuditContext):
    """For attacks that read documents out of gradients.

    Attributes:
        model: Whose gradients were shared, with its weights as they were then; the attacker has it too.
        cases: What an observer holds of each document, and apart from it the truth.
        records: Memory of earlier runs; ``gradients.observation_key`` names an observation.
        states: Folder where a search may keep its state, so that it goes on when it was killed; may be missing.
        public_form: Whether masked reports may show the empty form.
    """

    model: GradientModel
    cases: tuple[Case, ...]
    records: Records
    states: Path
    public_form: bool = False


class Attack(Protocol):
    """A family of checks, found by entry point ``pfl_audit.attacks``."""

    name: str
    specs: Sequence[CheckSpec]
    Settings: type[BaseModel]

    def run(self, context: Any, settings: Any) -> list[Check]:
        """Run the checks of ``context.checks`` that are this family's.

        Args:
            context: A QuestionContext, a FormContext or a GradientContext, as the subject of its checks is.
            settings: Of the type ``Settings``.
        """
        ...


def installed_attacks() -> dict[str, Attack]:
    """Name to attack, sorted by name."""
    found: dict[str, Attack] = {point.name: point.load() for point in entry_points(group=GROUP)}
    return dict(sorted(found.items()))


def unmet_needs(spec: CheckSpec, have: frozenset[Need]) -> str | None:
    """One line that lists both sides where a check's needs are not met, else None."""
    missing = sorted(str(need) for need in spec.needs - have)
    if not missing:
        return None
    return f"needs {', '.join(missing)}; the audit has {', '.join(sorted(str(need) for need in have)) or 'nothing'}"


def choose_checks(attacks: Mapping[str, Attack], wanted: Sequence[str], subject: Subject) -> dict[str, CheckSpec]:
    """Check ids to specifications: those named, or all of the attacks on the subject.

    Raises:
        UsageError: A name is neither a check nor an attack.
    """
    every = {spec.id: spec for attack in attacks.values() for spec in attack.specs}
    if not wanted:
        return {key: spec for key, spec in every.items() if spec.subject == subject}
    chosen: dict[str, CheckSpec] = {}
    for name in wanted:
        matches = {key: spec for key, spec in every.items() if key == name or key.split(".")[0] == name}
        if not matches:
            raise UsageError(f"there is no check '{name}'", f"Choose among: {', '.join(every)}")
        chosen |= matches
        chosen |= {spec.part_of: every[spec.part_of] for spec in matches.values() if spec.part_of}
    return chosen
