"""The subject: a model reads the tokens of forms with labelled fields."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pfl_audit.attacks.reconstruction.inputs import FORMS, OFFERS, FormInputs

if TYPE_CHECKING:
    from pfl_audit.attacks.reconstruction.opened import OpenedForms
    from pfl_audit.core.subject import AuditJob


class Forms:
    """Forms with labelled fields."""

    name = "forms"
    title = "forms"
    Inputs = FormInputs
    offers = OFFERS

    def missing(self, inputs: FormInputs) -> str | None:
        """The forms, unless they are given."""
        return FORMS if inputs.forms is None else None

    def open(self, inputs: FormInputs, job: AuditJob) -> OpenedForms:
        """Open the models and the forms; see `forms.open_subject`."""
        from pfl_audit.attacks.reconstruction.forms import open_subject

        return open_subject(inputs, job)


SUBJECT = Forms()
