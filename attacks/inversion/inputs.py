"""Inputs of an audit of gradients, as options of the command, and the needs of checks that they meet."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from pfl_audit.core.settings import Flag, Settings
from pfl_audit.errors import UsageError

GRADIENT = "a shared gradient and its template (--template)"
MESSAGES = "the kept messages of a federation (--round)"
OFFERS = frozenset({GRADIENT, MESSAGES})
"""Needs of checks that these inputs can meet."""
_CLIENT = "Client"
_WHOLE = "A whole federation"


class GradientInputs(Settings):
    """Empty forms, and what the clients who fill them in train on."""

    template: Annotated[Path | None, Flag(shared=True)] = Field(
        default=None, description="Picture of the empty form, or a folder of FORM/template.png with fields.json."
    )
    fields: Annotated[Path | None, Flag(default="beside it, or found")] = Field(
        default=None, description="Its private fields (fields.json)."
    )
    public: Annotated[Path | None, Flag(default="the template")] = Field(
        default=None, description="The form as published, if perturbed."
    )
    document: Annotated[Path | None, Flag(default="drawn values", panel=_CLIENT)] = Field(
        default=None, description="A filled page of the template's size."
    )
    question: Annotated[str | None, Flag(default="about a field", panel=_CLIENT, private=True)] = Field(
        default=None, description="Question that the client trains on; with --answer."
    )
    answer: Annotated[str | None, Flag(panel=_CLIENT, private=True)] = Field(
        default=None, description="Answer that the client trains on."
    )
    gradient: Annotated[Path | None, Flag(default="computed", panel=_CLIENT)] = Field(
        default=None, description="A gradient that was captured, by parameter (.safetensors)."
    )
    batch: Annotated[int, Flag("--batch-size", panel=_CLIENT)] = Field(
        default=1, ge=1, le=64, description="Pages of one gradient."
    )
    documents: Annotated[int, Flag(panel=_CLIENT)] = Field(
        default=1, ge=1, description="Pages to fill, each with a gradient."
    )
    noise: Annotated[float, Flag(panel=_CLIENT)] = Field(
        default=0.0,
        ge=0,
        allow_inf_nan=False,
        description="Standard deviation of noise on every entry; of a given gradient, what was added to it.",
    )
    clip: Annotated[float | None, Flag(panel=_CLIENT)] = Field(
        default=None,
        gt=0,
        allow_inf_nan=False,
        description="Norm that the client clips the gradient to, before noise; of a given gradient, what it was.",
    )
    steps: Annotated[int, Flag("--local-steps", panel=_CLIENT)] = Field(
        default=1,
        ge=1,
        le=1_000_000,
        description="Optimiser steps that a given difference of weights holds.",
    )
    words: Annotated[Path | None, Flag(default="read by OCR", panel=_CLIENT)] = Field(
        default=None, description="Words and boxes that the client's model read on --document (as in fields.json)."
    )
    stage: Annotated[int, Flag(panel=_CLIENT)] = Field(
        default=0, ge=0, description="Training steps before the gradient is taken; the observer knows the weights then."
    )
    stage_rate: Annotated[float, Flag(hidden=True)] = Field(
        default=1e-3, gt=0, allow_inf_nan=False, description="Learning rate of these steps."
    )
    round: Annotated[Path | None, Flag(panel=_WHOLE)] = Field(
        default=None, description="Checkpoint of a federation that kept its messages (train --keep-updates)."
    )
    rounds: Annotated[tuple[int, ...], Flag(panel=_WHOLE, default="all")] = Field(
        default=(), description="Number of a round to audit (repeat)."
    )
    phase: Annotated[Literal["fine-tuning", "pretraining"], Flag(panel=_WHOLE)] = Field(
        default="fine-tuning", description="Phase to audit, of a federation that began with self-pretraining."
    )
    data: Annotated[Path | None, Flag(panel=_WHOLE)] = Field(
        default=None, description="Corpus that it trained on, for scores."
    )
    public_form: Annotated[bool, Flag(hidden=True)] = Field(
        default=False,
        description="The empty form holds nothing that identifies, as the embedded ones do: masked reports show it.",
    )

    @property
    def asked(self) -> tuple[str, str] | None:
        """Question and answer, where they are given."""
        return (self.question, self.answer) if self.question is not None and self.answer is not None else None

    def check(self) -> None:
        """Raise UsageError where inputs contradict each other."""
        folder = self.template if self.template is not None and self.template.is_dir() else None
        if self.rounds or self.data is not None or self.phase != "fine-tuning":
            raise UsageError("--rounds, --phase and --data belong to --round", "Give the checkpoint of the federation")
        if (self.question is None) != (self.answer is None):
            raise UsageError("--question and --answer belong together", "Give both, or neither")
        if self.document is not None and self.asked is None:
            raise UsageError(
                "--document needs --question and --answer: what the client trained on is more than its page",
                "Give both",
            )
        single = [name for name, value in (("--document", self.document), ("--gradient", self.gradient)) if value]
        if single and self.documents != 1:
            raise UsageError(f"{single[0]} is of one document, not of {self.documents}", "Leave --documents out")
        if single and folder:
            raise UsageError(f"{single[0]} is of one form, and {folder} a folder", "Name its template.png")
        for name, value in (("--fields", self.fields), ("--public", self.public)):
            if value is not None and folder:
                raise UsageError(f"{name} is of one form, and {folder} is a folder", "Name its template.png")
        if self.gradient is not None and self.stage:
            raise UsageError("a gradient that is given is taken as it is", "Leave --stage out")
        if self.gradient is None and self.steps > 1:
            raise UsageError("a gradient that is computed here is of one step", "Leave --local-steps out")
        if self.words is not None and self.document is None:
            raise UsageError("--words are those of --document", "Give the page as well")
        if self.gradient is not None and self.document is not None and self.batch > 1:
            raise UsageError(
                "the other pages of the batch are unknown, so that nothing can be scored", "Leave --document out"
            )

    def check_round(self) -> None:
        """Raise UsageError where inputs of single gradients stand beside those of a federation."""
        ours, fields = ("round", "rounds", "phase", "data", "template", "public_form"), type(self).model_fields
        given = [name for name in fields if name not in ours and getattr(self, name) != fields[name].default]
        if given:
            raise UsageError(f"{given[0]} is of single gradients, and --round is a whole federation", "Leave it out")
