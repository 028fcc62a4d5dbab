"""The subject: a model reads the tokens of forms with labelled fields."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from pfl_audit.core.settings import Flag, Settings
from pfl_audit.core.subject import AuditJob, Estimate, LazySubject

if TYPE_CHECKING:
    from pfl_audit.attacks.reconstruction.opened import OpenedForms

FORMS = "forms with labelled fields (--forms)"
PUBLIC = "masked language model of public forms (--public)"
OFFERS = frozenset({FORMS, PUBLIC})
"""Needs of checks that these inputs can meet."""
_ABLATION = "Ablations"


class FormInputs(Settings):
    """Forms, and the public model beside the model under audit."""

    forms: Annotated[Path | None, Flag(shared=True)] = Field(
        default=None, description="Forms: forms.jsonl, FUNSD, SROIE or fcc-adbuy."
    )
    public: Annotated[str | None, Flag(shared=True, checkpoint=True)] = Field(
        default=None,
        description="Masked language model of public forms with the same vocabulary; another one is another attacker.",
    )
    label_map: Annotated[tuple[str, ...], Flag()] = Field(
        default=(), description="NAME=TAG: the model's tag, or O, for fields of the label NAME (repeat)."
    )
    public_target: Annotated[str | None, Flag(checkpoint=True)] = Field(
        default=None,
        description="Model of the target's task, trained on public forms alone: fields are ranked by the ratio of "
        "likelihoods of the two as well.",
    )
    split_seed: int = Field(default=0, ge=0, description="As in training, where forms name no part.")
    visual_noise: Annotated[bool, Flag(panel=_ABLATION)] = Field(
        default=False, description="Replace the pages' pictures by noise."
    )
    epochs: Annotated[Path | None, Flag(panel=_ABLATION)] = Field(
        default=None, description="Attack every epoch-NNN checkpoint in this folder as well."
    )


def _open(inputs: FormInputs, job: AuditJob) -> OpenedForms:
    from pfl_audit.attacks.reconstruction.opened import open_subject

    return open_subject(inputs, job)


class FormSubject(LazySubject[FormInputs]):
    """The subject, with an estimate of what an audit takes."""

    def estimate(self, inputs: FormInputs, job: AuditJob) -> Estimate:
        """Count the fields, and attack a few of them."""
        from pfl_audit.attacks.reconstruction.estimate import estimate_forms

        return estimate_forms(inputs, job)


SUBJECT = FormSubject("forms", "forms", FormInputs, OFFERS, ("forms",), FORMS, _open)
