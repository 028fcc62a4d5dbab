"""``audit``: every check that the model and the documents allow, in one report."""

from __future__ import annotations

from pydantic import Field

from pfl_audit.cli.audit_command import AuditCommand, Request
from pfl_audit.cli.settings_options import Options
from pfl_audit.core.settings import Settings, shared_fields
from pfl_audit.core.subject import SUBJECTS


class Choice(Settings):
    """Checks to run."""

    check: tuple[str, ...] = Field(default=(), description="Check or attack to run (repeat); all by default.")


def _prepare(request: Request) -> bool:
    request.checks = Choice.model_validate(request.choice).check
    return True


def audit_command() -> AuditCommand:
    """The command, with the main inputs of every installed subject as options."""
    inputs = tuple(
        Options(name, subject.Inputs, shared_fields(subject.Inputs), panel=f"Documents: {subject.title}")
        for name, subject in SUBJECTS.installed().items()
    )
    return AuditCommand(
        name="audit",
        title="Audit of a document model",
        help="""Run every check that the model and the documents allow, and write one report.

    Give what you have: questions about pages (--red), forms (--forms), the empty form that clients fill in
    (--template). Every check is a row of the report; those that were not run give the reason.

    Example: pfl-audit audit --model ckpt --pretrained base --red data/red --blue data/blue
    """,
        inputs=inputs,
        choice=Options("choice", Choice, defaults={"check": "all"}),
        prepare=_prepare,
        download=True,
    )
