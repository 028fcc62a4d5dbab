"""``pfl-audit mia``: which companies, documents or persons were in the training set."""

from __future__ import annotations

from pydantic import Field

from pfl_audit.attacks.membership.specs import MembershipSettings
from pfl_audit.attacks.questions.inputs import CONTROL_FIELDS, CORPUS_FIELDS, ENDPOINT_FIELDS, QuestionInputs
from pfl_audit.cli.audit_command import AuditCommand, Request
from pfl_audit.cli.settings_options import Options
from pfl_audit.core.settings import Settings


class Choice(Settings):
    """Checks to run."""

    check: tuple[str, ...] = Field(default=("membership",), description="Check or attack to run (repeat).")


def _prepare(request: Request) -> bool:
    request.checks = Choice.model_validate(request.choice).check
    return True


COMMAND = AuditCommand(
    name="mia",
    title="Membership inference",
    help="""Infer which companies' documents, or which documents or persons (--unit), were in the training set.

    Example: pfl-audit mia --model ckpt --red data/red --pretrained base
    """,
    inputs=(
        Options(
            "questions",
            QuestionInputs,
            (
                *CORPUS_FIELDS,
                "answers",
                "pretrained",
                *CONTROL_FIELDS,
                "references",
                "prompt",
                "classes_random",
                *ENDPOINT_FIELDS,
            ),
        ),
    ),
    choice=Options("choice", Choice),
    settings=(Options("membership", MembershipSettings, panel="Attack: docs/membership.md"),),
    prepare=_prepare,
    download=True,
)
