"""Open a checkpoint by what its family offers. Families are found by entry point."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar, Unpack

from pfl_audit.errors import AuditError, NotAuditableError, UsageError
from pfl_audit.models.adapter_folder import base_of
from pfl_audit.models.device import usable_device
from pfl_audit.models.family import (
    AnswerFamily,
    DividedFamily,
    FormFamily,
    FormOptions,
    GradientFamily,
    ModelFamily,
    Precision,
    PromptedFamily,
    Settings,
)
from pfl_audit.models.weights import read_config, tensor_names
from pfl_audit.registry import Registry

if TYPE_CHECKING:
    from pfl_audit.models.form_protocol import FormModel
    from pfl_audit.models.gradient_protocol import GradientModel
    from pfl_audit.models.protocol import DocumentModel

T = TypeVar("T")
PRECEDENCE: Final = 100
"""Of a family that states none. Families are asked from the lowest number to the highest; one that recognises its
checkpoints by a key of its own in config.json states a lower one."""
_REGISTRY: Final = Registry[ModelFamily]("pfl_audit.models", "model family", ("name", "recognises", "capabilities"))
_HEADS = (
    ("ForMaskedLM", "Audit it on filled-in forms if it is of a form encoder's family: 'pfl-audit reconstruct'"),
    ("ForQuestionAnswering", "Fine-tune a LayoutLM on the same documents: its question-answering head is supported"),
    (
        "ForTokenClassification",
        "Give a tagger that reads words and boxes, or record its answers and give them with --answers",
    ),
    ("ForSequenceClassification", "A classifier answers no questions; audit the model that it was trained from"),
    ("EncoderModel", "Save the whole model with its decoder, such as T5ForConditionalGeneration"),
)
"""End of the saved class to the remedy."""
_OTHERWISE = "Record its answers to the questions, and give them with --answers instead of --model"


def open_model(
    name: str,
    *,
    device: str = "cpu",
    download: bool = False,
    prompt: str | None = None,
    precision: Precision = "fp32",
    batch_tokens: int | None = None,
) -> DocumentModel:
    """Open a model that answers questions about pages.

    Args:
        name: Local checkpoint folder, or with ``download`` a hub id.
        device: As in ``device.usable_device``.
        download: Whether the network may be used to fetch a hub id. Without it no connection is made.
        prompt: Template with {question} and maybe {words}, for families that are asked by one; None for their own.
        precision: Floating-point type of matrix products; weights and sums are float32 either way.
        batch_tokens: Largest number of tokens in a batch, padding included; None for the model's own limit. A batch
            that the memory of the device has no room for is halved either way.

    Raises:
        UsageError: Not a folder and no permission to download; a device that does not exist; a prompt for a family
            that takes none.
        NotAuditableError: Models of its family answer no questions.
        AuditError: No checkpoint, none of a known family, or it cannot be opened.
    """
    from pfl_audit.models.placement import place

    device = usable_device(device)
    folder = _locate(name, download=download)
    family = _offering(AnswerFamily, folder, "answers to questions")  # type: ignore[type-abstract]
    if prompt is None:
        return place(family.open(folder, device=device), device, precision, batch_tokens)
    if not isinstance(family, PromptedFamily):
        raise UsageError(f"{folder} is asked in the way that it was trained, not by a prompt", "Leave --prompt out")
    return place(family.open_prompted(folder, device=device, prompt=prompt), device, precision, batch_tokens)


def open_gradient_model(name: str, device: str = "cpu") -> GradientModel:
    """Open a model whose training gradient can be taken.

    Args:
        name: Local checkpoint folder.
        device: As in ``device.usable_device``.

    Raises:
        UsageError: As in open_model.
        NotAuditableError: Models of its family offer no training gradient.
        AuditError: As in open_model.
    """
    device = usable_device(device)
    folder = _locate(name, download=False)
    return _offering(GradientFamily, folder, "training gradient").open_gradients(folder, device=device)  # type: ignore[type-abstract]


def open_form_model(name: str, *, device: str = "cpu", **options: Unpack[FormOptions]) -> FormModel:
    """Open a model that reads the tokens of forms.

    Args:
        name: Local checkpoint folder.
        device: As in ``device.usable_device``.
        options: As of FormOptions.

    Raises:
        UsageError: As in open_model.
        NotAuditableError: Models of its family read no forms.
        AuditError: As in open_model.
    """
    device = usable_device(device)
    family = _offering(FormFamily, Path(name), "reading of forms")  # type: ignore[type-abstract]
    return family.open_forms(Path(name), device=device, **options)


def open_any(name: str, *, device: str = "cpu", download: bool = False) -> DocumentModel | FormModel:
    """Open a model that answers questions, or else one that reads the tokens of forms.

    Args:
        name: As in open_model.
        device: As in open_model.
        download: As in open_model.

    Raises:
        UsageError: As in open_model.
        NotAuditableError: Models of its family do neither.
        AuditError: As in open_model.
    """
    device = usable_device(device)
    folder = _locate(name, download=download)
    family = family_of(folder)
    if isinstance(family, FormFamily) and not isinstance(family, AnswerFamily):
        return open_form_model(str(folder), device=device)
    return open_model(str(folder), device=device)


def families() -> Sequence[ModelFamily]:
    """The installed families by precedence and name; broken ones are left out with a warning."""
    found = _REGISTRY.installed().values()
    return sorted(found, key=lambda family: (getattr(family, "precedence", PRECEDENCE), family.name))


def family_of(folder: Path) -> ModelFamily:
    """The family of a checkpoint folder, or of the base of an adapter.

    Raises:
        UsageError: There is no such folder, or an adapter's base is not at hand.
        AuditError: No checkpoint, none of a known family, or an adapter of a family that takes none.
    """
    base = base_of(folder)
    tensors = tensor_names(base)
    family = recognised_by(base, read_config(base), tensors)
    if base != folder and not getattr(family, "takes_adapters", False):
        raise AuditError(
            f"{folder} is an adapter of a {family.name} checkpoint, and that family takes no adapters",
            "Merge it into its base: model.merge_and_unload()",
        )
    return family.kind(base) if isinstance(family, DividedFamily) else family


def recognised_by(folder: Path, config: Settings, tensors: frozenset[str]) -> ModelFamily:
    """The first family that recognises a checkpoint.

    Args:
        folder: The checkpoint, for the message.
        config: Its ``config.json``.
        tensors: Names of its tensors.

    Raises:
        AuditError: No installed family does.
    """
    known = families()
    for family in known:
        if family.recognises(config, tensors):
            return family
    kind = config.get("model_type", "unknown")
    raise AuditError(
        f"{folder} is a checkpoint of model type '{kind!s:.80}', not of a family that can be audited",
        f"{nearest_way(config)}. Known families: {', '.join(family.name for family in known)}",
    )


def _offering(kind: type[T], folder: Path, what: str) -> T:
    """The family of a checkpoint folder, which offers what the protocol ``kind`` has.

    Raises:
        NotAuditableError: It does not.
        AuditError: As in family_of.
    """
    family = family_of(folder)
    if isinstance(family, kind):
        return family
    able = [other.name for other in families() if isinstance(other, kind)]
    remedy = f"Give a checkpoint of a family that does: {', '.join(able)}" if able else "Install a family that does"
    if isinstance(family, FormFamily):
        remedy += ". Form models are audited with 'pfl-audit reconstruct'"
    raise NotAuditableError(f"{folder} is a {family.name} checkpoint, and that family offers no {what}", remedy)


def _locate(name: str, *, download: bool) -> Path:
    folder = Path(name)
    with suppress(OSError):  # such as a name that is too long
        if folder.exists():
            return folder
    if not download:
        raise UsageError(
            f"{name} is no local folder", "Give a checkpoint folder, or add --download to fetch it from the hub"
        )
    return _download(name)


def _download(name: str) -> Path:
    from huggingface_hub import constants, snapshot_download

    constants.HF_HUB_OFFLINE = False  # it was read from the environment when something else imported the hub
    patterns = [
        "*.json",
        "*.safetensors",
        "pytorch_model*.bin",
        "*.model",
        "*.jinja",
        "tokenizer*",
        "vocab.*",
        "merges.txt",
    ]
    try:
        return Path(snapshot_download(name, allow_patterns=patterns))
    except Exception as error:  # the hub raises many kinds
        raise AuditError(
            f"{name} cannot be fetched from the hub ({type(error).__name__})", "Check the id and the network"
        ) from error


def nearest_way(config: Mapping[str, Any]) -> str:
    """Remedy for a checkpoint that no family recognises, by its ``config.json``."""
    if config.get("auto_map"):
        return f"It needs code of its own, which is never run. {_OTHERWISE}"
    classes = config.get("architectures")
    names = [name for name in classes if isinstance(name, str)] if isinstance(classes, list) else []
    return next((way for end, way in _HEADS if any(name.endswith(end) for name in names)), _OTHERWISE)
