"""``inspect`` and ``list``: what a checkpoint is, and which checks it can be audited by."""

from __future__ import annotations

from typing import Annotated

import typer

from pfl_audit.cli import options
from pfl_audit.cli.console import make_progress, print_json


def inspect(
    model: Annotated[str, typer.Argument(help="Checkpoint folder, or a hub id with --download.")],
    device: options.Device = "cpu",
    download: options.Download = False,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
    config: options.Config = None,
) -> None:
    """Describe a checkpoint, how it was opened, and which checks can be run on it.

    Example: pfl-audit inspect ckpt
    """
    from pfl_audit.core.attack import ATTACKS, unmet_needs
    from pfl_audit.core.redaction import visible
    from pfl_audit.core.subject import SUBJECTS
    from pfl_audit.models.open import open_any

    make_progress(quiet=quiet)  # opening shows none of ours, but the hub may
    opened = open_any(model, device=device, download=download)
    subjects = SUBJECTS.installed()
    checks = {
        spec.id: unmet_needs(spec, frozenset(opened.capabilities) | subjects[attack.subject].offers) is None
        for attack in ATTACKS.installed().values()
        if attack.subject in subjects
        for spec in attack.specs
    }
    facts = {**opened.describe(), "capabilities": sorted(opened.capabilities), "checks": checks}
    if as_json:
        print_json(facts)
        return
    for name in ("family", "path", "parameters", "sha256"):
        typer.echo(f"{name:13}{facts[name]:,}" if name == "parameters" else f"{name:13}{visible(facts[name])}")
    typer.echo(f"{'opened':13}{visible('; '.join(facts['notes']), 1000)}")
    typer.echo(f"{'can be asked':13}{', '.join(facts['capabilities'])}")
    for name, possible in checks.items():
        typer.echo(f"{'check' if possible else 'no check':13}{name}")


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
