"""Open a checkpoint, whatever its family. Families are found by entry point."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from pfl_audit.errors import AuditError, NotAuditableError, UsageError
from pfl_audit.models.form_protocol import FormModel
from pfl_audit.models.gradient_protocol import GradientModel
from pfl_audit.models.protocol import DocumentModel, GradientFamily, ModelFamily
from pfl_audit.models.weights import read_config, tensor_names

GROUP = "pfl_audit.models"


def open_model(name: str, *, device: str = "cpu", download: bool = False) -> DocumentModel:
    """Open a model.

    Args:
        name: A local checkpoint folder, or with ``download`` a hub id.
        device: torch's name of the device.
        download: Whether the network may be used to fetch a hub id. Without it nothing ever is.

    Raises:
        UsageError: Not a folder and no permission to download; a device that is not there.
        NotAuditableError: It reads the tokens of forms, and answers no questions.
        AuditError: No checkpoint, none of a known family, or it cannot be opened.
    """
    folder = _locate(name, device, download=download)
    return family_of(folder).open(folder, device=device)


def open_gradient_model(name: str, device: str = "cpu") -> GradientModel:
    """Open a model whose training gradient can be taken.

    Args:
        name: A local checkpoint folder.
        device: torch's name of the device.

    Raises:
        UsageError: As open_model does.
        NotAuditableError: Its family takes no gradients, or it reads the tokens of forms.
        AuditError: As open_model does.
    """
    folder = _locate(name, device, download=False)
    family = family_of(folder)
    if not isinstance(family, GradientFamily):
        able = [other.name for other in families() if isinstance(other, GradientFamily)]
        raise NotAuditableError(
            f"{family.name} models have no gradient inversion; {', '.join(able)} have", "Give a model of those"
        )
    return family.open_gradients(folder, device=device)


def open_any(name: str, *, device: str = "cpu", download: bool = False) -> DocumentModel | FormModel:
    """Open a model that answers questions, or one that reads the tokens of forms.

    Args:
        name: As in open_model.
        device: As in open_model.
        download: As in open_model.

    Raises:
        UsageError: As open_model does.
        AuditError: As open_model does.
    """
    folder = _locate(name, device, download=download)
    tensors, config = tensor_names(folder), read_config(folder)
    if _reads_forms(config, tensors):
        from pfl_audit.models.encoders.model import open_form_model

        return open_form_model(folder, device)
    return open_model(str(folder), device=device)


def families() -> Sequence[ModelFamily]:
    """The installed families, by name."""
    found = [point.load() for point in entry_points(group=GROUP)]
    return sorted(found, key=lambda family: str(family.name))


def shares_gradients(folder: Path) -> bool:
    """Whether a checkpoint folder is of a family whose training gradient can be taken.

    Raises:
        AuditError: As family_of does.
    """
    return isinstance(family_of(folder), GradientFamily)


def family_of(folder: Path) -> ModelFamily:
    """The family that a checkpoint folder is of.

    Raises:
        NotAuditableError: It reads the tokens of forms.
        AuditError: None that is known.
    """
    tensors, config = tensor_names(folder), read_config(folder)
    for family in families():
        if family.recognises(config, tensors):
            return family
    if _reads_forms(config, tensors):
        raise NotAuditableError(
            f"{folder} reads the tokens of forms and answers no questions", "Audit it with 'pfl-audit reconstruct'"
        )
    known = ", ".join(family.name for family in families())
    kind = config.get("model_type", "unknown")
    raise AuditError(
        f"{folder} is a checkpoint of model type '{kind!s:.80}', not of a family that can be audited",
        f"Known families: {known}",
    )


def require_device(device: str) -> None:
    """Check that torch has the device and can compute on it (``meta`` cannot).

    Raises:
        UsageError: It has not, or cannot.
    """
    import torch

    try:
        two = torch.ones(2, 2, device=device)
        float((two @ two).sum())
    except Exception as error:  # every backend raises its own kind
        raise UsageError(f"torch cannot use the device '{device}' here", "Use --device cpu") from error


def _locate(name: str, device: str, *, download: bool) -> Path:
    require_device(device)
    folder = Path(name)
    if _exists(folder):
        return folder
    if not download:
        raise UsageError(
            f"{name} is no local folder", "Give a checkpoint folder, or add --download to fetch it from the hub"
        )
    return _download(name)


def _reads_forms(config: dict[str, Any], tensors: frozenset[str]) -> bool:
    from pfl_audit.models.encoders.model import recognises

    return recognises(config, tensors)


def _exists(folder: Path) -> bool:
    try:
        return folder.exists()
    except OSError:  # such as a name that is too long
        return False


def _download(name: str) -> Path:
    from huggingface_hub import constants, snapshot_download

    constants.HF_HUB_OFFLINE = False  # it was read from the environment when something else imported the hub
    patterns = ["*.json", "*.safetensors", "pytorch_model*.bin", "spiece.model", "tokenizer*", "vocab.*", "merges.txt"]
    try:
        return Path(snapshot_download(name, allow_patterns=patterns))
    except Exception as error:  # the hub raises many kinds
        raise AuditError(
            f"{name} cannot be fetched from the hub ({type(error).__name__})", "Check the id and the network"
        ) from error
