"""Review of a stated guarantee: its mechanism is rebuilt, compared with the record, and accounted for again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from pydantic import ValidationError

from pfl_audit.errors import UsageError
from pfl_audit.privacy.accounting import check_parameters, prv_comparison
from pfl_audit.privacy.guarantee import (
    AllowedReconstruction,
    GuaranteeReview,
    PrivacyGuarantee,
    Worth,
    accuracy_bound,
    guarantee_warnings,
)
from pfl_audit.privacy.mechanism import SECRET_GENERATORS, Mechanism
from pfl_audit.privacy.mechanism_parts import CODECS, Clip, Codec, shown
from pfl_audit.privacy.pld import SampledGaussian
from pfl_audit.privacy.reconstruction import largest_by_epsilon, largest_reconstruction
from pfl_audit.privacy.sampling import public_providers
from pfl_audit.privacy.units import UNITS, several_units, unit_words

PRIORS = tuple(digit * 10.0**power for power in range(-4, 0) for digit in (1, 2, 5))
"""Chances to guess a value without its provider, for which a review says what the guarantee allows."""
TOLERANCE: Final = 1e-3
"""Share of the recomputed epsilon by which a stated one may be below."""
_TARGET: Final = 0.015
"""Share and number by which epsilon may miss the target of its noise."""
_UNSTATED = "its mechanism is not stated, and the settings of the record do not determine it"
_TARGETED, _MISSED = "the target of the noise", "another epsilon"
_BELOW, _ENOUGH = "below that of this run", "at least that of this run"
_ASIDE = (
    *(_TARGETED, _MISSED, _BELOW, _ENOUGH),
    *("poisson", "fixed-size", "schedule", "sum", "message", "valid", "published", "central-dp", "fl-dp"),
)
"""Texts that a review prints; another may name a company."""
_Statement = tuple[str, object, object]
"""A place of the record, what it states, and what the mechanism has."""


def review_record(record: Mapping[str, Any]) -> GuaranteeReview | None:
    """Review the guarantee of a ``training.json``, which may come from anywhere.

    Args:
        record: Its content.

    Returns:
        The review; None if no guarantee is stated.
    """
    privacy = record.get("privacy")
    if privacy is None or isinstance(privacy, str):
        return None
    try:
        stated = PrivacyGuarantee.model_validate(privacy)
    except ValidationError as error:
        return GuaranteeReview(claim=None, worth="unknown", text=f"cannot be read ({_first(error)})")
    try:
        mechanism, others = mechanism_of(record, stated)
        check_parameters(mechanism.sampling, mechanism.noise.multiplier, stated.delta)
    except (UsageError, ValueError, KeyError, TypeError, AttributeError) as error:
        why = error.problem if isinstance(error, UsageError) else _UNSTATED
        why = f"{_UNSTATED} ({_first(error)})" if isinstance(error, ValidationError) else why
        return _unaccounted(stated, "unknown", f"cannot be confirmed: {why}")
    differs = [one for one in (*others, *_statements(record, stated, mechanism)) if one[1] != one[2]]
    if not differs:
        return _accounted(stated, mechanism)
    where, said, held = differs[0]
    more = f"; so do {len(differs) - 1} more statements" if len(differs) > 1 else ""
    text = f"the record contradicts itself: '{where}' is {_short(said)}, and {_short(held)} by its mechanism{more}"
    return _unaccounted(stated, "contradicted", text)


def _unaccounted(stated: PrivacyGuarantee, worth: Worth, text: str) -> GuaranteeReview:
    """The review of a guarantee without a mechanism that could be accounted for."""
    return GuaranteeReview(
        claim=stated,
        worth=worth,
        text=text,
        claimed_accuracy=accuracy_bound(stated.epsilon, stated.delta),
        reconstruction=_allowed(stated.epsilon, stated.delta, None),
        warnings=_warnings(stated),
    )


def mechanism_of(record: Mapping[str, Any], stated: PrivacyGuarantee) -> tuple[Mechanism, list[_Statement]]:
    """The mechanism that a record states, or that its settings determine, and where both differ.

    Args:
        record: Content of a ``training.json``.
        stated: Its guarantee.

    Raises:
        UsageError: The parts do not compose.
        ValueError, KeyError, TypeError, AttributeError: There is none.
    """
    serialised = record["privacy"].get("mechanism")
    written = None if serialised is None else Mechanism.model_validate(serialised)
    identity = record.get("identity")
    if not isinstance(identity, dict):
        if written is None:
            raise KeyError("identity")
        return written, []
    rounds, privacy = identity["settings"], identity["privacy"]
    name = rounds.get("codec", "float32")
    codec = written.phases[-1].part(Codec) if written else None
    rebuilt = Mechanism.of(
        identity["mode"],
        rounds,
        privacy,
        record["clients"],
        privacy["noise_multiplier"] or stated.noise_multiplier,
        lossy=codec.lossy if codec and codec.name == name and name not in CODECS else None,
        secure=identity.get("engine") == "flower" and identity.get("secure") is True,
        quorum=identity.get("quorum"),
        pretraining=identity.get("pretraining"),
        noise_strategy=written.noise.strategy if written else (),
    )
    if written is None:
        return rebuilt, []
    ours, theirs = (dict(_leaves(one.model_dump(mode="json"), "privacy.mechanism")) for one in (written, rebuilt))
    return written, [(where, ours.get(where), theirs.get(where)) for where in ours | theirs]


def _statements(record: Mapping[str, Any], stated: PrivacyGuarantee, mechanism: Mechanism) -> Iterator[_Statement]:
    """Other statements of the record on its mechanism."""
    drawn, last, noise = stated.sampling, mechanism.phases[-1], mechanism.noise
    yield from (
        ("privacy.unit", stated.unit.casefold(), mechanism.unit),
        ("privacy.rounds", stated.rounds, mechanism.rounds),
        ("privacy.noise_multiplier", stated.noise_multiplier, noise.multiplier),
        ("privacy.clip", stated.clip, last.part(Clip).bound),
        ("privacy.sampling.kind", drawn.kind, mechanism.kind),
        ("privacy.sampling.client_rate", drawn.client_rate, mechanism.draw.client_rate),
        ("privacy.sampling.provider_rate", drawn.provider_rate, mechanism.draw.provider_rate),
        ("privacy.sampling.separation", drawn.separation, mechanism.draw.separation),
        ("privacy.noise", stated.noise, noise.carrier),
        ("privacy.quorum", stated.quorum, noise.quorum),
        ("privacy.noise_generator", stated.noise_generator in SECRET_GENERATORS, noise.secret),
        ("rounds", record.get("rounds", last.rounds), last.rounds),
        ("clients", record.get("clients", mechanism.sum.clients), mechanism.sum.clients),
    )
    if (over := stated.composed) is not None:
        below = stated.accounting == "valid" and over.epsilon < stated.epsilon * (1 - TOLERANCE)
        yield "privacy.composed.delta", over.delta, stated.delta
        yield "privacy.composed.epsilon", _BELOW if below else _ENOUGH, _ENOUGH
    identity = record.get("identity")
    if not isinstance(identity, dict):
        return
    given = identity["privacy"]
    public = public_providers(given, mechanism.sum.clients)
    yield from (
        ("mode", record.get("mode", identity["mode"]), identity["mode"]),
        ("privacy.delta", stated.delta, given["delta"]),
        ("privacy.accounting", stated.accounting, given["accounting"]),
        ("privacy.providers", stated.providers or public, public),
        ("secure_aggregation", record.get("secure_aggregation", False), mechanism.sum.secure),
        ("quorum", record.get("quorum"), noise.quorum),
    )
    if (target := given.get("epsilon")) is not None:
        reached = mechanism.spent(stated.delta, stated.accounting).epsilon
        met = (1 - _TARGET) * target - _TARGET <= reached <= (1 + TOLERANCE) * target
        yield "identity.privacy.epsilon", _TARGETED, _TARGETED if met else _MISSED


def _accounted(stated: PrivacyGuarantee, mechanism: Mechanism) -> GuaranteeReview:
    """Recompute epsilon, and summarise the result in a sentence."""
    kind, warnings = mechanism.kind, _warnings(stated)
    valid, published = (mechanism.spent(stated.delta, how) for how in ("valid", "published"))
    comparable = stated.adjacency.casefold() in mechanism.adjacencies
    if not comparable:
        warnings.append(
            f"recomputed for '{mechanism.adjacencies[0]}', but stated for '{stated.unit}', '{stated.adjacency}'"
        )
    weaker = valid.epsilon - stated.epsilon > TOLERANCE * valid.epsilon
    if weaker:
        warnings.append(f"the stated epsilon is {stated.epsilon:g}, the recomputed epsilon is {valid.epsilon:.2f}")
    unsure = _unsure(stated, comparable=comparable)
    covered = comparable and not stated.forced_participation
    prv, prv_failure = prv_comparison(mechanism.sampling, mechanism.noise.multiplier, stated.delta)
    curve = SampledGaussian(mechanism.sampling, mechanism.noise.multiplier, kind)
    several = filter(None, [several_units(mechanism.unit, valid.epsilon, stated.delta)])
    return GuaranteeReview(
        claim=stated,
        worth="weaker" if weaker and covered else "unknown" if unsure else "holds",
        text=_weaker(stated, valid.epsilon)
        if weaker and covered
        else f"epsilon {valid.epsilon:.2f}, but {unsure}"
        if unsure
        else f"as stated: epsilon {valid.epsilon:.2f} for the {mechanism.rounds} rounds that were run{_for(mechanism)}",
        epsilon=valid.epsilon,
        accountant=valid.accountant,
        prv=prv if kind == "poisson" else None,
        prv_failure=prv_failure if kind == "poisson" else "it covers Poisson sampling only",
        renyi=valid.renyi,
        published=published.epsilon if mechanism.draw.client_rate < 1 or kind == "fixed-size" else None,
        claimed_accuracy=accuracy_bound(stated.epsilon, stated.delta),
        largest_accuracy=(1 + curve.total_variation) / 2 if covered else None,
        reconstruction=_allowed(valid.epsilon, stated.delta, curve)
        if covered
        else _allowed(stated.epsilon, stated.delta, None),
        parts=mechanism.sentences(),
        not_covered=[*mechanism.not_covered(), *several],
        warnings=warnings,
    )


def _unsure(stated: PrivacyGuarantee, *, comparable: bool) -> str:
    """Reason why the guarantee is not confirmed although epsilon is; empty where it is."""
    delta, providers, units = stated.delta, stated.providers, f"{unit_words(stated.unit).noun}s"
    reasons = (
        (stated.forced_participation, "the accountants do not cover forced participation"),
        (not comparable, "another adjacency is stated"),
        (
            stated.noise_generator not in SECRET_GENERATORS,
            "only against adversaries who cannot regenerate the noise",
        ),
        (providers is None, f"no number of {units} is stated, with which delta {delta:g} can be compared"),
        (delta * (providers or 0) >= 1, f"delta {delta:g} allows one of {providers} {units} to be disclosed"),
    )
    return next((text for applies, text in reasons if applies), "")


def _for(mechanism: Mechanism) -> str:
    """Whom a guarantee is for, where that is not a provider; empty else."""
    words = UNITS[mechanism.unit]
    return f", for {words.whole} and not for {words.coarser}" if words.coarser else ""


def _weaker(stated: PrivacyGuarantee, epsilon: float) -> str:
    published = stated.accounting == "published" and stated.sampling.client_rate < 1
    return (
        f"published accounting: effective epsilon {epsilon:.2f}, because the server and the other updates "
        "reveal the participation of a client"
        if published
        else f"effective epsilon {epsilon:.2f} instead of the stated {stated.epsilon:g}"
    )


def _warnings(stated: PrivacyGuarantee) -> list[str]:
    return guarantee_warnings(
        delta=stated.delta,
        epsilon=stated.epsilon,
        accountant=stated.accountant,
        providers=stated.providers,
        unit=stated.unit,
        rounds=stated.rounds,
        rounds_accounted=stated.rounds_accounted,
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


def _leaves(value: object, where: str) -> Iterator[tuple[str, object]]:
    """Values of a serialised object by their places."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
    if inner is None:
        yield where, value
        return
    for name, one in inner:
        yield from _leaves(one, f"{where}.{name}")


def _first(error: ValidationError) -> str:
    """Place and kind of the first error; a name that is no field may be anybody's and is left out."""
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"][: -1 if first["type"] == "extra_forbidden" else None])
    return (f"'{where}': {first['msg']}" if where else "it is not an object")[:200]


def _short(value: object) -> str:
    """A number, or a text that this package writes."""
    if isinstance(value, str):
        return value if value in (*_ASIDE, shown(value)) else "another text"
    return f"{value:.10g}" if isinstance(value, int | float) else "nothing" if value is None else "no number"
