"""What decides the exit code, as the user asked for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from pathlib import Path

from pfl_audit.core import limits
from pfl_audit.core.attack import CheckSpec
from pfl_audit.core.gates import GUARANTEE, Limit, parse_limit
from pfl_audit.core.keyed import exact_of
from pfl_audit.core.places import short
from pfl_audit.core.results import Results, read_results, results_path
from pfl_audit.core.waivers import Waiver
from pfl_audit.errors import UsageError
from pfl_audit.inputs import sha256_input

Requirements = Mapping[str, frozenset[str]]
"""Name that the user gave to ids of checks, of which one has to be audited."""


@dataclass(frozen=True)
class Earlier:
    """Results that an audit is held against.

    Attributes:
        results: Earlier results.
        path: Path of their results.json, shortened.
        sha256: SHA-256 of that file.
    """

    results: Results
    path: str
    sha256: str


@dataclass(frozen=True)
class GatePolicy:
    """What has to be audited, and which numbers have to be kept.

    Attributes:
        named: Checks and attacks that were asked for by name. Not counted where findings never make the command fail.
        required: Those that are required in any case.
        limits: Gates by number.
        waivers: Findings and gates that are accepted.
        baseline: Earlier results; only what got worse fails.
        today: Day that waivers are held against.
    """

    named: Requirements = field(default_factory=dict)
    required: Requirements = field(default_factory=dict)
    limits: tuple[Limit, ...] = ()
    waivers: tuple[Waiver, ...] = ()
    baseline: Earlier | None = None
    today: date = field(default_factory=lambda: datetime.now(UTC).date())


def read_policy(
    specs: Mapping[str, CheckSpec],
    *,
    named: Sequence[str] = (),
    require: Sequence[str] = (),
    gates: Sequence[str] = (),
    waivers: Sequence[Waiver] = (),
    baseline: Path | None = None,
) -> GatePolicy:
    """The policy that a user states.

    Args:
        specs: All installed checks by id.
        named: Checks and attacks to run.
        require: Checks and attacks that have to be audited.
        gates: Gates by number.
        waivers: Accepted findings and gates.
        baseline: Folder of an earlier audit, or its results.json.

    Raises:
        UsageError: A gate cannot be read, or something names a check that does not exist.
        AuditError: The baseline holds no results.
    """
    if len(gates) > limits.GATES:
        raise UsageError(f"there are more than {limits.GATES} gates", "Keep those that are needed")
    found = [_expecting(parse_limit(text), specs) for text in gates]
    for waiver in waivers:
        if waiver.check != GUARANTEE and not any(waiver.covers(name, waiver.metric) for name in specs):
            raise UsageError(f"a waiver is about no check: '{waiver.check:.80}'", "'pfl-audit list' lists them")
    return GatePolicy(
        named=_requirements(specs, named),
        required=_requirements(specs, require),
        limits=tuple(found),
        waivers=tuple(waivers),
        baseline=None if baseline is None else _earlier(baseline),
    )


def checks_of(policy: GatePolicy) -> tuple[str, ...]:
    """Ids of the checks that requirements and gates need."""
    ids = [key for keys in policy.required.values() for key in keys]
    ids += [key for limit in policy.limits for key in limit.expected]
    return tuple(dict.fromkeys(sorted(ids)))


def _requirements(specs: Mapping[str, CheckSpec], names: Sequence[str]) -> dict[str, frozenset[str]]:
    """A check that is named needs itself, and the check whose finding it is part of; an attack one of its findings."""
    found: dict[str, frozenset[str]] = {}
    for name in names:
        if name in specs:
            found[name] = frozenset({name})
            if parent := specs[name].part_of:
                found.setdefault(parent, frozenset({parent}))
            continue
        found[name] = frozenset(key for key, spec in specs.items() if spec.family == name and spec.part_of is None)
        if not found[name]:
            raise UsageError(f"there is no check '{name:.80}'", f"Choose among: {', '.join(specs)}")
    return found


def _expecting(limit: Limit, specs: Mapping[str, CheckSpec]) -> Limit:
    """The gate with the checks that it needs; a pattern does not need those that run only on request or by the way."""
    if limit.check == GUARANTEE:
        return limit
    covered = {key: spec for key, spec in specs.items() if limit.covers(key)}
    if not covered:
        raise UsageError(f"the gate '{limit.text:.100}' is about no check", "'pfl-audit list' lists them")
    if limit.check in covered:
        return replace(limit, expected=frozenset({limit.check}))
    return replace(
        limit, expected=frozenset(key for key, spec in covered.items() if not spec.optional and spec.on_request is None)
    )


def _earlier(path: Path) -> Earlier:
    file = results_path(path)
    return Earlier(exact_of(read_results(path), file.parent), short(file), sha256_input(file))
