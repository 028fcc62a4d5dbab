"""Model families: found by entry point, described without torch, opened by what they offer.

An entry point of the group ``pfl_audit.models`` names a light object with ``name``, ``recognises`` and
``capabilities``. Each way of opening a checkpoint is an optional protocol; its method imports the libraries it needs.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypedDict, Unpack, runtime_checkable

from pfl_audit.models.protocol import Capability, DocumentModel

if TYPE_CHECKING:  # they bring numpy and torch, which 'pfl-audit list' can do without
    from pfl_audit.models.form_protocol import FormModel
    from pfl_audit.models.gradient_protocol import GradientModel

Settings = Mapping[str, Any]
"""``config.json`` as data."""
Precision = Literal["fp32", "bf16", "fp16"]
"""Floating-point type of matrix products."""
FLOATS: Mapping[Precision, str] = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}
"""Precision to torch's name."""


class ModelFamily(Protocol):
    """Checkpoints of one architecture. An object of this kind is the target of an entry point."""

    @property
    def name(self) -> str:
        """Name of the family, unique among those installed."""

    def recognises(self, config: Settings, tensors: frozenset[str]) -> bool:
        """Whether a checkpoint with this ``config.json`` and these tensor names is of the family."""

    def capabilities(self, config: Settings, tensors: frozenset[str]) -> frozenset[Capability]:
        """Capabilities of a checkpoint that the family recognises; empty if its settings make no model."""


@runtime_checkable
class AnswerFamily(Protocol):
    """A family whose models answer questions about pages."""

    def open(self, folder: Path, *, device: str) -> DocumentModel:
        """Open a checkpoint.

        Raises:
            AuditError: It cannot be opened; the message names the tensor or setting.
        """


@runtime_checkable
class DescribedFamily(Protocol):
    """A family that says how its models are asked."""

    def way(self, config: Settings) -> str:
        """How a checkpoint with this ``config.json`` is asked, as part of a sentence."""


@runtime_checkable
class DividedFamily(Protocol):
    """A family of several kinds that ``config.json`` does not tell apart, such as by the tokens of the tokenizer."""

    def kind(self, folder: Path) -> ModelFamily:
        """The kind of a checkpoint folder that the family recognises, as a family.

        Raises:
            AuditError: It is of no kind that can be audited.
        """


@runtime_checkable
class PromptedFamily(Protocol):
    """A family whose models are asked by a prompt template."""

    def open_prompted(self, folder: Path, *, device: str, prompt: str | None) -> DocumentModel:
        """Open a checkpoint.

        Args:
            prompt: Text with {question} and maybe {words}, or None for the family's own.

        Raises:
            AuditError: It cannot be opened; the message names the tensor or setting.
        """


@runtime_checkable
class GradientFamily(Protocol):
    """A family whose training gradient can be taken."""

    def open_gradients(self, folder: Path, *, device: str) -> GradientModel:
        """Open a checkpoint to take its training gradient.

        Raises:
            AuditError: It cannot be opened; the message names the tensor or setting.
        """


class FormOptions(TypedDict, total=False):
    """How a checkpoint is opened to read forms.

    Attributes:
        visual_noise: Seed of Gaussian noise that replaces every page image, or None.
        precision: Floating-point type of the network's arithmetic.
        label_map: Field label of the forms to a tag of the model, or to ``O``, where the names differ.
        batch_tokens: Largest number of tokens in a batch; None for the model's own limit.
    """

    visual_noise: int | None
    precision: Precision
    label_map: Mapping[str, str] | None
    batch_tokens: int | None


@runtime_checkable
class FormFamily(Protocol):
    """A family whose models read the tokens of forms."""

    def open_forms(self, folder: Path, *, device: str, **options: Unpack[FormOptions]) -> FormModel:
        """Open a checkpoint to read forms.

        Raises:
            UsageError: The label map names a tag that the model does not have.
            AuditError: It cannot be opened; the message names the tensor or setting.
        """
