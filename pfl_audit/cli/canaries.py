"""``canaries``: run the private trainer with canaries, and compare what it does with a stated guarantee."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from pfl_audit.cli import options
from pfl_audit.cli.account import read_reviewed
from pfl_audit.cli.console import make_progress, print_json, print_rows
from pfl_audit.cli.process import cache_folder
from pfl_audit.core.redaction import visible
from pfl_audit.errors import EXIT_FINDING, AuditError, NotAuditableError, UsageError

if TYPE_CHECKING:
    from pfl_audit.privacy.guarantee import PrivacyGuarantee
    from pfl_audit.privacy.mechanism import Mechanism
    from pfl_audit.training.federated.canaries.report import CanaryReport

_PER_GUESS = 20
"""Canaries a guess, by default."""
_NAMES = {"noise_multiplier": "sigma", "sampling_rate": "sampling rate"}


def canaries(
    training: Annotated[Path, typer.Option("--training", help="training.json or checkpoint with the guarantee.")],
    count: Annotated[int, typer.Option("--canaries", help="Number of canaries.")] = 10_000,
    guesses: Annotated[
        int | None, typer.Option("--guesses", help="Number of guesses.", show_default="one per 20 canaries")
    ] = None,
    clients: Annotated[
        int | None,
        typer.Option("--clients", help="Clients that the canaries are divided among.", show_default="as stated"),
    ] = None,
    nonce: Annotated[
        str, typer.Option("--nonce", help="Text of the verifier, to show that the coins are new.", show_default=False)
    ] = "",
    out: Annotated[
        Path | None, typer.Option("--out", help="File of the report; has the commitment before the first round.")
    ] = None,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
    config: options.Config = None,
) -> None:
    """Test the private trainer: update canaries in a run of its own with the settings of a stated guarantee.

    Neither data nor a model is needed. Exit code 1 if the run contradicts the guarantee.

    Example: pfl-audit canaries --training ckpt
    """
    from pfl_audit.files import write_json
    from pfl_audit.privacy.canary_coins import Manifest
    from pfl_audit.training.federated.canaries.report import family_of, report_on
    from pfl_audit.training.federated.canaries.run import check_run, observe

    claim, mechanism = _stated(training)
    manifest = Manifest.draw(count, max(1, count // _PER_GUESS) if guesses is None else guesses, nonce)
    divided = min(mechanism.sum.clients, count) if clients is None else clients
    check_run(claim, mechanism, manifest, divided)
    if out is not None:
        if out.exists():
            raise UsageError(f"{out} already exists", "Name a new file")
        write_json(out, manifest.public(), private=False)
    progress = make_progress(quiet=quiet)
    progress.say(f"commitment {manifest.commitment}")
    cache = cache_folder()
    cache.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=cache) as folder:
        observation = observe(claim, mechanism, manifest, divided, Path(folder), progress)
    report = report_on(claim, manifest, observation, family_of(claim))
    if out is not None:
        write_json(out, report.to_dict(), private=False)
    if as_json:
        print_json(report.to_dict())
    else:
        _show(report)
    if report.contradictions:
        raise typer.Exit(EXIT_FINDING)


def _stated(path: Path) -> tuple[PrivacyGuarantee, Mechanism]:
    """The guarantee of a record, and its mechanism.

    Raises:
        AuditError: They cannot be read.
        NotAuditableError: The record determines no mechanism, or contradicts itself.
    """
    from pfl_audit.privacy.review import mechanism_of

    record, review = read_reviewed(path)
    if review.claim is None:
        raise AuditError(f"the guarantee of {path} {review.text}", "Give a training.json of a private run")
    if review.epsilon is None:
        raise NotAuditableError(f"{path}: {review.text}", "Give the training.json that the trainer wrote")
    return review.claim, mechanism_of(record, review.claim)[0]


def _show(report: CanaryReport) -> None:
    claim, guesses = report.claim, report.guesses
    for sentence in report.contradictions:
        typer.echo(f"CONTRADICTION: {sentence}")
    by_curve = f"{report.epsilon_of_family:.3g} by the trade-off curve of the mechanism"
    of_all = f"{100 * report.accuracy:.1f} % of all {guesses.canaries}"
    against = zip(("epsilon", "mechanism"), report.finds, strict=True)
    found = ((of, "nothing" if share is None else f"{100 * share:.3g} %") for of, share in against)
    finds = "".join(f", finds {share} against the {of}" for of, share in found)
    rows = [
        ("stated", f"epsilon at most {claim.epsilon:.4g} at delta {claim.delta:g} for a {visible(claim.unit)}"),
        ("measured", f"epsilon at least {report.epsilon:.3g} (95 %); {by_curve}"),
        ("guesses", f"{guesses.correct} of {guesses.made} correct; {of_all}{finds}"),
    ]
    for field, found in report.to_dict()["estimates"].items():
        value, low, high = ("?" if found[part] is None else f"{found[part]:.4g}" for part in ("value", "low", "high"))
        finds = "" if found["finds"] is None else f", finds {found['finds']:.2g}"
        rows.append((_NAMES.get(field, field), f"{value} [{low}, {high}], stated {found['stated']:.4g}{finds}"))
    print_rows([*rows, ("commitment", report.manifest.commitment)], 14)
