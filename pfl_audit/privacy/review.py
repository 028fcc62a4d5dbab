"""Review of a stated guarantee: epsilon is recomputed by valid accounting for the rounds run."""

from __future__ import annotations

from pydantic import ValidationError

from pfl_audit.errors import UsageError
from pfl_audit.privacy.accounting import (
    ABSOLUTE_TOLERANCE,
    RELATIVE_TOLERANCE,
    PrivacySpent,
    privacy_spent,
    prv_comparison,
)
from pfl_audit.privacy.guarantee import (
    CRYPTOGRAPHIC,
    AllowedReconstruction,
    GuaranteeReview,
    PrivacyGuarantee,
    accuracy_bound,
    guarantee_warnings,
)
from pfl_audit.privacy.pld import SampledGaussian
from pfl_audit.privacy.reconstruction import largest_by_epsilon, largest_reconstruction

PRIORS = tuple(digit * 10.0**power for power in range(-4, 0) for digit in (1, 2, 5))
"""Chances to guess a value without its provider, for which a review says what the guarantee allows."""
_ADJACENCY = {"poisson": "added or removed", "fixed-size": "replaced"}


def review_entry(privacy: object) -> GuaranteeReview | None:
    """Review the ``privacy`` entry of a ``training.json``.

    Args:
        privacy: Any JSON value: a guarantee, a sentence that there is none, or None.

    Returns:
        The review; None if there is no guarantee.
    """
    if privacy is None or isinstance(privacy, str):
        return None
    try:
        return review_guarantee(PrivacyGuarantee.model_validate(privacy))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        what = f"'{where}': {first['msg']}" if where else "it is not an object"
        return GuaranteeReview(claim=None, worth="unknown", text=f"cannot be read ({what[:200]})")


def review_guarantee(stated: PrivacyGuarantee) -> GuaranteeReview:
    """Recompute the epsilon of a guarantee, and summarise the result in a sentence."""
    warnings = guarantee_warnings(
        delta=stated.delta,
        epsilon=stated.epsilon,
        accountant=stated.accountant,
        providers=stated.providers,
        rounds=stated.rounds,
        rounds_accounted=stated.rounds_accounted,
        forced_participation=stated.forced_participation,
        noise_generator=stated.noise_generator,
    )
    kind = stated.sampling.kind
    comparable = _is_comparable(stated)
    if not comparable:
        warnings.append(
            f"recomputed for a provider, {_ADJACENCY[kind]}, but stated for '{stated.unit}', '{stated.adjacency}'"
        )
    try:
        valid = privacy_spent(stated.sampled(), stated.noise_multiplier, stated.delta, kind=kind)
        published = privacy_spent(stated.sampled(), stated.noise_multiplier, stated.delta, "published", kind)
    except UsageError as error:
        return GuaranteeReview(
            claim=stated,
            worth="unknown",
            text=f"cannot be recomputed: {error.problem}",
            claimed_accuracy=accuracy_bound(stated.epsilon, stated.delta),
            reconstruction=_allowed(stated.epsilon, stated.delta, None),
            warnings=warnings,
        )
    secret = stated.noise_generator.casefold().startswith(CRYPTOGRAPHIC)
    covered = comparable and not stated.forced_participation
    weaker = valid.epsilon > stated.epsilon + max(ABSOLUTE_TOLERANCE, RELATIVE_TOLERANCE * valid.epsilon)
    if weaker:
        warnings.append(f"the stated epsilon is {stated.epsilon:g}, the recomputed epsilon is {valid.epsilon:.2f}")
    prv, prv_failure = prv_comparison(stated.sampled(), stated.noise_multiplier, stated.delta)
    mechanism = SampledGaussian(stated.sampled(), stated.noise_multiplier, kind)
    return GuaranteeReview(
        claim=stated,
        worth="weaker" if weaker and covered else "holds" if covered and secret else "unknown",
        text=_text(stated, valid, weaker=weaker, comparable=comparable, secret=secret),
        epsilon=valid.epsilon,
        accountant=valid.accountant,
        prv=prv if kind == "poisson" else None,
        prv_failure=prv_failure if kind == "poisson" else "it covers Poisson sampling only",
        renyi=valid.renyi,
        published=published.epsilon if stated.sampling.client_rate < 1 or kind == "fixed-size" else None,
        claimed_accuracy=accuracy_bound(stated.epsilon, stated.delta),
        largest_accuracy=(1 + mechanism.total_variation) / 2 if covered else None,
        reconstruction=_allowed(valid.epsilon, stated.delta, mechanism)
        if covered
        else _allowed(stated.epsilon, stated.delta, None),
        warnings=warnings,
    )


def _allowed(epsilon: float, delta: float, mechanism: SampledGaussian | None) -> list[AllowedReconstruction]:
    return [
        AllowedReconstruction(
            prior=prior,
            by_mechanism=None if mechanism is None else largest_reconstruction(mechanism.trade_off, prior),
            by_epsilon=largest_by_epsilon(epsilon, delta, prior),
        )
        for prior in PRIORS
    ]


def _is_comparable(stated: PrivacyGuarantee) -> bool:
    """Whether unit and adjacency are those of the accountant for this kind of draw."""
    names = {"poisson": ("add", "remove", "zero"), "fixed-size": ("replace", "zero")}[stated.sampling.kind]
    return stated.unit.casefold() == "provider" and stated.adjacency.casefold().startswith(names)


def _text(stated: PrivacyGuarantee, valid: PrivacySpent, *, weaker: bool, comparable: bool, secret: bool) -> str:
    if stated.forced_participation:
        least = f"; with Poisson sampling the effective epsilon would be {valid.epsilon:.2f}" if weaker else ""
        return f"cannot be recomputed: the accountants do not cover forced participation{least}"
    if not comparable:
        return (
            f"not comparable: epsilon {valid.epsilon:.2f} protects a provider, "
            f"{_ADJACENCY[stated.sampling.kind]}, and another unit or adjacency is stated"
        )
    if not weaker and not secret:
        return f"epsilon {valid.epsilon:.2f}, but only against adversaries who cannot regenerate the noise"
    if not weaker:
        return f"as stated: epsilon {valid.epsilon:.2f} for the {stated.rounds} rounds that were run"
    if stated.accounting == "published" and stated.sampling.client_rate < 1:
        return (
            f"published accounting: effective epsilon {valid.epsilon:.2f}, because the server and the other "
            "providers' updates reveal the participation of a client"
        )
    return f"effective epsilon {valid.epsilon:.2f} instead of the stated {stated.epsilon:g}"
