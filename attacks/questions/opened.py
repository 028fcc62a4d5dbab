"""Models and documents of an audit by questions, opened."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path

from pfl_audit.attacks.questions.context import QuestionContext, QuestionParts, read_canaries
from pfl_audit.attacks.questions.corpora import audited_corpus, place_of, training_corpus
from pfl_audit.attacks.questions.engine import QueryEngine
from pfl_audit.attacks.questions.inputs import (
    BLUE,
    BY_DOCUMENT,
    CANARIES,
    CONTROL,
    PRETRAINED,
    REFERENCES,
    QuestionInputs,
)
from pfl_audit.attacks.questions.precision import difference_of, facts_of, sample_of
from pfl_audit.core.context import AuditContext
from pfl_audit.core.problems import count_problems, list_problems
from pfl_audit.core.redaction import Redactor
from pfl_audit.core.results import Data
from pfl_audit.core.sharding import Share
from pfl_audit.core.store import Records
from pfl_audit.core.subject import AuditedModels, AuditJob, ModelFacts
from pfl_audit.documents.corpus import Corpus
from pfl_audit.documents.group_table import groups_line
from pfl_audit.documents.units import UNITS
from pfl_audit.errors import UsageError
from pfl_audit.models.adapter_folder import base_of
from pfl_audit.models.calls import Calls
from pfl_audit.models.device import AUTO, arithmetic_of, usable_device
from pfl_audit.models.open import family_of, open_model
from pfl_audit.models.openings import AnswerOpening
from pfl_audit.models.page_reader import PageReader, PageReaderOpening
from pfl_audit.models.prompt_template import read_prompt
from pfl_audit.models.protocol import Capability, ConcurrentModel, DocumentModel
from pfl_audit.models.recorded import RecordedModel
from pfl_audit.models.training_protocol import TrainableFamily


@dataclass(frozen=True, kw_only=True)
class OpenedQuestions(QuestionParts):
    """Models and documents of an audit by questions."""

    inputs: QuestionInputs
    facts: Mapping[str, str] = field(default_factory=dict)
    """Precision of the answers, and training of the control, for the report."""

    def have(self) -> frozenset[str]:
        """Capabilities of the model, and what is given beside it."""
        beside = {
            PRETRAINED: self.pretrained,
            CONTROL: self.control if self.control and Capability.LOSS in self.control.capabilities else None,
            BLUE: self.blue,
            REFERENCES: self.references or None,
            CANARIES: self.canaries,
            Capability.TRAINABLE: self.weights.get("target"),
            BY_DOCUMENT: self.red if self.red.unit == "document" else None,
        }
        return frozenset({*self.target.capabilities, *(need for need, given in beside.items() if given is not None)})

    def context(self, common: AuditContext) -> QuestionContext:
        """Context for the attacks."""
        parts = {field.name: getattr(self, field.name) for field in fields(QuestionParts)}
        return QuestionContext(**vars(common), **parts, classes_random=self.inputs.classes_random)

    def models(self) -> AuditedModels:
        """Facts of the models."""
        return AuditedModels(
            self.target.model.describe(),
            _beside(self.pretrained, self.inputs.pretrained),
            control=_beside(self.control, self.inputs.control),
            references=tuple(
                (engine.model.describe(), name)
                for engine, name in zip(self.references, self.inputs.references, strict=True)
            ),
        )

    def data(self, redactor: Redactor) -> Data:
        """Facts of the documents."""
        corpus = self.red
        unanswered = {problem for engine in self._engines() for problem in engine.problems}
        return Data(
            subject="questions",
            audited="the model",
            format=corpus.format,
            path=place_of(self.inputs),
            sha256=corpus.digest,
            unit=UNITS[corpus.unit].many,
            providers=len(corpus.providers),
            members=len(corpus.members()),
            non_members=len(corpus.non_members()),
            documents=len(corpus.documents),
            queries=len(corpus.queries),
            classes_random=self.inputs.classes_random is not None,
            groups_random=self.inputs.classes_random == "groups",
            facts={**self.facts, **({"Groups": line} if (line := groups_line(corpus)) else {})},
            problems=list_problems(corpus.problems, unanswered, redactor),
            unusable=count_problems(corpus.problems, unanswered, redactor),
        )

    def work(self) -> dict[str, int]:
        """Queries that were asked, and those whose answers were in the store."""
        engines = self._engines()
        fitting = [engine.batch_tokens for engine in engines if engine.batch_tokens is not None]
        used = [engine.model.work() for engine in engines if isinstance(engine.model, ConcurrentModel)]
        return {
            "queries_asked": sum(engine.asked for engine in engines),
            "queries_reused": sum(engine.reused for engine in engines),
            **{name: count for one in used for name, count in one.items()},
            **({"tokens_in_memory": min(fitting)} if fitting else {}),
        }

    def _engines(self) -> list[QueryEngine]:
        every = (self.target, self.pretrained, self.control, *self.references, self.reader)
        return [engine for engine in every if engine is not None]


def open_questions(inputs: QuestionInputs, job: AuditJob) -> OpenedQuestions:
    """Open models and documents.

    Raises:
        UsageError: Not one of checkpoint, recorded answers and endpoint is given, or the reference models are one
            model.
        NotAuditableError: The model answers no questions, or RED holds pages that were trained on.
        AuditError: A model or a corpus cannot be opened.
    """
    given = [name for name in (job.model, inputs.answers, inputs.endpoint) if name is not None]
    if len(given) != 1:
        raise UsageError(
            "one of --model, --answers and --endpoint is needed, and no more than one", "Give the checkpoint folder"
        )

    prompt = read_prompt(inputs.prompt) if inputs.prompt is not None else None
    if prompt is not None and inputs.answers is not None:
        raise UsageError("recorded answers are not asked by a prompt", "Leave --prompt out")

    for refused, what, flags in (
        (job.precision != "fp32" or job.batch_tokens is not None, "computed here", "--precision and --batch-tokens"),
        (job.workers > 1 or job.cluster is not None, "asked by several processes", "--workers and --cluster"),
        (job.share is not None, "asked in shares", "--shard"),
    ):
        if job.model is None and refused:
            raise UsageError(f"recorded answers and endpoints are not {what}", f"Leave {flags} out")

    if job.device == AUTO:
        job = replace(job, device=usable_device(AUTO))
    differences: list[str] = []

    def opened(name: str, role: str) -> DocumentModel:
        if not sample:
            return open_answering_model(name, prompt, job)
        full = replace(job, precision="fp32")
        exact = _engine(open_answering_model(name, prompt, full), full).ask(sample, f"{role} in float32")
        model = open_answering_model(name, prompt, job)
        low = _engine(model, job).ask(sample, f"{role} in {job.precision}")
        differences.append(difference_of(role, sample, exact, low))
        job.progress.say(differences[-1])
        return model

    def engine(model: DocumentModel, name: str | None) -> QueryEngine:
        if name is None:
            return QueryEngine(model, job.store, job.progress, share=job.share)
        how = name, job.device, job.download, prompt, model.fingerprint, job.precision, job.batch_tokens
        calls = job.pool.calls(AnswerOpening(*how)) if job.pool is not None else None
        return _engine(model, job, calls, job.share)

    red = audited_corpus(inputs)
    if line := groups_line(red):
        job.progress.say(line)
    blue = training_corpus(inputs, red)
    facts: dict[str, str] = {}
    if inputs.train_control:
        from pfl_audit.attacks.questions.trained_control import train_control

        red, inputs, facts["control"] = train_control(inputs, job, red, blue, red.groups)
    for name in filter(None, (inputs.control, *inputs.references)):
        from pfl_audit.attacks.questions.trained_control import require_unseen

        require_unseen("--control" if name == inputs.control else "--reference", name, job.model, red, blue)
    sample = sample_of(red) if job.precision != "fp32" else []
    before = opened(inputs.pretrained, "pre-trained") if inputs.pretrained else None
    control = opened(inputs.control, "control") if inputs.control else None
    if len(inputs.references) == 1 and control is None:
        raise UsageError("one reference model shows no spread", "Give --reference twice, or --control beside it")
    references = [opened(name, f"reference {number}") for number, name in enumerate(inputs.references, 1)]
    # The target last: an endpoint is asked when it is opened, and nothing may be wrong then.
    model = opened(job.model, "target") if job.model is not None else _elsewhere(inputs, prompt, job, red)
    for name, one in zip(inputs.references, references, strict=True):
        if Capability.LOSS not in one.capabilities:
            raise UsageError(f"the reference model {name} gives no losses", "Give checkpoints like --model")
    _require_different(model, before, control, references)
    return OpenedQuestions(
        inputs=inputs,
        facts=facts | facts_of(job.precision, differences),
        target=engine(model, job.model),
        red=red,
        pretrained=engine(before, inputs.pretrained) if before else None,
        blue=blue,
        reader=_page_reader(job) if inputs.ocr else None,
        control=engine(control, inputs.control) if control else None,
        references=tuple(map(engine, references, inputs.references)),
        weights={
            role: Path(name)
            for role, name in (("target", job.model), ("control", inputs.control), ("pre-trained", inputs.pretrained))
            if job.share is None and name is not None and _is_trainable(Path(name))  # training is not shared out
        },
        device=job.device,
        records=Records(job.store),
        states=job.states,
        workers=job.pool,
        canaries=read_canaries(Path(job.model), job.states / "canary-pages") if job.model else None,
    )


def open_answering_model(name: str, prompt: str | None, job: AuditJob) -> DocumentModel:
    """A checkpoint that answers questions, opened as the job says.

    Raises:
        NotAuditableError: It answers none.
        AuditError: It cannot be opened.
    """
    return open_model(
        name,
        device=job.device,
        download=job.download,
        prompt=prompt,
        precision=job.precision,
        batch_tokens=job.batch_tokens,
    )


def _engine(
    model: DocumentModel, job: AuditJob, calls: Calls[DocumentModel] | None = None, share: Share | None = None
) -> QueryEngine:
    """A checkpoint with the answers that it has given in the job's precision on such a device."""
    return QueryEngine(model, job.store, job.progress, calls, share, arithmetic_of(job.device, job.precision))


