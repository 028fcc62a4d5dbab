"""``account``: noise multiplier for an epsilon, epsilon of a noise multiplier, and review of a stated guarantee."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import typer
from pydantic import ConfigDict, Field

from pfl_audit.cli import options
from pfl_audit.cli.console import make_progress, print_json, print_rows
from pfl_audit.cli.options import refuse_unused
from pfl_audit.cli.settings_options import Options, keyword, with_parameters
from pfl_audit.core.settings import Settings, read_settings
from pfl_audit.errors import EXIT_FINDING, EXIT_NOT_AUDITED, AuditError, NotAuditableError, UsageError
from pfl_audit.inputs import require_input
from pfl_audit.privacy.sampling import TrialsDrawn
from pfl_audit.privacy.units import PrivacyUnit, unit_words

if TYPE_CHECKING:
    from pfl_audit.privacy.accounting import PrivacySpent
    from pfl_audit.privacy.guarantee import GuaranteeReview
    from pfl_audit.privacy.mechanism import Mechanism
    from pfl_audit.privacy.pld import Kind
    from pfl_audit.privacy.sampling import Sampling

_NO_GUARANTEE = "the figure of the papers, not a guarantee if clients are sampled"
_ACCURACY = "{:.1f} % balanced, of any membership attack, at most"


class AccountSettings(Settings):
    """What is given of a training, and what is asked."""

    model_config = ConfigDict(allow_inf_nan=True)  # accounting names what is wrong with such a number

    sampling_rate: float | None = Field(
        default=None, description="Sampling probability of a unit per round, drawn independently."
    )
    client_rate: float | None = Field(
        default=None, description="Instead: participation probability of a client per round."
    )
    provider_rate: float | None = Field(
        default=None, description="Sampling probability of a unit in a participating client."
    )
    steps: int | None = Field(default=None, description="Number of rounds.")
    delta: float | None = Field(
        default=None, description="Target delta of the (epsilon, delta) guarantee, below 1 / units."
    )
    epsilon: float | None = Field(default=None, description="Target epsilon; returns the noise multiplier.")
    sigma: float | None = Field(default=None, description="Noise multiplier; returns epsilon.")
    accounting: Literal["valid", "published"] = Field(
        default="valid", description="valid: participation of clients is known. published: the figure of the papers."
    )
    accountant: Literal["auto", "prv", "renyi"] = Field(
        default="auto", description="Accountant of the upper bound; auto: the smaller of PLD and Rényi."
    )
    unit: PrivacyUnit = Field(default="provider", description="Unit of privacy that is drawn, clipped and protected.")
    providers: int | None = Field(default=None, ge=1, description="Number of units, to check delta.")
    fixed_size: bool = Field(
        default=False, description="Groups of a fixed size are drawn; protects against replacing a provider."
    )
    separation: int | None = Field(
        default=None,
        ge=1,
        description="Instead of rates: rounds from one participation of a provider to its next, by a known schedule.",
    )
    bands: int | None = Field(
        default=None, ge=1, description="Rounds that noise is correlated over, with --separation, which is the default."
    )
    prior: float | None = Field(
        default=None,
        gt=0,
        lt=1,
        description="Chance to guess a value without its unit; returns the largest chance to reconstruct it.",
    )
    trials: float | None = Field(
        default=None,
        description="Trials of a search over hyper-parameters, of which the best is released; a mean if drawn.",
    )
    trials_drawn: TrialsDrawn = Field(
        default="fixed", description="Number of trials: fixed, or drawn beforehand from a distribution."
    )
    trials_shape: float = Field(default=1.0, description="Shape of negative-binomial: 1 geometric, 0 logarithmic.")
    review: Path | None = Field(default=None, description="Review the guarantee of this training.json or checkpoint.")
    ledger: Path | None = Field(default=None, description="Show what the runs in this budget ledger have spent.")


_OPTIONS = Options("account", AccountSettings)


def account_command() -> Callable[..., None]:
    """The command, with its options made from the settings."""

    def account(context: typer.Context, **given: object) -> None:
        choice = read_settings(AccountSettings, _OPTIONS.given(context, given), "account")
        as_json = bool(given["as_json"])
        if choice.ledger is not None:
            _refuse_others(context, "ledger", "with --ledger, which takes everything from the file")
            show_ledger(choice.ledger, as_json=as_json)
        elif choice.review is not None:
            _refuse_others(context, "review", "with --review, which takes everything from the record")
            _, found = read_reviewed(choice.review)
            _show_review(found, as_json=as_json)
            if found.worth != "holds":
                raise typer.Exit(EXIT_NOT_AUDITED if found.worth == "unknown" else EXIT_FINDING)
        else:
            _account(choice, as_json=as_json, quiet=bool(given["quiet"]))

    account.__doc__ = """Account for the differential privacy of a training: noise for an epsilon, or the reverse.

    Example: pfl-audit account --sampling-rate 0.2 --steps 10 --delta 1e-5 --epsilon 8
    """
    shared = (("as_json", options.AsJson, False), ("quiet", options.Quiet, False), ("config", options.Config, None))
    return with_parameters(account, [*_OPTIONS.parameters(), *(keyword(*one) for one in shared)])


def _refuse_others(context: typer.Context, one: str, why: str) -> None:
    refuse_unused(context, {f"account__{name}": why for name in AccountSettings.model_fields if name != one})


def _account(choice: AccountSettings, *, as_json: bool, quiet: bool) -> None:
    """Calibrate or account, and print."""
    from pfl_audit.privacy.accounting import privacy_spent, prv_comparison
    from pfl_audit.privacy.calibration import calibrate_noise
    from pfl_audit.privacy.guarantee import guarantee_warnings
    from pfl_audit.privacy.pld import SampledGaussian
    from pfl_audit.privacy.reconstruction import largest_by_epsilon, largest_reconstruction
    from pfl_audit.privacy.tuning import Search

    delta, noise = choice.delta, choice.sigma
    schedule = _schedule(choice)
    sampling = schedule.sampling if schedule else _sampling(choice)
    kind: Kind = "schedule" if schedule else "fixed-size" if choice.fixed_size else "poisson"
    if delta is None:
        raise UsageError("--delta is missing", "Give a number below 1 / units, such as 1e-5")
    if (choice.epsilon is None) == (noise is None):
        raise UsageError("one of --epsilon and --sigma is needed, and not both", "Give the one that is known")
    if choice.trials is None and (choice.trials_drawn, choice.trials_shape) != ("fixed", 1.0):
        raise UsageError("a search is accounted by its number of trials", "Give --trials")
    if choice.trials is not None and choice.accounting == "published":
        raise UsageError("a search has no published figure", "Leave out --accounting")
    if kind != "poisson" and choice.unit != "provider":
        raise UsageError("only Poisson draws are accounted for documents and examples", "Leave out --unit")
    if kind != "poisson" and choice.accountant == "prv":
        raise UsageError("the accountant prv covers Poisson sampling only", "Leave out --accountant")
    if noise is None:
        make_progress(quiet=quiet).say("calibrating the noise multiplier")
        noise = calibrate_noise(choice.epsilon or 0.0, delta, sampling, choice.accounting, choice.accountant, kind)
    valid = privacy_spent(sampling, noise, delta, kind=kind)
    published = privacy_spent(sampling, noise, delta, "published", kind)
    shown = {"valid": valid, "published": published}[choice.accounting]
    prv, failure = prv_comparison(sampling if shown is valid else sampling.as_published(), noise, delta)
    if shown is valid and kind != "poisson":
        prv, failure = None, "it covers Poisson sampling only"
    found, by = shown.epsilon, str(shown.accountant)
    if choice.accountant == "renyi":
        found, by = shown.renyi, "renyi"
    if choice.accountant == "prv":
        if prv is None:
            raise AuditError(f"PRV fails numerically: {failure}", "Omit --accountant to use the smaller bound")
        found, by = prv, "prv"
    mechanism = SampledGaussian(sampling, noise, kind)
    answer: dict[str, object] = {
        "sigma": noise,
        "epsilon": found,
        "delta": delta,
        "accountant": by,
        "accounting": choice.accounting,
        "prv": prv,
        "prv_failure": failure,
        "renyi": shown.renyi,
        "largest_accuracy": (1 + mechanism.total_variation) / 2,
        "target": choice.epsilon,
        "sampling": asdict(sampling),
        "unit": choice.unit,
        "adjacency": {"poisson": "add/remove", "fixed-size": "replace", "schedule": "zero out"}[kind],
        "valid": _figures(valid),
        "published": {**_figures(published), "note": _NO_GUARANTEE},
        "warnings": guarantee_warnings(delta=delta, providers=choice.providers, unit=choice.unit),
    }
    if choice.trials is not None:
        search = Search(choice.trials, choice.trials_drawn, choice.trials_shape)
        answer["search"] = {
            **asdict(search),
            "epsilon": search.epsilon(sampling, noise, delta, kind),
            "of": search.words,
        }
    if schedule:
        answer |= {"participations": sampling.rounds, "bands": len(schedule.noise.strategy), "rounds": schedule.rounds}
        answer["error"] = noise * schedule.correlation.error
    if choice.prior is not None:
        answer["reconstruction"] = {
            "prior": choice.prior,
            "largest": largest_reconstruction(mechanism.trade_off, choice.prior),
            "by_epsilon_alone": largest_by_epsilon(valid.epsilon, delta, choice.prior),
        }
    if as_json:
        print_json(answer)
    else:
        _show(answer, sampling, valid, published)


def _show(answer: Mapping[str, Any], sampling: Sampling, valid: PrivacySpent, published: PrivacySpent) -> None:
    in_groups, scheduled = answer["adjacency"] == "replace", answer["adjacency"] == "zero out"
    words = unit_words(answer["unit"])
    sampled = sampling.client_rate < 1 or in_groups
    label = f", {_NO_GUARANTEE}" if answer["accounting"] == "published" and sampled else ""
    rows = [
        ("sigma", f"{answer['sigma']:.15g}"),
        (
            "epsilon",
            f"{answer['epsilon']:.4g} at delta {answer['delta']:g} by {_NAMES[answer['accountant']]}{label}",
        ),
        ("PRV", _or(answer["prv"], answer["prv_failure"])),
        ("Rényi", _or(answer["renyi"], "it covers Poisson sampling only")),
        ("accuracy", _ACCURACY.format(100 * answer["largest_accuracy"])),
    ]
    if "reconstruction" in answer:
        allowed = answer["reconstruction"]
        values = (
            f"{100 * allowed['largest']:.3g} % at most to reconstruct one that is guessed with "
            f"{100 * allowed['prior']:.3g} % without its {words.noun} (by epsilon alone: "
            f"{100 * allowed['by_epsilon_alone']:.3g} %)"
        )
        rows.append(("values", values))
    if search := answer.get("search"):
        rows.append(("search", f"epsilon {search['epsilon']:.4g} at delta {answer['delta']:g} of {search['of']}"))
    over = f"{sampling.rounds} rounds"
    if scheduled:
        error = f"{answer['error']:.4g} clips on the sum up to each round, root mean square over rounds"
        rows.append(("error", f"{error}; noise correlated over {answer['bands']} rounds"))
        over = f"{answer['rounds']} rounds, of which it takes part in {sampling.rounds} at most"
    change = "replace one" if in_groups else "zero out one" if scheduled else "add or remove one"
    protects = f"{words.whole.replace('one', 'a', 1)} ({change}), over {over}"
    print_rows([*rows, ("protects", protects)])
    if sampled:
        _explain(sampling, valid, published, words.noun, in_groups=in_groups)
    for warning in answer["warnings"]:
        typer.echo(f"warning: {warning}")


_NAMES = {"pld": "PLD", "prv": "PRV", "renyi": "Rényi"}


def _or(epsilon: float | None, reason: str | None) -> str:
    return f"none: {reason}" if epsilon is None else f"{epsilon:.4g}"


def _schedule(choice: AccountSettings) -> Mechanism | None:
    """The mechanism of a known schedule, whatever its noise; None without one."""
    if choice.separation is None:
        if choice.bands is not None:
            raise UsageError("--bands has no effect without --separation", "Give --separation, or leave out --bands")
        return None
    rates = (choice.sampling_rate, choice.client_rate, choice.provider_rate)
    if choice.fixed_size or choice.accounting == "published" or any(rate is not None for rate in rates):
        raise UsageError(
            "a schedule has no draws, and no published figure",
            "Leave out --separation, or rates, --fixed-size and --accounting",
        )
    from pfl_audit.privacy.mechanism import Mechanism

    rounds = {"rounds": _steps(choice), "optimizer": "adamw", "strategy": "fedavg"}
    drawn = {"sampling": "schedule", "separation": choice.separation, "bands": choice.bands}
    privacy = {**drawn, "clip": 1.0, "accounting": "valid"}
    return Mechanism.of("central-dp", rounds, privacy, 1, 1.0)


def _steps(choice: AccountSettings) -> int:
    from pfl_audit.privacy.sampling import Sampling

    if choice.steps is None:
        raise UsageError("--steps is missing", "Give the number of rounds")
    Sampling(1.0, 1.0, choice.steps).check()
    return choice.steps


def _sampling(choice: AccountSettings) -> Sampling:
    from pfl_audit.privacy.sampling import Sampling

    rate, client, provider = choice.sampling_rate, choice.client_rate, choice.provider_rate
    if (rate is None) == (client is None and provider is None):
        raise UsageError(
            "either --sampling-rate, or --client-rate and --provider-rate, is needed", "Give the sampling of providers"
        )
    sampling = Sampling(
        client_rate=1.0 if client is None else client,
        provider_rate=rate if rate is not None else 1.0 if provider is None else provider,
        rounds=_steps(choice),
    )
    sampling.check()
    return sampling


def _figures(found: PrivacySpent) -> dict[str, Any]:
    return {name: value for name, value in asdict(found).items() if name not in ("delta", "accounting")}


def _explain(sampling: Sampling, valid: PrivacySpent, published: PrivacySpent, noun: str, *, in_groups: bool) -> None:
    rates = f"{sampling.client_rate:g} x {sampling.provider_rate:g} = {sampling.published_rate:g}"
    if in_groups:
        known = " Which clients participated is taken as known." if sampling.client_rate < 1 else ""
        typer.echo(
            f"valid:     epsilon {valid.epsilon:.4g}. A provider of a group of a fixed size is replaced, which moves "
            f"the sum by up to two clipping norms.{known}"
        )
        typer.echo(
            f"published: epsilon {published.epsilon:.5g}, by the Rényi orders of the competition's kit. As if each "
            f"provider were drawn independently with {rates}; not a guarantee."
        )
        return
    typer.echo(
        f"valid:     epsilon {valid.epsilon:.4g}. The server and the other {noun}s' updates reveal which "
        f"clients participated; sampling clients only makes rounds rarer, and only the {noun} rate "
        f"{sampling.provider_rate:g} hides a {noun}."
    )
    typer.echo(
        f"published: epsilon {published.epsilon:.4g}. As if each {noun} were drawn independently with {rates}; "
        "not a guarantee."
    )


def read_reviewed(path: Path) -> tuple[dict[str, Any], GuaranteeReview]:
    """A training.json, or that of the folder of a checkpoint, and the review of its guarantee.

    Raises:
        UsageError: The path does not exist.
        AuditError: The file cannot be read.
        NotAuditableError: It states no guarantee.
    """
    from pfl_audit.core.training_record import FILE_NAME, read_training

    file = path / FILE_NAME if path.is_dir() else path
    remedy = "Give a training.json, or the folder of a checkpoint that has one"
    require_input(path, remedy)
    record, found = read_training(file)
    if record is None:
        raise AuditError(f"{file} {found.text}" if found else f"{path} has no {FILE_NAME}", remedy)
    if found is None:
        raise NotAuditableError(f"{file} states no differential privacy", "Give that of a privately trained checkpoint")
    return record, found


def _show_review(review: GuaranteeReview, *, as_json: bool) -> None:
    from pfl_audit.core.redaction import visible

    if as_json:
        print_json(review.model_dump(mode="json"))
        return
    rows = [("review", visible(review.text, 1000))]
    if (stated := review.claim) is not None:
        said = f"epsilon {stated.epsilon:.4g} at delta {stated.delta:g} by {visible(stated.accountant)}, "
        said += f"{stated.accounting} accounting, unit {visible(stated.unit)}, {visible(stated.adjacency)}"
        rows.insert(0, ("stated", said))
    if review.epsilon is not None:
        rows += [("PRV", _or(review.prv, review.prv_failure)), ("Rényi", _or(review.renyi, "not computed"))]
    if review.largest_accuracy is not None:
        rows.append(("accuracy", _ACCURACY.format(100 * review.largest_accuracy)))
    print_rows(rows)
    for warning in review.warnings:
        typer.echo(f"warning: {visible(warning, 1000)}")


def show_ledger(path: Path, *, as_json: bool) -> None:
    """Print the runs of a ledger and their sum; no unit is named.

    Raises:
        UsageError: There is no ledger.
        AuditError: It is damaged.
    """
    from pfl_audit.core.redaction import visible
    from pfl_audit.privacy.ledger import Ledger

    spent = Ledger(path).spent()
    if as_json:
        runs = {
            name: run.model_dump(exclude={"divergences", "providers"}) | {"providers": len(run.providers)}
            for name, run in spent.runs.items()
        }
        print_json(asdict(spent) | {"runs": runs})
        return
    noun = unit_words(spent.unit).noun
    most = f"at delta {spent.delta:g}, of the {noun} that has spent most, by a Rényi filter of order {spent.order:g}"
    rows = [
        (
            "run",
            f"{visible(name[:12])} of {visible(run.began)}: {len(run.providers)} {noun}s, "
            f"{run.rounds} rounds{' of each' * (run.kind == 'schedule')}, noise {run.noise_multiplier:g}, "
            f"epsilon {run.epsilon:.4g} alone",
        )
        for name, run in spent.runs.items()
    ]
    rows += [(f"{noun}s", str(spent.providers)), ("epsilon", f"{spent.epsilon:.4g} {most}")]
    rows.append(("together", f"{spent.together:.4g}, as if one {noun} were in all runs"))
    print_rows([*rows, ("cap", f"{spent.cap:g}")] if spent.cap is not None else rows)
