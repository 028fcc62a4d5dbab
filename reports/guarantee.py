"""Privacy guarantee of the model under audit beside what was measured."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pfl_audit.core.contradiction import most_allowed, surest_bounded
from pfl_audit.core.numbers import interval, number
from pfl_audit.core.results import Check, Metric, Results, Table
from pfl_audit.privacy.guarantee import GuaranteeReview, GuaranteeSampling, PrivacyGuarantee
from pfl_audit.privacy.units import unit_words
from pfl_audit.reports.words import slice_name

_WORDS: Final = {
    "holds": "Holds",
    "weaker": "Weaker",
    "unknown": "Unconfirmed",
    "in doubt": "In doubt",
    "unexplained": "Does not explain",
    "contradicted": "Contradicted",
}
_ACCOUNTING: Final = {
    "valid": "valid: the adversary knows which clients took part",
    "published": "published: as if every unit were drawn independently; no guarantee where clients are sampled",
}
_PRIORS: Final = (1e-4, 1e-3, 1e-2, 1e-1, 0.5)
_MARKS: Final = {
    "holds": "none",
    "weaker": "weak",
    "unknown": "unresolved",
    "in doubt": "unresolved",
    "unexplained": "weak",
    "contradicted": "leak",
}


@dataclass(frozen=True)
class GuaranteeView:
    """A privacy guarantee as a report prints it.

    Attributes:
        mark: CSS class of the coloured mark.
        word: Text of the mark.
        effective: Sentence about the effective epsilon.
        rows: Labels and texts, as (label, text).
        sides: Claimed, effective and measured epsilon side by side, as (label, number, explanation).
        reconstruction: What it allows of the reconstruction of values.
        warnings: Sentences on what weakens the guarantee.
        systems: What parts of the training system change of the guarantee.
        not_covered: Data or outputs that the guarantee does not cover.
    """

    mark: str
    word: str
    headline: str
    effective: str
    rows: tuple[tuple[str, str], ...]
    sides: tuple[tuple[str, str, str], ...] = ()
    reconstruction: Table | None = None
    warnings: tuple[str, ...] = ()
    systems: tuple[str, ...] = ()
    not_covered: tuple[str, ...] = ()


def view_guarantee(results: Results) -> GuaranteeView | None:
    """Arrange the guarantee that the model's training record states; None where it states none."""
    review = results.target.claim_review
    if review is None:
        return None
    mark, word = _MARKS[review.worth], _WORDS[review.worth]
    if review.claim is None:
        return GuaranteeView(mark, word, "a privacy guarantee", f"The stated guarantee {review.text}.", ())
    canaries = next((check for check in results.checks if any(one.role == "epsilon" for one in check.metrics)), None)
    return GuaranteeView(
        mark=mark,
        word=word,
        headline=f"epsilon {review.claim.epsilon:.4g} at delta {review.claim.delta:g} for a {review.claim.unit}",
        effective=f"{review.text[:1].upper()}{review.text[1:]}.{_together(review.claim)}",
        rows=(
            *_stated(review.claim),
            *_recomputed(review),
            *_measured(results, review),
            *_put_back(results, review),
            *_canaries(canaries, review.claim),
        ),
        sides=_sides(review, review.claim, canaries),
        reconstruction=_reconstruction(review),
        warnings=tuple(review.warnings),
        systems=tuple(review.parts),
        not_covered=tuple(review.not_covered),
    )


def _sides(
    review: GuaranteeReview, claim: PrivacyGuarantee, canaries: Check | None
) -> tuple[tuple[str, str, str], ...]:
    """The three numbers that a reader compares: what is stated, what it is worth, and what an attack shows."""
    effective = "–" if review.epsilon is None else f"{review.epsilon:.4g}"
    worth = "cannot be recomputed" if review.epsilon is None else "by valid accounting of the stated mechanism"
    measured, how = "–", "not measured: plant canaries (train --audit-canaries) or give more documents"
    if canaries is not None:
        measured = "≥ " + next(number(metric) for metric in canaries.metrics if metric.role == "epsilon")
        how = "at least, by canaries, with 95 % confidence"
    return (
        ("Claimed epsilon", f"{claim.epsilon:.4g}", f"at delta {claim.delta:g} for a {claim.unit}"),
        ("Effective epsilon", effective, worth),
        ("Measured epsilon", measured, how),
    )