def _page_reader(job: AuditJob) -> QueryEngine:
    model, calls = PageReader(), None
    if job.pool is not None and job.pool.shares_files:  # another machine may have another engine
        calls = job.pool.calls(PageReaderOpening(model.fingerprint))
    return QueryEngine(model, job.store, job.progress, calls, job.share)


def _elsewhere(inputs: QuestionInputs, prompt: str | None, job: AuditJob, red: Corpus) -> DocumentModel:
    """A model under audit that is not at hand."""
    if inputs.endpoint is not None:
        from pfl_audit.attacks.questions.endpoint import open_endpoint

        return open_endpoint(inputs, red, job.planned(red), job.store, job.progress, prompt)
    model = RecordedModel(inputs.answers or Path())
    model.require_answers_to(red)
    return model


def _is_trainable(folder: Path) -> bool:
    """Whether a local checkpoint is of a family that can be trained."""
    return folder.is_dir() and base_of(folder) == folder and isinstance(family_of(folder), TrainableFamily)


def _beside(engine: QueryEngine | None, name: str | None) -> tuple[ModelFacts, str] | None:
    return (engine.model.describe(), name) if engine is not None and name is not None else None


def _require_different(
    target: DocumentModel,
    pretrained: DocumentModel | None,
    control: DocumentModel | None,
    references: Sequence[DocumentModel],
) -> None:
    """Raise UsageError where the model under audit would be compared with itself, or a reference is given twice."""
    for flag, one in (("--pretrained", pretrained), ("--control", control)):
        if one is not None and one.fingerprint == target.fingerprint:
            raise UsageError(
                f"the model of {flag} is the model under audit, and nothing would be found", f"Give {flag} another one"
            )
    others = [target, *references, *([control] if control is not None else [])]
    if references and len({one.fingerprint for one in others}) < len(others):
        raise UsageError(
            "two of the reference models, the control and the model under audit are the same",
            "Train each --reference apart, with a --seed of its own",
        )
