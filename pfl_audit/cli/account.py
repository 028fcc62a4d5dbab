"""``account``: noise multiplier for an epsilon, epsilon of a noise multiplier, and review of a stated guarantee."""

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
    from pfl_audit.privacy.accounting import PrivacySpent
    from pfl_audit.privacy.guarantee import GuaranteeReview
    from pfl_audit.privacy.sampling import Sampling

_PARAMETERS = (
    "sampling_rate", "client_rate", "provider_rate", "steps", "delta", "epsilon", "sigma", "accounting", "accountant",
    "providers", "fixed_size",
)  # fmt: skip
_NO_GUARANTEE = "the figure of the papers, not a guarantee if clients are sampled"


def account(
    context: typer.Context,
    sampling_rate: Annotated[
        float | None,
        typer.Option(
            "--sampling-rate",
            help="Sampling probability of a provider per round, drawn independently.",
            show_default=False,
        ),
    ] = None,
    client_rate: Annotated[
        float | None,
        typer.Option(
            "--client-rate", help="Instead: participation probability of a client per round.", show_default=False
        ),
    ] = None,
    provider_rate: Annotated[
        float | None,
        typer.Option(
            "--provider-rate", help="Sampling probability of a provider in a participating client.", show_default=False
        ),
    ] = None,
    steps: Annotated[int | None, typer.Option("--steps", help="Number of rounds.", show_default=False)] = None,
    delta: Annotated[
        float | None,
        typer.Option(
            "--delta", help="Target delta of the (epsilon, delta) guarantee, below 1 / providers.", show_default=False
        ),
    ] = None,
    epsilon: Annotated[
        float | None,
        typer.Option("--epsilon", help="Target epsilon; returns the noise multiplier.", show_default=False),
    ] = None,
    sigma: Annotated[
        float | None, typer.Option("--sigma", help="Noise multiplier; returns epsilon.", show_default=False)
    ] = None,
    accounting: Annotated[
        Literal["valid", "published"],
        typer.Option(
            "--accounting", help="valid: participation of clients is known. published: the figure of the papers."
        ),
    ] = "valid",
    accountant: Annotated[
        Literal["auto", "prv", "renyi"],
        typer.Option("--accountant", help="Accountant of the upper bound; auto: the smaller bound."),
    ] = "auto",
    providers: Annotated[
        int | None, typer.Option("--providers", min=1, help="Number of providers, to check delta.", show_default=False)
    ] = None,
    fixed_size: Annotated[
        bool, typer.Option("--fixed-size", help="Groups of a fixed size are drawn (warns: no accountant covers it).")
    ] = False,
    review: Annotated[
        Path | None,
        typer.Option("--review", help="Review the guarantee of this training.json or checkpoint.", show_default=False),
    ] = None,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
    config: options.Config = None,
) -> None:
    """Account for provider-level differential privacy: noise multiplier for an epsilon, or the reverse.

    Example: pfl-audit account --sampling-rate 0.2 --steps 10 --delta 1e-5 --epsilon 8
    """
    if review is not None:
        refuse_unused(context, dict.fromkeys(_PARAMETERS, "with --review, which takes everything from the record"))
        _show_review(_read_review(review), as_json=as_json)
        return
    from pfl_audit.privacy.accounting import privacy_spent
    from pfl_audit.privacy.calibration import calibrate_noise
    from pfl_audit.privacy.guarantee import guarantee_warnings

    sampling = _sampling(sampling_rate, client_rate, provider_rate, steps)
    if delta is None:
        raise UsageError("--delta is missing", "Give a number below 1 / providers, such as 1e-5")
    if (epsilon is None) == (sigma is None):
        raise UsageError("one of --epsilon and --sigma is needed, and not both", "Give the one that is known")
    if sigma is None:
        make_progress(quiet=quiet).say("calibrating the noise multiplier")
    noise = sigma if sigma is not None else calibrate_noise(epsilon or 0.0, delta, sampling, accounting, accountant)
    figures = {
        "valid": privacy_spent(sampling, noise, delta),
        "published": privacy_spent(sampling, noise, delta, "published"),
    }
    found, by = _bound(figures[accounting], accountant)
    warnings = guarantee_warnings(
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
            "either --sampling-rate, or --client-rate and --provider-rate, is needed", "Give the sampling of providers"
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


def _bound(found: PrivacySpent, accountant: str) -> tuple[float, str]:
    if accountant == "renyi":
        return found.renyi, "renyi"
    if accountant == "prv":
        if found.prv is None:
            raise AuditError(f"PRV fails numerically: {found.prv_failure}", "Omit --accountant to use the Rényi bound")
        return found.prv, "prv"
    return found.epsilon, found.accountant


def _figures(found: PrivacySpent) -> dict[str, Any]:
    return {name: value for name, value in asdict(found).items() if name not in ("delta", "accounting")}


def _explain(sampling: Sampling, figures: dict[str, PrivacySpent]) -> None:
    typer.echo(
        f"valid:     epsilon {figures['valid'].epsilon:.4g}. The server and the other providers' updates reveal which "
        f"clients participated; sampling clients only makes rounds rarer, and only the provider rate "
        f"{sampling.provider_rate:g} hides a provider."
    )
    typer.echo(
        f"published: epsilon {figures['published'].epsilon:.4g}. As if each provider were drawn independently with "
        f"{sampling.client_rate:g} x {sampling.provider_rate:g} = {sampling.published_rate:g}; not a guarantee."
    )


def _read_review(path: Path) -> GuaranteeReview:
    from pfl_audit.core.training_record import FILE_NAME, read_training

    file = path / FILE_NAME if path.is_dir() else path
    remedy = "Give a training.json, or the folder of a checkpoint that has one"
    require_input(path, remedy)
    record, found = read_training(file)
    if record is None:
        raise AuditError(f"{file} {found.text if found else 'does not exist'}", remedy)
    if found is None:
        raise NotAuditableError(f"{file} states no differential privacy", "Give that of a privately trained checkpoint")
    return found


def _show_review(review: GuaranteeReview, *, as_json: bool) -> None:
    from pfl_audit.core.redaction import visible

    if as_json:
        print_json(review.model_dump(mode="json"))
        return
    if review.claim is not None:
        stated = review.claim
        typer.echo(
            f"{'stated':10}epsilon {stated.epsilon:.4g} at delta {stated.delta:g} by {visible(stated.accountant)}, "
            f"{stated.accounting} accounting, unit {visible(stated.unit)}, {visible(stated.adjacency)}"
        )
    typer.echo(f"{'review':10}{visible(review.text, 1000)}")
    if review.prv is not None or review.prv_failure is not None:
        typer.echo(f"{'PRV':10}{f'{review.prv:.4g}' if review.prv is not None else f'fails: {review.prv_failure}'}")
    if review.renyi is not None:
        typer.echo(f"{'Rényi':10}{review.renyi:.4g}")
    for warning in review.warnings:
        typer.echo(f"warning: {visible(warning, 1000)}")
