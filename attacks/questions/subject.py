"""The subject: a model answers questions about pages of members and non-members."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, InstanceOf

from pfl_audit.attacks.questions.endpoint_inputs import EndpointInputs
from pfl_audit.core.settings import Flag, InMemory
from pfl_audit.core.subject import AuditJob, Estimate, LazySubject

if TYPE_CHECKING:
    from pfl_audit.attacks.questions.opened import OpenedQuestions

PRETRAINED = "pre-trained model (--pretrained)"
REFERENCES = "reference models (--reference)"
BLUE = "training corpus (--blue)"
CANARIES = "canaries (train --audit-canaries)"
BY_DOCUMENT = "documents as the unit of privacy (--unit document)"
OFFERS = frozenset({PRETRAINED, REFERENCES, BLUE, CANARIES, BY_DOCUMENT})
"""Needs of checks that these inputs can meet."""


CORPUS_FIELDS = ("red", "members", "non_members", "unit")
"""Inputs that name the documents to ask about."""


class QuestionInputs(EndpointInputs):
    """Documents to ask about, and the models beside the model under audit."""

    red: Annotated[Path | InstanceOf[InMemory] | None, Flag(shared=True)] = Field(
        default=None, description="Corpus of member and non-member providers: PFL-DocVQA folder or corpus.jsonl."
    )
    members: Annotated[Path | InstanceOf[InMemory] | None, Flag(shared=True)] = Field(
        default=None,
        description="Corpus of documents that were trained on, in any readable format; with --non-members in place of "
        "--red.",
    )
    non_members: Annotated[Path | InstanceOf[InMemory] | None, Flag(shared=True)] = Field(
        default=None, description="Corpus of documents of the same kind that were not trained on."
    )
    unit: Annotated[Literal["provider", "document", "person"], Flag(shared=True)] = Field(
        default="provider",
        description="Unit of privacy, whose membership is decided: provider, document or person (the column 'person' "
        "of the corpus).",
    )
    answers: Annotated[Path | None, Flag(shared=True)] = Field(
        default=None, description="Recorded answers (.jsonl) of a model that cannot be asked."
    )
    pretrained: Annotated[str | None, Flag(shared=True, checkpoint=True)] = Field(
        default=None, description="Public checkpoint that the model was trained from."
    )
    blue: Annotated[Path | InstanceOf[InMemory] | None, Flag(shared=True)] = Field(
        default=None, description="Training corpus, to recognise its secrets."
    )
    control: Annotated[str | None, Flag(default="the pre-trained model", shared=True, checkpoint=True)] = Field(
        default=None,
        description="Checkpoint as competent as the model that saw neither members nor non-members (an out-model).",
    )
    references: Annotated[tuple[str, ...], Flag("--reference", shared=True, checkpoint=True)] = Field(
        default=(),
        description="Checkpoint like the model that saw neither members nor non-members (repeat; twice at least), for "
        "LiRA and RMIA.",
    )
    prompt: Annotated[str | None, Flag(default="the model's own", shared=True)] = Field(
        default=None,
        description="Prompt template with {question} and maybe {words}, or a file that has it; for models that are "
        "asked by a prompt (docs/models.md).",
    )
    classes_random: Annotated[bool, Flag(shared=True)] = Field(
        default=False, description="Declare that members and non-members were drawn at random."
    )
    ocr: Annotated[bool, Flag(shared=True)] = Field(
        default=False, description="Read the pictures by OCR, before and after values are blurred."
    )


def _open(inputs: QuestionInputs, job: AuditJob) -> OpenedQuestions:
    from pfl_audit.attacks.questions.opened import open_questions

    return open_questions(inputs, job)


class QuestionSubject(LazySubject[QuestionInputs]):
    """The subject, with an estimate of what an audit asks."""

    is_shared = True

    def estimate(self, inputs: QuestionInputs, job: AuditJob) -> Estimate:
        """Count the questions, and time a few of them."""
        from pfl_audit.attacks.questions.estimate import estimate_questions

        return estimate_questions(inputs, job)


SUBJECT = QuestionSubject(
    "questions",
    "questions about pages",
    QuestionInputs,
    OFFERS,
    ("red", "members", "non_members"),
    "documents with questions (--red, or --members and --non-members)",
    _open,
)
