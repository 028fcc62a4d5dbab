"""``inspect`` and ``list``: what a checkpoint is, and which checks it can be audited by."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from pfl_audit.cli import options
from pfl_audit.cli.console import make_progress, print_json
from pfl_audit.cli.options import refuse_unused


def inspect(
    context: typer.Context,
    model: Annotated[str, typer.Argument(help="Checkpoint folder.")],
    opened: Annotated[bool, typer.Option("--open", help="Open the model, and print how it was opened.")] = False,
    red: Annotated[
        Path | None, typer.Option("--red", help="Corpus: open the model, and ask it the first question.")
    ] = None,
    prompt: Annotated[
        str | None, typer.Option("--prompt", help="Prompt template with {question} and maybe {words}, or its file.")
    ] = None,
    reveal: options.Reveal = False,
    device: options.Device = "cpu",
    download: options.Download = False,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
    config: options.Config = None,
) -> None:
    """Describe a checkpoint, how it is asked, and list the checks that can be run on it.

    Headers and configuration alone are read; --open loads the model, and --red asks it one question of a corpus. A hub
    id takes --open and --download.

    Example: pfl-audit inspect ckpt
    """
    from pfl_audit.core.attack import ATTACKS, unmet_needs
    from pfl_audit.core.redaction import visible
    from pfl_audit.core.subject import SUBJECTS

    make_progress(quiet=quiet)  # opening shows none of ours, but the hub may
    if red is None:
        refuse_unused(context, {"reveal": "without --red"})
    if red is None and not (opened or download or prompt):
        refuse_unused(context, {"device": "without --open or --red: headers alone are read"})
    if red is not None:
        facts = _asked(model, red, prompt, device, download=download, reveal=reveal)
    else:
        facts = _opened(model, prompt, device, download=download) if opened or download or prompt else _headers(model)
    subjects = SUBJECTS.installed()
    capabilities = frozenset(facts["capabilities"])
    checks = {
        spec.id: unmet_needs(spec, capabilities | subjects[attack.subject].offers) is None
        for attack in ATTACKS.installed().values()
        if attack.subject in subjects
        for spec in attack.specs
    }
    if as_json:
        print_json({**facts, "checks": checks})
        return
    for name, value in facts.items():
        shown = f"{value:,}" if isinstance(value, int) else "; ".join(value) if isinstance(value, list) else str(value)
        typer.echo(f"{name:13}{visible(shown, 1000)}")
    for name, possible in checks.items():
        typer.echo(f"{'check' if possible else 'no check':13}{name}")


def _headers(model: str) -> dict[str, Any]:
    """Facts from the headers of the weights and the configuration."""
    from pfl_audit.models.describe import describe_checkpoint

    facts = describe_checkpoint(Path(model))
    return {
        "family": facts.family,
        "path": str(facts.path),
        "parameters": facts.parameters,
        "asked": facts.way,
        "capabilities": sorted(facts.capabilities),
    }


def _opened(model: str, prompt: str | None, device: str, *, download: bool) -> dict[str, Any]:
    """Facts of the opened model: the digest, and how it was opened, as well."""
    from pfl_audit.models.open import open_any, open_model
    from pfl_audit.models.prompt_template import read_prompt

    if prompt is None:
        return _facts(open_any(model, device=device, download=download))
    return _facts(open_model(model, device=device, download=download, prompt=read_prompt(prompt)))


def _facts(opened: Any) -> dict[str, Any]:
    found = opened.describe()
    headers = _headers(found["path"])
    able = sorted({*headers["capabilities"], *opened.capabilities})
    return {**found, "asked": headers["asked"], "capabilities": able}


def _asked(model: str, red: Path, prompt: str | None, device: str, *, download: bool, reveal: bool) -> dict[str, Any]:
    """Facts of the opened model, and its answer to the first question of a corpus."""
    from pfl_audit.core.redaction import Redactor
    from pfl_audit.documents.corpus import require_questions
    from pfl_audit.documents.readers import open_corpus
    from pfl_audit.models.open import open_model
    from pfl_audit.models.prompt_template import read_prompt

    corpus = open_corpus(red, "red")
    require_questions(corpus, red)
    template = read_prompt(prompt) if prompt is not None else None
    opened = open_model(model, device=device, download=download, prompt=template)
    query = corpus.queries[0]
    (response,) = opened.respond([query])
    mask = Redactor("", reveal=reveal)
    return {
        **_facts(opened),
        "question": mask.value(query.question, "question") if query.key == "other" else query.question,
        "answer": mask.value(response.answer, query.key),
        "accepted": mask.value(query.answers[0], query.key),
        "confidence": response.confidence,
        "loss": response.loss,
    }


def list_checks(as_json: options.AsJson = False) -> None:
    """List the attacks, their checks, and what each needs.

    Example: pfl-audit list
    """
    from pfl_audit.core.attack import ATTACKS

    rows = [
        {"id": spec.id, "title": spec.title, "subject": attack.subject, "needs": sorted(map(str, spec.needs))}
        for attack in ATTACKS.installed().values()
        for spec in attack.specs
    ]
    if as_json:
        print_json(rows)
        return
    width = max(len(str(row["id"])) for row in rows) + 2
    for row in rows:
        typer.echo(f"{row['id']:{width}}{row['title']}")
        typer.echo(f"{'':{width}}needs: {', '.join(row['needs'])}")