def _stated(claim: PrivacyGuarantee) -> tuple[tuple[str, str], ...]:
    carrier = ", full noise on every client's message" if claim.noise == "message" else ""
    return (
        ("Stated", f"epsilon {claim.epsilon:.4g} at delta {claim.delta:g}, by {claim.accountant}"),
        ("Accounting", _ACCOUNTING[claim.accounting]),
        ("Protects", f"{claim.unit}; adjacent data sets: {claim.adjacency}"),
        (
            "Mechanism",
            f"{claim.rounds} rounds, noise multiplier {claim.noise_multiplier:.12g}, clip {claim.clip:g}; a round has "
            f"{_drawn(claim.sampling, unit_words(claim.unit).noun)}{carrier}",
        ),
        ("All runs, as stated", _all_runs(claim)),
    )


def _drawn(sampling: GuaranteeSampling, noun: str) -> str:
    """Who takes part in a round."""
    clients, providers = f"{sampling.client_rate:g}", f"{sampling.provider_rate:g}"
    if sampling.kind == "fixed-size":
        return f"a share of {clients} of the clients, and of {providers} of the {noun}s of each, without replacement"
    if sampling.separation is not None:
        return f"every client, and each of its {noun}s in one of {sampling.separation} rounds"
    of = "every client" if sampling.client_rate == 1 else f"each client with probability {clients}"
    if sampling.provider_rate == 1:
        return f"{of}, with all its {noun}s"
    return f"{of}, and each of its {noun}s with probability {providers}"


def _all_runs(claim: PrivacyGuarantee) -> str:
    """The epsilon of all runs over the same data, as far as they were counted."""
    if claim.composed is None:
        return "not stated: other private runs over the same data would add to epsilon"
    over = claim.composed
    if over.runs == 1:
        return "this is the first run over these data, by the budget ledger; a later run adds to epsilon"
    return f"epsilon {over.epsilon:.4g} at delta {over.delta:g} for the {over.runs} runs over these data up to this one"


def _together(claim: PrivacyGuarantee) -> str:
    """A sentence on earlier runs, so that the epsilon of one run is not taken for that of all; empty without them."""
    over = claim.composed
    if over is None or over.runs == 1:
        return ""
    return (
        f" This is for one run: {over.runs} runs over these data spend epsilon {over.epsilon:.4g} together, as stated."
    )


def _recomputed(review: GuaranteeReview) -> tuple[tuple[str, str], ...]:
    if review.epsilon is None:
        return ()
    others = (("PRV", review.prv), ("Rényi", review.renyi))
    by = "".join(f", {name} {value:.4g}" for name, value in others if value is not None)
    found = ("Effective epsilon", f"{review.epsilon:.4g} by valid accounting{by}")
    if review.published is None:
        return (found,)
    return found, ("Published figure", f"epsilon {review.published:.4g}; not a guarantee")


