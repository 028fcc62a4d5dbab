"""What a claim is worth: recomputed by valid accounting for the rounds that were run."""

from __future__ import annotations

from pydantic import ValidationError

from pfl_audit.errors import UsageError
from pfl_audit.privacy.accounting import Spent, spent
from pfl_audit.privacy.claim import CRYPTOGRAPHIC, ClaimReview, PrivacyClaim, accuracy_bound, warnings_for

_SLACK = 1e-3
"""Below it two figures of epsilon are the same."""


def read_claim(privacy: object) -> ClaimReview | None:
    """Review the ``privacy`` entry of a ``training.json``, whatever it holds.

    Args:
        privacy: An object with a claim, a sentence that there is none, or nothing.

    Returns:
        The review; None where nothing is claimed.
    """
    if privacy is None or isinstance(privacy, str):
        return None
    try:
        return review(PrivacyClaim.model_validate(privacy))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        what = f"'{where}': {first['msg']}" if where else "it is not an object"
        return ClaimReview(claim=None, worth="unknown", text=f"cannot be read ({what[:200]})")


def review(claim: PrivacyClaim) -> ClaimReview:
    """Recompute a claim, and say in a sentence what it is worth."""
    warnings = warnings_for(
        delta=claim.delta,
        epsilon=claim.epsilon,
        accountant=claim.accountant,
        providers=claim.providers,
        fixed_size=claim.sampling.kind == "fixed-size",
        rounds=claim.rounds,
        rounds_accounted=claim.rounds_accounted,
        forced_participation=claim.forced_participation,
        noise_generator=claim.noise_generator,
    )
    if claim.unit.casefold() != "provider":
        warnings.append(
            f"the unit is '{claim.unit}': a provider with several documents is protected less, or not at all"
        )
    if "add" not in claim.adjacency.casefold():
        warnings.append(f"recomputed for adding or removing one provider, and claimed for '{claim.adjacency}'")
    try:
        valid = spent(claim.sampled(), claim.noise_multiplier, claim.delta)
        published = spent(claim.sampled(), claim.noise_multiplier, claim.delta, "published")
    except UsageError as error:
        return ClaimReview(
            claim=claim,
            worth="unknown",
            text=f"cannot be recomputed: {error.problem}",
            claimed_accuracy=accuracy_bound(claim.epsilon, claim.delta),
            warnings=warnings,
        )
    sound = claim.sampling.kind == "poisson" and not claim.forced_participation
    secret = claim.noise_generator.casefold().startswith(CRYPTOGRAPHIC)
    weaker = valid.epsilon > claim.epsilon + _SLACK
    if weaker:
        warnings.append(f"epsilon {claim.epsilon:g} is claimed, and {valid.epsilon:.2f} is what we recompute")
    return ClaimReview(
        claim=claim,
        worth="weaker" if weaker else "holds" if sound and secret else "unknown",
        text=_text(claim, valid, weaker=weaker, sound=sound, secret=secret),
        epsilon=valid.epsilon,
        accountant=valid.accountant,
        prv=valid.prv,
        prv_failure=valid.prv_failure,
        renyi=valid.renyi,
        published=published.epsilon if claim.sampling.client_rate < 1 else None,
        claimed_accuracy=accuracy_bound(claim.epsilon, claim.delta),
        largest_accuracy=accuracy_bound(valid.epsilon, claim.delta) if sound else None,
        warnings=warnings,
    )


def _text(claim: PrivacyClaim, valid: Spent, *, weaker: bool, sound: bool, secret: bool) -> str:
    if not sound:
        how = "fixed-size sampling" if claim.sampling.kind == "fixed-size" else "forced participation"
        least = f"; were it Poisson, it would be worth epsilon {valid.epsilon:.2f}" if weaker else ""
        return f"cannot be recomputed: no accountant of ours covers {how}{least}"
    if not weaker and not secret:
        return f"epsilon {valid.epsilon:.2f} against those alone who cannot draw its noise again"
    if not weaker:
        return f"holds: epsilon {valid.epsilon:.2f} for the {claim.rounds} rounds that were run"
    if claim.accounting == "published" and claim.sampling.client_rate < 1:
        return (
            f"published accounting: worth epsilon {valid.epsilon:.2f}, because the other providers' updates and the "
            "server give a client's participation away"
        )
    return f"worth epsilon {valid.epsilon:.2f}, and not {claim.epsilon:g}"
