"""``verify``: check the records, the commitments and the canaries of a released checkpoint."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from pfl_audit.cli import options
from pfl_audit.cli.console import make_progress, print_json
from pfl_audit.cli.options import refuse_unused
from pfl_audit.cli.process import cache_folder
from pfl_audit.core.redaction import visible
from pfl_audit.errors import EXIT_FINDING, EXIT_NOT_AUDITED


def verify(
    context: typer.Context,
    checkpoint: Annotated[Path, typer.Argument(help="Released checkpoint with its training.json, or a dossier.")],
    start: Annotated[
        Path | None, typer.Option("--from", help="Checkpoint that the training began with; makes the test stronger.")
    ] = None,
    commitment: Annotated[
        str | None, typer.Option("--commitment", help="Commitment of the canaries, noted before the training.")
    ] = None,
    nonce: Annotated[str | None, typer.Option("--nonce", help="Text that the trainer was given.")] = None,
    private: Annotated[
        Path | None, typer.Option("--private", help="Private record of the run.", show_default="beside the checkpoint")
    ] = None,
    ledger: Annotated[
        Path | None, typer.Option("--ledger", help="Budget ledger.", show_default="the private record's")
    ] = None,
    expect: Annotated[
        str | None,
        typer.Option("--expect", help="SHA-256 of a dossier's manifest, as it was given apart from the dossier."),
    ] = None,
    device: options.Device = "cpu",
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
    config: options.Config = None,
) -> None:
    """Verify a released checkpoint: its guarantee, its commitments, its ledger entry, and its document canaries.

    Of a dossier (audit --dossier), every file is held against the manifest, whose own digest is printed.

    Exit code 1 if something is contradicted, 3 if nothing could be checked, or something stated could not.

    Example: pfl-audit verify ckpt --from base
    """
    from pfl_audit.core.dossier import is_dossier

    if is_dossier(checkpoint):
        meaningless = ("start", "commitment", "nonce", "private", "ledger")
        refuse_unused(context, dict.fromkeys(meaningless, "for a dossier"))
        _verify_dossier(checkpoint, expect, as_json=as_json)
        return
    refuse_unused(context, {"expect": "for a checkpoint"})
    from pfl_audit.training.verify import Expected, measure_canaries, read_coins, verify_records

    expected = Expected(commitment, nonce, private, ledger)
    lines, review = verify_records(checkpoint, expected)
    coins, manifest = read_coins(checkpoint, expected)
    lines.append(coins)
    if manifest is not None:
        cache = cache_folder()
        cache.mkdir(parents=True, exist_ok=True)
        progress = make_progress(quiet=quiet)
        with TemporaryDirectory(dir=cache) as folder:
            claim = review.claim if review and review.epsilon is not None else None  # else it cannot be accounted for
            tested, _ = measure_canaries(checkpoint, manifest, claim, start, device, Path(folder), progress)
        lines.append(tested)
    if as_json:
        print_json({"checkpoint": str(checkpoint), "checks": [asdict(line) for line in lines]})
    else:
        for line in lines:
            typer.echo(f"{_mark(line.status):14}{line.name}: {line.text}")
    statuses = {line.status for line in lines}
    if "contradicted" in statuses:
        raise typer.Exit(EXIT_FINDING)
    if statuses == {"not checked"} or "unknown" in statuses:
        raise typer.Exit(EXIT_NOT_AUDITED)


def _verify_dossier(folder: Path, expect: str | None, *, as_json: bool) -> None:
    """Print what changed, and the digest of the manifest."""
    from pfl_audit.core.dossier import MANIFEST, verify_dossier

    found = verify_dossier(folder, expect)
    if as_json:
        lines = [asdict(line) for line in found.lines]
        print_json({"dossier": str(folder), "manifest_sha256": found.digest, "files": lines})
    else:
        for line in found.lines:
            typer.echo(f"{_mark(line.status):14}{visible(line.name)}: {visible(line.text, 500)}")
        typer.echo(f"{MANIFEST}: {found.digest}")
    if any(line.status == "contradicted" for line in found.lines):
        raise typer.Exit(EXIT_FINDING)


def _mark(status: str) -> str:
    return status.upper() if status == "contradicted" else status