def _measured(results: Results, review: GuaranteeReview) -> tuple[tuple[str, str], ...]:
    """Largest balanced accuracy that the guarantee allows, and the largest that was measured."""
    if review.claimed_accuracy is None:
        return ()
    units = "its unit" if review.claim is None else f"{unit_words(review.claim.unit).noun}s"
    allowed = f"{_share(review.claimed_accuracy)} balanced accuracy of any attack on {units}"
    if review.largest_accuracy is not None:
        allowed += f"; the mechanism that is stated allows {_share(review.largest_accuracy)}"
    best = surest_bounded(results.checks, "" if review.claim is None else review.claim.unit)
    if best is None:
        return ("The guarantee allows", allowed), ("Measured", f"no membership attack on {units} ran")
    kept = {name: value for name, value in best.metric.slice.items() if name != "model"}
    what = " · ".join(filter(None, (best.check.title, slice_name(kept))))
    measured = f"{number(best.metric)} {interval(best.metric)} ({what})"
    most = most_allowed(review)
    if best.metric.ci is None or best.metric.ci[0] <= most:
        measured += ": does not contradict the guarantee"
    elif best.low <= most:
        measured += ": above what is allowed, but not once the choice of the best attack is counted"
    elif review.worth == "contradicted":
        measured += (
            f": contradicts the guarantee, even with the interval widened for the choice (from {_share(best.low)})"
        )
    else:
        measured += (
            ": more than the guarantee allows, and not explained by it: the guarantee is false, or members and "
            "non-members differ in more than membership"
        )
    return ("The guarantee allows", allowed), ("Measured at best", measured)


def _reconstruction(review: GuaranteeReview) -> Table | None:
    """Largest probability that a value of one unit is put back, by that of guessing it without the model."""
    shown = [one for one in review.reconstruction if one.prior in _PRIORS]
    if not shown:
        return None
    noun = unit_words(review.claim.unit if review.claim else "").noun
    return Table(
        title="Reconstruction that the guarantee allows",
        columns=[f"guessed without the {noun}", "put back at most", "by epsilon alone"],
        rows=[
            [_share(one.prior), "–" if one.by_mechanism is None else _share(one.by_mechanism), _share(one.by_epsilon)]
            for one in shown
        ],
        note=f"Largest chance that any attacker puts back a value that one {noun} alone holds, by the trade-off "
        "curve of the stated mechanism. 100 % by epsilon alone says nothing.",
    )


def _put_back(results: Results, review: GuaranteeReview) -> tuple[tuple[str, str], ...]:
    """Secrets that were put back beside what the mechanism allows, given how many are guessed without training."""
    said = []
    for check in results.checks:
        shares = [metric for metric in check.metrics if metric.role == "put_back"]
        if not shares:
            continue
        most = max(shares, key=_guesses)
        beside = (one for one in check.metrics if one.role == "guessed" and _guesses(one) == _guesses(most))
        guessed = next(beside, None)
        if guessed is None or guessed.value is None or guessed.ci is None:
            continue
        text = (
            f"{number(most)} {interval(most)} of secrets within {_guesses(most)} guesses, {number(guessed)} "
            f"{interval(guessed)} without training ({check.title})"
        )
        prior = next((one for one in review.reconstruction if one.prior >= guessed.ci[1]), None)
        # A value of a company may stand on many of its documents, of which the guarantee of one says nothing.
        of_company = review.claim is not None and not unit_words(review.claim.unit).coarser
        if prior is not None and prior.by_mechanism is not None and of_company:
            text += f"; of what is guessed with {_share(prior.prior)}, {_share(prior.by_mechanism)} may come back"
            if most.ci is not None and most.ci[0] > prior.by_mechanism:
                text += ": more than the guarantee allows, and not explained by it"
        said.append(("Put back", text))
    return tuple(said)


def _guesses(metric: Metric) -> int:
    guesses = metric.slice.get("guesses")
    return guesses if isinstance(guesses, int) else 0


def _canaries(check: Check | None, claim: PrivacyGuarantee) -> tuple[tuple[str, str], ...]:
    """Guaranteed and measured epsilon side by side."""
    if check is None or check.finding is None:
        return ()
    measured = next(number(metric) for metric in check.metrics if metric.role == "epsilon")
    sides = f"guaranteed epsilon at most {claim.epsilon:.4g}; measured epsilon at least {measured} (95 %)"
    return (("Canaries", f"{sides}: {check.finding.text}"),)


def _share(value: float) -> str:
    """A share in per cent; shares just below one are not rounded to one."""
    return "above 99.99 %" if 0.9999 < value < 1 else f"{100 * value:.4g} %"
