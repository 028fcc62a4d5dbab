"""Review of a stated guarantee: epsilon is recomputed by valid accounting for the rounds run."""

from __future__ import annotations

from pydantic import ValidationError

from pfl_audit.errors import UsageError
from pfl_audit.privacy.accounting import PrivacySpent, privacy_spent
from pfl_audit.privacy.guarantee import (
    CRYPTOGRAPHIC,
    GuaranteeReview,
    PrivacyGuarantee,
    accuracy_bound,
    guarantee_warnings,
)

_SLACK = 1e-3
"""Largest difference at which two values of epsilon are equal."""


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
        fixed_size=stated.sampling.kind == "fixed-size",
        rounds=stated.rounds,
        rounds_accounted=stated.rounds_accounted,
        forced_participation=stated.forced_participation,
        noise_generator=stated.noise_generator,
    )
    if stated.unit.casefold() != "provider":
        warnings.append(
            f"the unit is '{stated.unit}': a provider with several documents is protected less, or not at all"
        )
    if "add" not in stated.adjacency.casefold():
        warnings.append(f"recomputed for adding or removing one provider, but stated for '{stated.adjacency}'")
    try:
        valid = privacy_spent(stated.sampled(), stated.noise_multiplier, stated.delta)
        published = privacy_spent(stated.sampled(), stated.noise_multiplier, stated.delta, "published")
    except UsageError as error:
        return GuaranteeReview(
            claim=stated,
            worth="unknown",
            text=f"cannot be recomputed: {error.problem}",
            claimed_accuracy=accuracy_bound(stated.epsilon, stated.delta),
            warnings=warnings,
        )
    sound = stated.sampling.kind == "poisson" and not stated.forced_participation
    secret = stated.noise_generator.casefold().startswith(CRYPTOGRAPHIC)
    weaker = valid.epsilon > stated.epsilon + _SLACK
    if weaker:
        warnings.append(f"the stated epsilon is {stated.epsilon:g}, the recomputed epsilon is {valid.epsilon:.2f}")
    return GuaranteeReview(
        claim=stated,
        worth="weaker" if weaker else "holds" if sound and secret else "unknown",
        text=_text(stated, valid, weaker=weaker, sound=sound, secret=secret),
        epsilon=valid.epsilon,
        accountant=valid.accountant,
        prv=valid.prv,
        prv_failure=valid.prv_failure,
        renyi=valid.renyi,
        published=published.epsilon if stated.sampling.client_rate < 1 else None,
        claimed_accuracy=accuracy_bound(stated.epsilon, stated.delta),
        largest_accuracy=accuracy_bound(valid.epsilon, stated.delta) if sound else None,
        warnings=warnings,
    )


def _text(stated: PrivacyGuarantee, valid: PrivacySpent, *, weaker: bool, sound: bool, secret: bool) -> str:
    if not sound:
        how = "fixed-size sampling" if stated.sampling.kind == "fixed-size" else "forced participation"
        least = f"; with Poisson sampling the effective epsilon would be {valid.epsilon:.2f}" if weaker else ""
        return f"cannot be recomputed: the accountants do not cover {how}{least}"
    if not weaker and not secret:
        return f"epsilon {valid.epsilon:.2f}, but only against adversaries who cannot regenerate the noise"
    if not weaker:
        return f"holds: epsilon {valid.epsilon:.2f} for the {stated.rounds} rounds that were run"
    if stated.accounting == "published" and stated.sampling.client_rate < 1:
        return (
            f"published accounting: effective epsilon {valid.epsilon:.2f}, because the server and the other "
            "providers' updates reveal the participation of a client"
        )
    return f"effective epsilon {valid.epsilon:.2f} instead of the stated {stated.epsilon:g}"
