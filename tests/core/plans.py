"""Plans of audits, changed by the names of inputs."""

from dataclasses import replace
from typing import Any

from pfl_audit.core.attack import InstalledAttack
from pfl_audit.core.plan import AuditPlan

INPUTS = {
    **dict.fromkeys(("red", "answers", "pretrained", "blue", "control", "references", "classes_random"), "questions"),
    **dict.fromkeys(("forms", "split_seed"), "forms"),
    **dict.fromkeys(("template", "fields", "gradient", "batch", "public_form"), "gradients"),
}


def changed(plan: AuditPlan, **changes: Any) -> AuditPlan:
    """The plan with other values; inputs of subjects go by their own names."""
    inputs = {name: dict(values) for name, values in plan.inputs.items()}
    for name in list(changes):
        if subject := INPUTS.get(name):
            inputs.setdefault(subject, {})[name] = changes.pop(name)
    return replace(plan, inputs=inputs, **changes)


class FakeRegistry:
    """A registry that holds what a test puts in."""

    def __init__(self, **extensions: InstalledAttack) -> None:
        self._extensions = extensions

    def installed(self) -> dict[str, InstalledAttack]:
        return dict(self._extensions)
