"""``pfl-audit memorize``: ask for values that are not on the page."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from pydantic import Field

from pfl_audit.attacks.memorization.attack import MemorizationSettings
from pfl_audit.attacks.questions.inputs import CORPUS_FIELDS, ENDPOINT_FIELDS, QuestionInputs
from pfl_audit.cli.audit_command import AuditCommand, Request
from pfl_audit.cli.console import note, print_json
from pfl_audit.cli.settings_options import Options
from pfl_audit.core.settings import Flag, Settings
from pfl_audit.documents.keys import PROVIDER_KEYS
from pfl_audit.errors import UsageError
from pfl_audit.files import require_new


class Choice(Settings):
    """What to ask for."""

    key: tuple[str, ...] = Field(
        default=("provider_name",), description=f"Key to ask for (repeat), or all: {', '.join(PROVIDER_KEYS)}."
    )
    put_back: bool = Field(default=False, description="Count the values that are put back within k guesses, too.")
    unprompted: bool = Field(default=True, description="Run the unprompted-disclosure test.")
    export: Annotated[Path | None, Flag()] = Field(
        default=None, description="Write the scrubbed pages and questions for a vendor, and stop."
    )


def _prepare(request: Request) -> bool:
    choice = Choice.model_validate(request.choice)
    keys = _keys(choice.key)
    if choice.export is not None:
        if request.preview:
            raise UsageError("--export audits nothing", "Leave out --validate, --dry-run and --shard")
        require_new(choice.export)
        _export(choice.export, keys, request)
        return False
    checks = [f"memorization.{name}" for name in keys]
    put_back = ["memorization.guesses"] if choice.put_back else []
    unprompted = ["memorization.unprompted"] if choice.unprompted else []
    request.checks = (*checks, *put_back, *unprompted)
    named = checks if "key" in request.choice else ["memorization"]
    request.named = (*named, *put_back, *(unprompted if "unprompted" in request.choice else []))
    return True


def _keys(wanted: tuple[str, ...]) -> tuple[str, ...]:
    for name in wanted:
        if name not in (*PROVIDER_KEYS, "all"):
            raise UsageError(f"there is no key '{name}'", f"Choose among: {', '.join(PROVIDER_KEYS)}, all")
    return PROVIDER_KEYS if "all" in wanted else tuple(dict.fromkeys(wanted))


def _export(folder: Path, keys: tuple[str, ...], request: Request) -> None:
    """Write a vendor's questions, and list what was written and every page that is left out with its reason."""
    from pfl_audit.attacks.memorization.export import export_questions
    from pfl_audit.core.settings import read_settings

    inputs = read_settings(QuestionInputs, request.inputs.get("questions", {}), "questions")
    settings = read_settings(MemorizationSettings, request.settings.get("memorization", {}), "memorization")
    found = export_questions(folder, inputs, keys, request.seed, settings.threshold, reveal=request.reveal)
    if request.as_json:
        print_json(asdict(found))
    elif not request.quiet:
        for one in found.skipped:
            note(f"left out: {one['page']}, {one['key']}: {one['reason']}")
        asked = f"{found.questions} questions about {found.pages} scrubbed pages"
        note(f"{asked} written to {found.folder}; record the answers by id for --answers")


COMMAND = AuditCommand(
    name="memorize",
    title="Memorization test",
    help="""Ask for values that have been blurred off the page and removed from the OCR.

    Example: pfl-audit memorize --model ckpt --red data/red --key provider_name
    """,
    inputs=(
        Options(
            "questions",
            QuestionInputs,
            (*CORPUS_FIELDS, "answers", "pretrained", "blue", "control", "prompt", "ocr", *ENDPOINT_FIELDS),
        ),
    ),
    choice=Options("choice", Choice),
    settings=(Options("memorization", MemorizationSettings, ("threshold",)),),
    prepare=_prepare,
    download=True,
)
