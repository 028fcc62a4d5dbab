"""Filling scrubbed fields in, token by token from the left.

Source: cdmi-reconstruction, section 4.1, Algorithm 2, and the variants of section 4.3.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial

import numpy as np
from pydantic import JsonValue, TypeAdapter, ValidationError

from pfl_audit.attacks.reconstruction.calls import Held
from pfl_audit.attacks.reconstruction.likelihoods import draw
from pfl_audit.attacks.reconstruction.proposals import Kind, Proposer
from pfl_audit.attacks.reconstruction.specs import ReconstructionSettings
from pfl_audit.core.store import Records
from pfl_audit.files import sha256_json
from pfl_audit.models.calls import Calls, InTurn, taken
from pfl_audit.models.form_protocol import Attempt, Blank
from pfl_audit.progress import Progress, Task
from pfl_audit.version import __version__

FIELDS_AT_ONCE = 16
"""Fields that go through the steps together: what a killed run loses at most, and what one call is made of."""
FIRST_FIELDS = 2
"""Fields of the first chunk, from which the time is estimated."""


@dataclass(frozen=True)
class Guess:
    """One attempt at a field.

    Attributes:
        tokens: Ids, as many as the field has.
        log_target: Logarithm of each token's likelihood p_i in the mean that it was sampled from, over the
            candidates and before the nucleus is cut out; natural, at most 0.
        log_public: Logarithm of its PUB-MLM likelihood g_i at the same temperature.
        ratio: Mean log-likelihood ratio of the target to a reference (``ratios.with_ratios``); 0 without one.
    """

    tokens: tuple[int, ...]
    log_target: tuple[float, ...]
    log_public: tuple[float, ...]
    ratio: float = 0.0


_GUESSES = TypeAdapter(tuple[Guess, ...])


@dataclass(frozen=True)
class Reconstruction:
    """What was put into a field.

    Attributes:
        attack: One guess an attempt; the first is the one-shot variant.
        baseline: The same with PUB-MLM alone.
    """

    form: str
    field: str
    attack: tuple[Guess, ...]
    baseline: tuple[Guess, ...]


def reconstruct(
    blanks: Sequence[Blank],
    attack: Proposer,
    baseline: Proposer,
    settings: ReconstructionSettings,
    seed: int,
    *,
    progress: Progress,
    keep: Records | None = None,
    label: str = "",
    calls: Calls[Held] | None = None,
) -> list[Reconstruction]:
    """Fill every blank in by the attack, and by public knowledge alone.

    What comes out for a field depends on the models, the settings, the seed, the form and the field; not on
    the other blanks, their order or where an earlier run was cut.

    Args:
        blanks: Fields to attack; none twice.
        attack: Procedure against the model under audit.
        baseline: Procedure of PUB-MLM alone.
        keep: Memory of earlier runs.
        label: Name of the fields in the progress.
        calls: What holds the procedures; this process where not given.

    Returns:
        One a blank, in their order.

    Raises:
        AuditError: A model says something that is not a number.
    """
    filled = [_fill(blanks, by, settings, seed, progress, keep, label, calls) for by in (attack, baseline)]
    return [
        Reconstruction(blank.window.form.id, blank.span.field.id, ours, theirs)
        for blank, ours, theirs in zip(blanks, *filled, strict=True)
    ]


def _fill(
    blanks: Sequence[Blank],
    proposer: Proposer,
    settings: ReconstructionSettings,
    seed: int,
    progress: Progress,
    keep: Records | None,
    label: str,
    calls: Calls[Held] | None,
) -> list[tuple[Guess, ...]]:
    """Every blank filled in ``settings.attempts`` times by one procedure, from memory where it was before."""
    keys = [_key(blank, proposer, settings, seed) for blank in blanks]
    known = {
        key: found
        for key, blank in zip(keys, blanks, strict=True)
        if keep is not None and (found := _guesses(keep.get(key), blank.length, settings.attempts)) is not None
    }
    pending = {key: blank for key, blank in zip(keys, blanks, strict=True) if key not in known}
    total = sum(blank.length for blank in blanks)
    left = sum(blank.length for blank in pending.values())
    name = f"{proposer.name} {label}".strip()
    begun = time.monotonic()
    with progress.task(name, total, total - left) as task:
        some = list(chunks(list(pending.items())))
        units = [sum(blank.length for _, blank in chunk) for chunk in some]
        works = [partial(_walk, [blank for _, blank in chunk], proposer.kind, settings, seed) for chunk in some]
        for at, walked in taken(calls or InTurn({proposer.kind: proposer}), works, _are_guesses, task, units):
            for (key, _), guesses in zip(some[at], walked, strict=True):
                known[key] = guesses
                if keep is not None:
                    keep.put(key, {"guesses": [asdict(guess) for guess in guesses]})
            if at == 0 and calls is None:
                spent, done = time.monotonic() - begun, units[0]
                progress.say(
                    f"{name}: {done} of {left} tokens took {spent:.1f} s, "
                    f"so all of them about {spent * left / done / 60:.1f} min"
                )
    return [known[key] for key in keys]


def _are_guesses(found: object) -> bool:
    return isinstance(found, list) and all(
        isinstance(guesses, tuple) and all(isinstance(guess, Guess) for guess in guesses) for guesses in found
    )


def _walk(
    blanks: Sequence[Blank], kind: Kind, settings: ReconstructionSettings, seed: int, by: Held, task: Task
) -> list[tuple[Guess, ...]]:
    """All attempts at some fields, in lock-step. Attempts that share a prefix share its distribution."""
    count = settings.attempts
    chances = [[_rng(seed, blank, number, kind) for number in range(count)] for blank in blanks]
    paths: list[list[list[tuple[int, float, float]]]] = [[[] for _ in range(count)] for _ in blanks]
    for step in range(max(blank.length for blank in blanks)):
        open_fields = [place for place, blank in enumerate(blanks) if blank.length > step]
        prefixes = {
            (place, tuple(token for token, _, _ in path)): None for place in open_fields for path in paths[place]
        }
        proposals = by[kind].propose([Attempt(blanks[place], prefix) for place, prefix in prefixes], step)
        by_prefix = dict(zip(prefixes, proposals, strict=True))
        for place in open_fields:
            for path, rng in zip(paths[place], chances[place], strict=True):
                proposal = by_prefix[place, tuple(token for token, _, _ in path)]
                at = draw(proposal.log_target, settings.nucleus, rng)
                path.append((int(proposal.tokens[at]), float(proposal.log_target[at]), float(proposal.log_public[at])))
        task.advance(len(open_fields))
    return [tuple(_guess(path) for path in attempts) for attempts in paths]


def _guess(path: Sequence[tuple[int, float, float]]) -> Guess:
    tokens, log_target, log_public = zip(*path, strict=True)
    return Guess(tokens, log_target, log_public)


def chunks(items: list[tuple[str, Blank]]) -> Iterator[list[tuple[str, Blank]]]:
    """A small chunk first, then fields of similar length together, longest first (what does not fit shows at once)."""
    order = sorted(items, key=lambda item: (-item[1].length, item[0]))
    if order:
        yield order[:FIRST_FIELDS]
    for at in range(FIRST_FIELDS, len(order), FIELDS_AT_ONCE):
        yield order[at : at + FIELDS_AT_ONCE]


def _rng(seed: int, blank: Blank, attempt: int, kind: str) -> np.random.Generator:
    """Chance of one attempt at one field, apart from all others."""
    name = json.dumps([seed, blank.window.form.id, blank.span.field.id, attempt, kind])
    return np.random.default_rng(int.from_bytes(hashlib.sha256(name.encode()).digest(), "little"))


def _key(blank: Blank, proposer: Proposer, settings: ReconstructionSettings, seed: int) -> str:
    """Content of everything that decides what comes out for a field."""
    asked = [settings.attempts, settings.nucleus, seed, held_by(blank)]
    return sha256_json([__version__, "cdmi", *proposer.identity, *asked])


def held_by(blank: Blank) -> list[object]:
    """Content of a field and its form, for a key."""
    window, span = blank.window, blank.span
    return [
        window.form.id,
        span.field.id,
        window.form.digest,
        window.number,
        window.ids.tolist(),
        window.boxes.tolist(),
        blank.patch.tolist(),
        [span.start, span.stop],
    ]


def _guesses(kept: Mapping[str, JsonValue] | None, length: int, attempts: int) -> tuple[Guess, ...] | None:
    """Guesses as they were kept, or None where they are not such."""
    try:
        guesses = _GUESSES.validate_python((kept or {}).get("guesses"))
    except ValidationError:
        return None
    parts = [part for guess in guesses for part in (guess.tokens, guess.log_target, guess.log_public)]
    right = len(guesses) == attempts and all(len(part) == length and np.isfinite(part).all() for part in parts)
    return guesses if right else None
