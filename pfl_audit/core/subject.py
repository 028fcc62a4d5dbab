"""Protocol of a subject, which is one way to audit a model, and of its estimate."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar, runtime_checkable

from pfl_audit.core.redaction import Redactor
from pfl_audit.core.settings import Settings
from pfl_audit.core.sharding import Share
from pfl_audit.errors import UsageError
from pfl_audit.files import sha256_json
from pfl_audit.models.family import Precision
from pfl_audit.registry import Registry
from pfl_audit.version import __version__

if TYPE_CHECKING:
    from pfl_audit.core.context import AuditContext
    from pfl_audit.core.results import Data
    from pfl_audit.core.store import ResponseStore
    from pfl_audit.documents.corpus import Corpus
    from pfl_audit.models.calls import Workers
    from pfl_audit.progress import Progress

InputsT = TypeVar("InputsT", bound=Settings)
ModelFacts = Mapping[str, object]
"""What a model describes itself by: family, path, sha256, parameters, notes."""


@dataclass(frozen=True)
class AuditedModels:
    """Facts of the models of an audit.

    Attributes:
        target: Model under audit.
        before: Public model that the target was trained from, with its path.
        public: Public model that the attacker has, with its path.
        control: Model that saw no provider of the corpus, with its path.
        references: Further models that saw no provider of the corpus, with their paths.
    """

    target: ModelFacts
    before: tuple[ModelFacts, str] | None = None
    public: tuple[ModelFacts, str] | None = None
    control: tuple[ModelFacts, str] | None = None
    references: tuple[tuple[ModelFacts, str], ...] = ()


@dataclass(frozen=True)
class Execution:
    """The model under audit, and how it is asked.

    Attributes:
        model: Checkpoint under audit; None where recorded answers or an endpoint take its place.
        device: torch's name of the device.
        download: Whether hub ids may be fetched.
        seed: Seed of all random draws.
        workers: Processes that compute at the same time; 1 for this one alone.
        cluster: Ray cluster whose machines compute, as of ``Cluster``; None for this machine alone.
        share: Share of the questions that is asked, for a run that only fills a store; None for all.
        precision: Floating-point type of the models' matrix products.
        batch_tokens: Largest number of tokens in a batch; None for the models' own limits.
    """

    model: str | None = None
    device: str = "cpu"
    download: bool = False
    seed: int = 0
    workers: int = 1
    cluster: str | None = None
    share: Share | None = None
    precision: Precision = "fp32"
    batch_tokens: int | None = None


@dataclass(frozen=True, kw_only=True)
class AuditJob(Execution):
    """What every subject opens the user's files with.

    Attributes:
        store: Store of responses and records.
        states: Folder where long searches keep their state; it need not exist.
        progress: Progress display.
        planned: How many questions about a corpus the checks of the audit are going to ask, as far as that is known.
        settings: Attack to the settings that the user gave it.
    """

    store: ResponseStore
    states: Path
    progress: Progress
    planned: Callable[[Corpus], int] = lambda corpus: len(corpus.queries)
    settings: Mapping[str, Mapping[str, object]] = field(default_factory=dict)

    @cached_property
    def pool(self) -> Workers | None:
        """Other processes that hold models, the same for all subjects; None for this one alone.

        Raises:
            AuditError: The cluster cannot be used.
        """
        if self.cluster is not None:
            from pfl_audit.models.cluster import Cluster

            return Cluster(self.cluster, self.workers, self.device)
        if self.workers > 1:
            from pfl_audit.models.processes import Processes

            return Processes(self.workers)
        return None

    def checkpoint(self, subject: str) -> str:
        """The checkpoint under audit.

        Args:
            subject: What is audited, for the error.

        Raises:
            UsageError: There is none.
        """
        if self.model is None:
            raise UsageError(f"without the checkpoint nothing can be said about {subject}", "Give --model")
        return self.model


class Opened(Protocol):
    """A model and the documents that it is audited with."""

    def have(self) -> frozenset[str]:
        """Needs of checks that are met."""
        ...

    def context(self, common: AuditContext) -> AuditContext:
        """Context for the attacks on the subject."""
        ...

    def models(self) -> AuditedModels:
        """Facts of the models."""
        ...

    def data(self, redactor: Redactor) -> Data:
        """Facts of the documents, for the report."""
        ...

    def work(self) -> dict[str, int]:
        """Counts of what was computed and of what was taken from the store."""
        ...


def asked_of(opened: Opened) -> str:
    """SHA-256 of what a subject asks of what: its models, its documents and this version."""
    models = opened.models()
    beside = (models.before, models.public, models.control, *models.references)
    facts = [models.target, *(found[0] for found in beside if found is not None)]
    return sha256_json([__version__, [fact.get("sha256") for fact in facts], opened.data(Redactor("")).sha256])


class Subject(Protocol[InputsT]):
    """A way to audit a model, found by the entry point ``pfl_audit.subjects``.

    Attributes:
        name: Name of the entry point, unique.
        title: Noun phrase for people.
        Inputs: Class of the user's inputs: paths, and how they are used.
        offers: Needs of checks that inputs can meet, whatever the model.
    """

    name: str
    title: str
    Inputs: type[InputsT]
    offers: frozenset[str]

    def missing(self, inputs: InputsT) -> str | None:
        """The input without which the subject cannot be opened, such as "documents (--red)"; None if it is given."""
        ...

    def open(self, inputs: InputsT, job: AuditJob) -> Opened:
        """Open the model and the documents.

        Raises:
            UsageError: The inputs contradict each other.
            NotAuditableError: The model is of a family that the subject cannot audit, or no document can be used.
            AuditError: The model or the documents cannot be opened.
        """
        ...


@dataclass(frozen=True)
class LazySubject(Generic[InputsT]):
    """A subject that needs one of some inputs, and imports what opens it when that is given.

    Attributes:
        name: As in ``Subject``; likewise ``title``, ``Inputs`` and ``offers``.
        required: Names of the inputs of which it needs one.
        lack: What is missing without it, for people.
        opener: Opens the model and the documents.
    """

    name: str
    title: str
    Inputs: type[InputsT]
    offers: frozenset[str]
    required: tuple[str, ...]
    lack: str
    opener: Callable[[InputsT, AuditJob], Opened]

    def missing(self, inputs: InputsT) -> str | None:
        """The inputs that it needs one of, unless one is given."""
        return self.lack if all(getattr(inputs, name) is None for name in self.required) else None

    def open(self, inputs: InputsT, job: AuditJob) -> Opened:
        """Open the model and the documents."""
        return self.opener(inputs, job)


@runtime_checkable
class SharedSubject(Protocol):
    """A subject whose questions can be shared out: it obeys ``AuditJob.share``, and asks a model for nothing else.

    Attributes:
        is_shared: Whether they can be.
    """

    is_shared: bool


SUBJECTS: Registry[Subject[Settings]] = Registry(
    "pfl_audit.subjects", "subject", ("name", "title", "Inputs", "offers", "missing", "open")
)


@dataclass(frozen=True)
class Estimate:
    """What a subject is going to ask and need.

    Attributes:
        questions: Questions to the model under audit, or fields that are attacked, at most.
        models: Models that are asked, the one under audit among them.
        seconds: Time for all of them, measured on a sample; None where nothing was measured.
        sample: How many of them were timed.
        memory: Peak memory of the process in bytes, with all models loaded; None where nothing was loaded.
        note: What the numbers do not cover.
        unit: What is counted, ``questions`` or ``fields``.
    """

    questions: int
    models: int
    seconds: float | None
    sample: int
    memory: int | None
    note: str
    unit: str = "questions"


@runtime_checkable
class EstimatedSubject(Protocol):
    """A subject that says beforehand what an audit is going to take."""

    def estimate(self, inputs: Settings, job: AuditJob) -> Estimate:
        """Count the questions, and time a few of them.

        Raises:
            AuditError: As ``open``.
        """
        ...
