"""What is to be audited, and how; and the same without full paths and private values, for a dossier."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pfl_audit.core.attack import ATTACKS
from pfl_audit.core.places import Places, short, short_command
from pfl_audit.core.redaction import visible
from pfl_audit.core.review import Release
from pfl_audit.core.schema import FailOn, PublishedNumber
from pfl_audit.core.settings import Settings, flag_of
from pfl_audit.core.subject import SUBJECTS, Execution
from pfl_audit.core.waivers import Waiver
from pfl_audit.inputs import is_regular, sha256_input
from pfl_audit.version import __version__

_HIDDEN: Final = "..."


@dataclass(frozen=True, kw_only=True)
class AuditPlan(Execution):
    """What is to be audited, and how.

    Attributes:
        title: Title of the report.
        out: Folder of the run.
        inputs: Subject to its inputs by name; a subject that is not named gets its defaults.
        checks: Ids of checks or names of attacks; empty for all.
        named: Those of them that the user named, so that they have to be audited; all if None.
        settings: Attack to its settings by name.
        as_published: Whether settings that are not given take the papers' values where these differ from ours.
        store: Response store; in ``out`` where it is None.
        fail_on: Findings that make the command fail.
        require: Checks and attacks that have to be audited, whatever the findings.
        gates: Gates by number, as the user wrote them.
        waivers: Findings and gates that are accepted.
        published: Numbers of papers, to stand beside ours.
        baseline: Folder or results.json of an earlier audit; only what got worse than there fails.
        reveal: Whether names, values, pages and exact numbers are shown.
        smallest_group: Fewest units behind a number of a masked report; 5 if None.
        release: Who can reach the model, as the user declares; None where it is not declared.
        command: The command line, for the report.
        config: Configuration file that the command took.
    """

    title: str
    out: Path
    inputs: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    checks: tuple[str, ...] = ()
    named: tuple[str, ...] | None = None
    settings: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    as_published: bool = False
    store: Path | None = None
    fail_on: FailOn = "leak"
    require: tuple[str, ...] = ()
    gates: tuple[str, ...] = ()
    waivers: tuple[Waiver, ...] = ()
    published: tuple[PublishedNumber, ...] = ()
    baseline: Path | None = None
    reveal: bool = False
    smallest_group: int | None = None
    release: Release | None = None
    command: str = ""
    config: Path | None = None

    def identity(self, also: Sequence[str] = ()) -> dict[str, object]:
        """What decides the results, as JSON.

        Args:
            also: Checks that run because a requirement or a gate needs them, beside those that were named.
        """
        return {
            "version": __version__,
            "model": self.model,
            "inputs": _plain(self.inputs),
            "checks": list(self.checks),
            **({"also": list(also)} if also else {}),
            "settings": _plain(self.settings),
            **({"as_published": True} if self.as_published else {}),
            "seed": self.seed,
            "reveal": self.reveal,
            **({"precision": self.precision} if self.precision != "fp32" else {}),
            **({"smallest_group": self.smallest_group} if self.smallest_group is not None else {}),
        }


def _plain(value: object) -> object:
    """A value as JSON; what is open in memory counts by its digest."""
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return str(getattr(value, "digest", value))


def configuration_of(plan: AuditPlan, private: frozenset[str]) -> object:
    """What a run was asked for, as JSON.

    Args:
        plan: Plan of the run.
        private: Options whose value is left out.
    """
    identity = plan.identity()
    models: dict[str, dict[str, type[Settings]]] = {
        "settings": {name: one.Settings for name, one in ATTACKS.installed().items()},
        "inputs": {name: one.Inputs for name, one in SUBJECTS.installed().items()},
    }
    for kind, known in models.items():
        identity[kind] = _without_private(identity[kind], known)
    config = plan.config
    found = {
        **identity,
        "command": short_command(plan.command, private),
        "config": short(config) if config is not None else None,
        "config_sha256": sha256_input(config) if config is not None and is_regular(config) else None,
        "release": plan.release,
        "fail_on": plan.fail_on,
        "require": list(plan.require),
        "gates": list(plan.gates),
        "waivers": [
            {name: visible(str(value), 1_000) for name, value in one.model_dump(exclude_none=True).items()}
            for one in plan.waivers
        ],
        "baseline": short(plan.baseline) if plan.baseline is not None else None,
    }
    return Places((plan.identity(), plan.out, plan.store)).without(found)


def _without_private(values: object, models: Mapping[str, type[Settings]]) -> object:
    """Settings by owner, with the values of private fields left out."""
    if not isinstance(values, dict):
        return values
    found = {}
    for owner, settings in values.items():
        fields = models[owner].model_fields if owner in models else {}
        hidden = {name for name, info in fields.items() if flag_of(info).private}
        found[owner] = {name: _HIDDEN if name in hidden else value for name, value in settings.items()}
    return found
