"""``pfl-audit invert``: read a page out of a gradient."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from pydantic import Field

from pfl_audit.attacks.inversion.attack import ATTACK
from pfl_audit.attacks.inversion.inputs import GradientInputs
from pfl_audit.attacks.inversion.settings import InversionSettings
from pfl_audit.attacks.inversion.specs import FEDERATION
from pfl_audit.cli.audit_command import AuditCommand, Request
from pfl_audit.cli.options import embedded
from pfl_audit.cli.settings_options import Options
from pfl_audit.core.settings import Settings
from pfl_audit.errors import UsageError

METHODS: Final = tuple(spec.id.split(".")[1].replace("_", "-") for spec in ATTACK.specs if spec is not FEDERATION)
"""Names of the methods; each is a check of the attack."""


class Choice(Settings):
    """How to attack."""

    method: tuple[str, ...] = Field(default=(), description=f"How to attack (repeat): {', '.join(METHODS)}, all.")


def checks_of(methods: tuple[str, ...], model: Path) -> tuple[str, ...]:
    """Ids of the checks: those named, or those that suit the model.

    Raises:
        UsageError: There is no such method.
    """
    for name in methods:
        if name not in (*METHODS, "all"):
            raise UsageError(f"there is no method '{name}'", f"Choose among: {', '.join(METHODS)}, all")
    chosen = dict.fromkeys(methods or _suitable(model))
    return ("inversion",) if "all" in chosen else tuple(f"inversion.{name.replace('-', '_')}" for name in chosen)


def _suitable(model: Path) -> tuple[str, ...]:
    """The closed forms where words have tables, else a search."""
    from pfl_audit.models.describe import describe_checkpoint
    from pfl_audit.models.protocol import Capability

    capabilities = describe_checkpoint(model).capabilities
    if Capability.WORD_ENCODER in capabilities:
        return ("analytic", "words")
    if Capability.WORD_TABLES in capabilities:
        return ("words",)
    return ("text", "words", "lbfgs") if Capability.TEXT_DECODER in capabilities else ("lbfgs",)


def _prepare(request: Request) -> bool:
    run = request.inputs.get("gradients", {}).get("round")
    if run is not None:
        if Choice.model_validate(request.choice).method:
            raise UsageError("--method is of single gradients, and --round is a whole federation", "Leave it out")
        request.model, request.checks = request.model or str(run), (FEDERATION.id,)
        return True
    request.model = request.model or str(embedded("donut"))
    inputs = request.inputs.setdefault("gradients", {})
    if "template" not in inputs:
        inputs |= {"template": embedded("templates", "form-01", "template.png"), "public_form": True}
    weights = request.settings.get("inversion", {}).get("ocr_weights")
    if weights is not None:
        from pfl_audit.models.weights import tensor_names

        tensor_names(Path(str(weights)))  # a folder that cannot be read is an error before the search, not after it
    request.checks = checks_of(Choice.model_validate(request.choice).method, Path(request.model))
    return True


COMMAND = AuditCommand(
    name="invert",
    title="Gradient inversion",
    help="""Read a client's page, question and answer out of the gradient that it shares in federated learning.

    Without options an embedded form is filled in and trained on by the embedded Donut.

    Example: pfl-audit invert --template form.png --model ckpt --documents 12
    """,
    inputs=(Options("gradients", GradientInputs, defaults={"template": "an embedded form"}),),
    choice=Options(
        "choice",
        Choice,
        panel="Attack: docs/inversion.md",
        defaults={"method": "words for VT5; text, words and lbfgs for Donut; else analytic and words"},
    ),
    settings=(Options("inversion", InversionSettings, panel="Attack: docs/inversion.md"),),
    prepare=_prepare,
    model_default="the embedded Donut",
)
