"""Inputs of an audit by questions, as options of the commands that ask them, and the needs of checks that they meet."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import Field, InstanceOf

from pfl_audit.core.settings import Flag, InMemory, Settings
from pfl_audit.models.endpoint import Sent

PRETRAINED = "pre-trained model (--pretrained)"
CONTROL = "control, a model that saw neither class (--control)"
REFERENCES = "reference models (--reference)"
BLUE = "training corpus (--blue)"
CANARIES = "canaries (train --audit-canaries)"
BY_DOCUMENT = "documents as the unit of privacy (--unit document)"
OFFERS = frozenset({PRETRAINED, CONTROL, REFERENCES, BLUE, CANARIES, BY_DOCUMENT})
"""Needs of checks that these inputs can meet."""
CORPUS_FIELDS = ("red", "members", "non_members", "unit", "groups")
"""Inputs that name the documents to ask about."""
ClassesRandom = Literal["units", "groups"]
"""Unit that was drawn at random into members and non-members: each unit by itself, or whole groups."""
CONTROL_FIELDS = ("control", "train_control", "train_control_steps")
"""Inputs that give a control, or have it trained."""
_SHARED: Final = Flag(panel="Endpoint: docs/endpoint.md", shared=True)


class EndpointInputs(Settings):
    """Where the model is, what is sent to it, and within which limits."""

    endpoint: Annotated[str | None, _SHARED] = Field(
        default=None,
        description="Address of an OpenAI-compatible chat endpoint, in place of --model; pages are sent there.",
    )
    endpoint_model: Annotated[str | None, _SHARED] = Field(
        default=None, max_length=500, description="Name of the model at the endpoint."
    )
    endpoint_key_env: Annotated[str | None, _SHARED] = Field(
        default=None,
        description="Environment variable that holds the key (OPENAI_API_KEY for hosts of openai.com, else none).",
    )
    endpoint_insecure: Annotated[bool, _SHARED] = Field(
        default=False, description="Allow http:// to another machine: pages and key travel unencrypted."
    )
    endpoint_send: Annotated[Sent, _SHARED] = Field(
        default="picture", description="What is sent of a page; words where a page has no picture."
    )
    endpoint_side: Annotated[int, _SHARED] = Field(
        default=1600, ge=32, le=8192, description="Longest side of a picture that is sent, in pixels."
    )
    endpoint_answer_tokens: Annotated[int, _SHARED] = Field(
        default=64, ge=1, le=4096, description="Tokens of an answer at most."
    )
    endpoint_concurrency: Annotated[int, _SHARED] = Field(
        default=4, ge=1, le=256, description="Requests in flight at once."
    )
    endpoint_rpm: Annotated[float | None, _SHARED] = Field(
        default=None, ge=0.01, le=1e6, description="Requests a minute at most."
    )
    endpoint_attempts: Annotated[int, _SHARED] = Field(
        default=8, ge=1, le=100, description="Attempts at one question before it is given up."
    )
    endpoint_timeout: Annotated[float, _SHARED] = Field(
        default=120.0, ge=0.1, le=3600, description="Seconds of one request at most."
    )
    endpoint_price_in: Annotated[float | None, _SHARED] = Field(
        default=None, ge=0, le=1e6, description="Price of a million tokens that are sent, for estimate and limit."
    )
    endpoint_price_out: Annotated[float | None, _SHARED] = Field(
        default=None, ge=0, le=1e6, description="Price of a million tokens that are answered."
    )
    endpoint_max_requests: Annotated[int | None, _SHARED] = Field(
        default=None, ge=1, description="Requests at most, attempts included (twice the estimate if not given)."
    )
    endpoint_max_tokens: Annotated[int | None, _SHARED] = Field(
        default=None, ge=1, description="Tokens at most, sent and answered (three times the estimate if not given)."
    )
    endpoint_max_cost: Annotated[float | None, _SHARED] = Field(
        default=None, ge=0, description="Cost at most, in the currency of the prices."
    )
    yes: Annotated[bool, _SHARED] = Field(default=False, description="Send to the endpoint without a question.")


ENDPOINT_FIELDS: Final = tuple(EndpointInputs.model_fields)


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
    groups: Annotated[Path | None, Flag(shared=True)] = Field(
        default=None,
        description="Table (CSV: unit, group) of companies, documents or persons that belong together: clients, "
        "vendors, corporate groups.",
    )
    answers: Annotated[Path | None, Flag(shared=True)] = Field(
        default=None, description="Recorded answers (.jsonl) of a model that cannot be asked."
    )
    pretrained: Annotated[str | None, Flag(shared=True, checkpoint=True)] = Field(
        default=None, description="Checkpoint that the model was trained from: the public one, or an earlier version."
    )
    blue: Annotated[Path | InstanceOf[InMemory] | None, Flag(shared=True)] = Field(
        default=None, description="Training corpus, to recognise its secrets."
    )
    control: Annotated[str | None, Flag(default="the pre-trained model", shared=True, checkpoint=True)] = Field(
        default=None,
        description="Checkpoint as competent as the model that saw neither members nor non-members (an out-model).",
    )
    train_control: Annotated[bool, Flag(shared=True)] = Field(
        default=False,
        description="Train the control from --pretrained on a third of the non-members, which leave the audit.",
    )
    train_control_steps: Annotated[int, Flag(shared=True)] = Field(
        default=400,
        ge=1,
        le=1_000_000,
        description="Steps of --train-control; more where the control reads too little.",
    )
    references: Annotated[tuple[str, ...], Flag("--reference", shared=True, checkpoint=True)] = Field(
        default=(),
        description="Checkpoint like the model that saw neither members nor non-members (repeat), for LiRA and "
        "RMIA: two at least, of which the control is one.",
    )
    prompt: Annotated[str | None, Flag(default="the model's own", shared=True)] = Field(
        default=None,
        description="Prompt template with {question} and maybe {words}, or a file that has it; for models that are "
        "asked by a prompt (docs/models.md).",
    )
    classes_random: Annotated[ClassesRandom | None, Flag(shared=True)] = Field(
        default=None,
        description="Declare that members and non-members were drawn at random: 'units', each company (document, "
        "person) by itself, or 'groups', whole clients, vendors or corporate groups.",
    )
    ocr: Annotated[bool, Flag(shared=True)] = Field(
        default=False, description="Read the pictures by OCR, before and after values are blurred."
    )
