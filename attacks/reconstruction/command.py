"""``pfl-audit reconstruct``: put scrubbed fields back."""

from __future__ import annotations

from pfl_audit.attacks.reconstruction.inputs import FormInputs
from pfl_audit.attacks.reconstruction.specs import ReconstructionSettings
from pfl_audit.cli.audit_command import AuditCommand, Request
from pfl_audit.cli.options import embedded, embedded_settings
from pfl_audit.cli.settings_options import Options
from pfl_audit.errors import UsageError

_EMBEDDED = {"forms": "the embedded forms", "public": "the embedded model"}


def _prepare(request: Request) -> bool:
    """Take model, public model and forms together: all given, or all embedded."""
    inputs = request.inputs.setdefault("forms", {})
    given = {"--model": request.model, "--public": inputs.get("public"), "--forms": inputs.get("forms")}
    missing = [flag for flag, value in given.items() if value is None]
    if len(missing) == len(given):
        request.model = str(embedded("layoutlm-private"))
        inputs |= {"public": str(embedded("layoutlm-public")), "forms": embedded("forms")}
        if not request.as_published:
            given_settings = request.settings.get("reconstruction", {})
            request.settings["reconstruction"] = embedded_settings("reconstruction") | given_settings
    elif missing:
        raise UsageError(
            f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing",
            "Give --model, --public and --forms, or none of them",
        )
    request.checks = ("reconstruction",)
    return True


COMMAND = AuditCommand(
    name="reconstruct",
    title="Reconstruction of scrubbed fields",
    help="""Put scrubbed fields of the training forms back with the model's help, beside what public knowledge gives.

    Without options the embedded model is attacked, with the settings that --tune found for it; with
    --as-published, without these.

    Example: pfl-audit reconstruct --model ckpt/best-precision --public public/best-loss --forms data/forms
    """,
    inputs=(Options("forms", FormInputs, defaults=_EMBEDDED),),
    settings=(Options("reconstruction", ReconstructionSettings, panel="Attack: docs/reconstruction.md"),),
    prepare=_prepare,
    model_default="the embedded model",
)
