"""How checkpoints were opened, so that other processes open the same ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from pfl_audit.errors import AuditError
from pfl_audit.models.family import Precision
from pfl_audit.models.open import open_form_model, open_gradient_model, open_model
from pfl_audit.models.protocol import OpenedModel
from pfl_audit.version import __version__

if TYPE_CHECKING:
    from pfl_audit.models.form_protocol import FormModel
    from pfl_audit.models.gradient_protocol import GradientModel
    from pfl_audit.models.protocol import DocumentModel

M = TypeVar("M", bound=OpenedModel)


@dataclass(frozen=True)
class AnswerOpening:
    """As of ``open_model``.

    Attributes:
        fingerprint: Of the model that it gave.
        version: Version of pfl-audit.
    """

    name: str
    device: str
    download: bool
    prompt: str | None
    fingerprint: str
    precision: Precision = "fp32"
    batch_tokens: int | None = None
    version: str = __version__

    def open(self) -> DocumentModel:
        """Open it, and refuse a model that has changed since."""
        model = open_model(
            self.name,
            device=self.device,
            download=self.download,
            prompt=self.prompt,
            precision=self.precision,
            batch_tokens=self.batch_tokens,
        )
        return unchanged(self.name, model, self.fingerprint)


@dataclass(frozen=True)
class GradientOpening:
    """As of ``open_gradient_model``.

    Attributes:
        fingerprint: Of the model that it gave.
        version: Version of pfl-audit.
    """

    name: str
    device: str
    fingerprint: str
    version: str = __version__

    def open(self) -> GradientModel:
        """Open it, and refuse a model that has changed since."""
        return unchanged(self.name, open_gradient_model(self.name, self.device), self.fingerprint)


@dataclass(frozen=True)
class FormOpening:
    """As of ``open_form_model``.

    Attributes:
        label_map: Its pairs, in order.
        fingerprint: Of the model that it gave.
        version: Version of pfl-audit.
    """

    name: str
    device: str
    fingerprint: str
    visual_noise: int | None = None
    precision: Precision = "fp32"
    label_map: tuple[tuple[str, str], ...] = ()
    batch_tokens: int | None = None
    version: str = __version__

    def open(self) -> FormModel:
        """Open it, and refuse a model that has changed since."""
        model = open_form_model(
            self.name,
            device=self.device,
            visual_noise=self.visual_noise,
            precision=self.precision,
            label_map=dict(self.label_map),
            batch_tokens=self.batch_tokens,
        )
        return unchanged(self.name, model, self.fingerprint)


def unchanged(name: str, model: M, fingerprint: str) -> M:
    """The model that a checkpoint gives.

    Raises:
        AuditError: It is another one than it gave before.
    """
    if model.fingerprint != fingerprint:
        raise AuditError(f"{name} has changed since it was opened", "Repeat the command")
    return model
