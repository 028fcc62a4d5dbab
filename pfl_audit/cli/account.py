"""``account``: noise for an epsilon, epsilon of a noise, and what a claim is worth."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from pfl_audit.cli import options
from pfl_audit.cli.console import make_progress, print_json
from pfl_audit.cli.unused import refuse_unused
from pfl_audit.errors import AuditError, NotAuditableError, UsageError
from pfl_audit.inputs import require_input

if TYPE_CHECKING:
    from pfl_audit.privacy.accounting import Spent
    from pfl_audit.privacy.claim import ClaimReview
    from pfl_audit.privacy.sampling import Sampling

_ASKED = (
    "sampling_rate", "client_rate", "provider_rate", "steps", "delta", "epsilon", "sigma", "accounting", "accountant",
    "providers", "fixed_size",
)  # fmt: skip
_NO_GUARANTEE = "the papers' figure, not a guarantee where clients are sampled"


def account(
    context: typer.Context,
    sampling_rate: Annotated[
        float | None,
        typer.Option("--sampling-rate", help="Chance of each provider in a round, drawn alone.", show_default=False),
    ] = None,
    client_rate: Annotated[
        float | None,
        typer.Option("--client-rate", help="Instead: chance of a client in a round.", show_default=False),
    ] = None,
    provider_rate: Annotated[
        float | None,
        typer.Option("--provider-rate", help="And of a provider in a client that takes part.", show_default=False),
    ] = None,
    steps: Annotated[int | None, typer.Option("--steps", help="Rounds.", show_default=False)] = None,
    delta: Annotated[float | None, typer.Option("--delta", help="Below 1 / providers.", show_default=False)] = None,
    epsilon: Annotated[
        float | None, typer.Option("--epsilon", help="Target; gives the noise multiplier.", show_default=False)
    ] = None,
    sigma: Annotated[
        float | None, typer.Option("--sigma", help="Noise multiplier; gives epsilon.", show_default=False)
    ] = None,
    accounting: Annotated[
        Literal["valid", "published"],
        typer.Option("--accounting", help="valid: participation of clients is known. published: the papers' figure."),
    ] = "valid",
    accountant: Annotated[
        Literal["auto", "prv", "renyi"], typer.Option("--accountant", help="Whose upper bound counts; auto: the lower.")
    ] = "auto",
    providers: Annotated[
        int | None, typer.Option("--providers", min=1, help="How many there are, to judge delta.", show_default=False)
    ] = None,
    fixed_size: Annotated[
        bool, typer.Option("--fixed-size", help="Groups of a fixed size are drawn (warns: nothing here covers it).")
    ] = False,
    claim: Annotated[
        Path | None,
        typer.Option("--claim", help="Review this training.json, or the one of this checkpoint.", show_default=False),
    ] = None,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
    config: options.Config = None,
) -> None:
    """Account for provider-level differential privacy: noise for an epsilon, or epsilon of a noise.

    Example: pfl-audit account --sampling-rate 0.2 --steps 10 --delta 1e-5 --epsilon 8
    """
    if claim is not None:
        refuse_unused(context, dict.fromkeys(_ASKED, "with --claim, which says all of it"))
        _show_claim(_read_claim(claim), as_json=as_json)
        return
    from pfl_audit.privacy.accounting import spent
    from pfl_audit.privacy.calibration import noise_for
    from pfl_audit.privacy.claim import warnings_for

    sampling = _sampling(sampling_rate, client_rate, provider_rate, steps)
    if delta is None:
        raise UsageError("--delta is missing", "Give a number below 1 / providers, such as 1e-5")
    if (epsilon is None) == (sigma is None):
        raise UsageError("one of --epsilon and --sigma is needed, and not both", "Give the one that is known")
    if sigma is None:
        make_progress(quiet=quiet).say("looking for the noise multiplier")
    noise = sigma if sigma is not None else noise_for(epsilon or 0.0, delta, sampling, accounting, accountant)
    figures = {"valid": spent(sampling, noise, delta), "published": spent(sampling, noise, delta, "published")}
    found, by = _bound(figures[accounting], accountant)
    warnings = warnings_for(
        delta=delta, providers=providers, fixed_size=fixed_size, rounds=steps, rounds_accounted=steps
    )
    if as_json:
        print_json(
            {
                "sigma": noise,
                "epsilon": found,
                "delta": delta,
                "accountant": by,
                "accounting": accounting,
                "prv": figures[accounting].prv,
                "prv_failure": figures[accounting].prv_failure,
                "renyi": figures[accounting].renyi,
                "target": epsilon,
                "sampling": asdict(sampling),
                "unit": "provider",
                "adjacency": "add/remove",
                "valid": _figures(figures["valid"]),
                "published": {**_figures(figures["published"]), "note": _NO_GUARANTEE},
                "warnings": warnings,
            }
        )
        return
    label = f", {_NO_GUARANTEE}" if accounting == "published" and sampling.client_rate < 1 else ""
    shown = figures[accounting]
    typer.echo(f"{'sigma':10}{noise:.15g}")
    typer.echo(f"{'epsilon':10}{found:.4g} at delta {delta:g} by {_NAMES[by]}{label}")
    typer.echo(f"{'PRV':10}{f'{shown.prv:.4g}' if shown.prv is not None else f'fails: {shown.prv_failure}'}")
    typer.echo(f"{'Rényi':10}{shown.renyi:.4g}")
    typer.echo(f"{'protects':10}a provider with all its documents (add or remove one), over {sampling.rounds} rounds")
    if sampling.client_rate < 1:
        _explain(sampling, figures)
    for warning in warnings:
        typer.echo(f"warning: {warning}")


_NAMES = {"prv": "PRV", "renyi": "Rényi"}


def _sampling(rate: float | None, client: float | None, provider: float | None, steps: int | None) -> Sampling:
    from pfl_audit.privacy.sampling import Sampling

    if (rate is None) == (client is None and provider is None):
        raise UsageError(
            "either --sampling-rate, or --client-rate and --provider-rate, is needed", "Say how providers are drawn"
        )
    if steps is None:
        raise UsageError("--steps is missing", "Give the number of rounds")
    sampling = Sampling(
        client_rate=1.0 if client is None else client,
        provider_rate=rate if rate is not None else 1.0 if provider is None else provider,
        rounds=steps,
    )
    sampling.check()
    return sampling


def _bound(found: Spent, accountant: str) -> tuple[float, str]:
    if accountant == "renyi":
        return found.renyi, "renyi"
    if accountant == "prv":
        if found.prv is None:
            raise AuditError(f"PRV fails numerically: {found.prv_failure}", "Leave --accountant out to stand on Rényi")
        return found.prv, "prv"
    return found.epsilon, found.accountant


def _figures(found: Spent) -> dict[str, Any]:
    return {
        "epsilon": found.epsilon,
        "accountant": found.accountant,
        "prv": found.prv,
        "prv_failure": found.prv_failure,
        "renyi": found.renyi,
    }


def _explain(sampling: Sampling, figures: dict[str, Spent]) -> None:
    typer.echo(
        f"valid:     epsilon {figures['valid'].epsilon:.4g}. The server and the other providers' updates show which "
        f"clients took part; sampling them only makes rounds rarer, and the provider rate {sampling.provider_rate:g} "
        "alone hides a provider."
    )
    typer.echo(
        f"published: epsilon {figures['published'].epsilon:.4g}. As if each provider were drawn alone with "
        f"{sampling.client_rate:g} x {sampling.provider_rate:g} = {sampling.published_rate:g}; not a guarantee."
    )


def _read_claim(path: Path) -> ClaimReview:
    from pfl_audit.core.training_record import FILE_NAME, read_training

    file = path / FILE_NAME if path.is_dir() else path
    remedy = "Give a training.json, or the folder of a checkpoint that has one"
    require_input(path, remedy)
    record, found = read_training(file)
    if record is None:
        raise AuditError(f"{file} {found.text if found else 'does not exist'}", remedy)
    if found is None:
        raise NotAuditableError(f"{file} claims no differential privacy", "Give that of a privately trained checkpoint")
    return found


def _show_claim(review: ClaimReview, *, as_json: bool) -> None:
    from pfl_audit.core.redaction import visible

    if as_json:
        print_json(review.model_dump(mode="json"))
        return
    if review.claim is not None:
        claim = review.claim
        typer.echo(
            f"{'claimed':10}epsilon {claim.epsilon:.4g} at delta {claim.delta:g} by {visible(claim.accountant)}, "
            f"{claim.accounting} accounting, unit {visible(claim.unit)}, {visible(claim.adjacency)}"
        )
    typer.echo(f"{'worth':10}{visible(review.text, 1000)}")
    if review.prv is not None or review.prv_failure is not None:
        typer.echo(f"{'PRV':10}{f'{review.prv:.4g}' if review.prv is not None else f'fails: {review.prv_failure}'}")
    if review.renyi is not None:
        typer.echo(f"{'Rényi':10}{review.renyi:.4g}")
    for warning in review.warnings:
        typer.echo(f"warning: {visible(warning, 1000)}")
