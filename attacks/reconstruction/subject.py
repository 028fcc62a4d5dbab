"""The subject: a model reads the tokens of forms with labelled fields."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pfl_audit.attacks.reconstruction.inputs import FORMS, OFFERS, FormInputs
from pfl_audit.core.subject import AuditJob, Estimate, LazySubject

if TYPE_CHECKING:
    from pfl_audit.attacks.reconstruction.opened import OpenedForms


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
