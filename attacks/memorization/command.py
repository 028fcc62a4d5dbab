"""``pfl-audit memorize``: ask for values that are not on the page."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from pfl_audit.attacks.memorization.specs import MemorizationSettings
from pfl_audit.attacks.questions.inputs import CONTROL_FIELDS, CORPUS_FIELDS, ENDPOINT_FIELDS, QuestionInputs
from pfl_audit.cli.audit_command import AuditCommand, Request
from pfl_audit.cli.console import note, print_json
from pfl_audit.cli.settings_options import Options
from pfl_audit.core.redaction import Redactor
from pfl_audit.core.settings import Flag, Settings, read_settings
from pfl_audit.documents.keys import PROVIDER_KEYS
from pfl_audit.errors import NotAuditableError, UnanswerableError, UsageError
from pfl_audit.files import require_new

if TYPE_CHECKING:  # numpy is not imported for the help
    from pfl_audit.documents.document import Document
    from pfl_audit.documents.scrubbing.ocr_lines import OcrLine


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
    """Write a vendor's questions, and list what was written and every page that is left out with its reason.

    Raises:
        UsageError: The documents are not given.
        NotAuditableError: No question can be written.
    """
    from pfl_audit.attacks.questions.corpora import audited_corpus, read_corpus
    from pfl_audit.documents.scrubbing.questions import scrubbed_questions
    from pfl_audit.documents.writers import write_questions

    inputs = read_settings(QuestionInputs, request.inputs.get("questions", {}), "questions")
    threshold = read_settings(MemorizationSettings, request.settings.get("memorization", {}), "memorization").threshold
    corpus = audited_corpus(inputs)
    trained = read_corpus(inputs.blue, "blue") if inputs.blue is not None else None
    lines = _picture_lines(corpus.documents) if inputs.ocr else {}
    scrub = partial(scrubbed_questions, corpus, seed=request.seed, blue=trained, threshold=threshold)
    sets = [scrub(key, read=lambda _: lines) for key in keys]
    queries = [query for found in sets for query in found.queries]
    unreadable = {problem.record: problem.reason for problem in write_questions(queries, folder)}
    asked = [query for query in queries if query.id not in unreadable]
    if unreadable and not asked:
        reason = next(iter(unreadable.values()))
        raise NotAuditableError(f"no question can be written: {reason}", "Run 'pfl-audit data check'")
    left_out = [(problem.record, found.key, problem.reason) for found in sets for problem in found.skipped]
    left_out += [(query.document.id, query.key, unreadable[query.id]) for query in queries if query.id in unreadable]
    hide, pages = Redactor(secrets.token_hex(), reveal=request.reveal), len({query.document.id for query in asked})
    skipped = [{"page": hide.page(page), "key": key, "reason": reason} for page, key, reason in left_out]
    if request.as_json:
        print_json({"questions": len(asked), "pages": pages, "folder": str(folder), "skipped": skipped})
    elif not request.quiet:
        for one in skipped:
            note(f"left out: {one['page']}, {one['key']}: {one['reason']}")
        written = f"{len(asked)} questions about {pages} scrubbed pages written to {folder}"
        note(f"{written}; record the answers by id for --answers")


def _picture_lines(pages: Sequence[Document]) -> dict[str, Sequence[OcrLine]]:
    """Page to the lines that an OCR engine reads; pages whose pictures cannot be read are left out."""
    from pfl_audit.models.page_reader import PageReader, lines_query, picture_lines

    reader = PageReader()
    found: dict[str, Sequence[OcrLine]] = {}
    for page in pages:
        with contextlib.suppress(UnanswerableError):
            found[page.id] = picture_lines(reader.respond([lines_query(page)])[0].answer)
    return found


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
            (*CORPUS_FIELDS, "answers", "pretrained", "blue", *CONTROL_FIELDS, "prompt", "ocr", *ENDPOINT_FIELDS),
        ),
    ),
    choice=Options("choice", Choice),
    settings=(Options("memorization", MemorizationSettings, ("threshold",)),),
    prepare=_prepare,
    download=True,
)
