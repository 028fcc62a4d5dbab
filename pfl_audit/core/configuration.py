"""Configuration of a run as a dossier holds it: what was asked for, without full paths and private values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pfl_audit.core.attack import ATTACKS
from pfl_audit.core.places import Places, short, short_command
from pfl_audit.core.plan import AuditPlan
from pfl_audit.core.redaction import visible
from pfl_audit.core.settings import Settings, flag_of
from pfl_audit.core.subject import SUBJECTS
from pfl_audit.inputs import is_regular, sha256_input

_HIDDEN: Final = "..."


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
