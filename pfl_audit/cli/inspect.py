"""``inspect`` and ``list``: what a checkpoint is, and which checks it can be audited by."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from pfl_audit.cli import options
from pfl_audit.cli.console import make_progress, print_json


def inspect(
    model: Annotated[str, typer.Argument(help="Checkpoint folder.")],
    opened: Annotated[bool, typer.Option("--open", help="Open the model, and print how it was opened.")] = False,
    device: options.Device = "cpu",
    download: options.Download = False,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
    config: options.Config = None,
) -> None:
    """Describe a checkpoint, and list the checks that can be run on it.

    Headers and configuration alone are read; --open loads the model. A hub id takes --open and --download.

    Example: pfl-audit inspect ckpt
    """
    from pfl_audit.core.attack import ATTACKS, unmet_needs
    from pfl_audit.core.redaction import visible
    from pfl_audit.core.subject import SUBJECTS

    make_progress(quiet=quiet)  # opening shows none of ours, but the hub may
    facts = _opened(model, device, download=download) if opened or download else _headers(model)
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

    facts = describe_checkpoint(Path(model), digests=False)
    return {
        "family": facts.family,
        "path": str(facts.path),
        "parameters": facts.parameters,
        "capabilities": sorted(facts.capabilities),
    }


def _opened(model: str, device: str, *, download: bool) -> dict[str, Any]:
    """Facts of the opened model: the digest, and how it was opened, as well."""
    from pfl_audit.models.open import open_any

    opened = open_any(model, device=device, download=download)
    found = opened.describe()
    headers = _headers(found["path"])
    return {**found, "capabilities": sorted({*headers["capabilities"], *opened.capabilities})}


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
