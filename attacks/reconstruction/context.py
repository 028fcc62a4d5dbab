"""What attacks that fill in forms get."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pfl_audit.attacks.reconstruction.calls import FormCalls
from pfl_audit.core.context import AuditContext
from pfl_audit.core.store import Records
from pfl_audit.documents.forms.form import FormCorpus
from pfl_audit.documents.forms.partition import FormPartition
from pfl_audit.models.form_protocol import FormModel


@dataclass(frozen=True, kw_only=True)
class FormParts:
    """Models that read the tokens of forms, and the forms.

    Attributes:
        parts: ``private`` the target was trained on, ``public`` everybody may have, ``validation`` is new to both.
        epochs: Epoch of the target's training to a function that opens its checkpoint; empty where none was kept.
        quick: The target in a coarser precision, used where it changes nothing, or None.
        public_target: A model of the target's task that was trained on public forms alone, or None.
        training: Training records of the public model and of the target, as JSON objects; empty where there is none.
        elsewhere: Whether the target's training record names other forms than the private ones.
        states: Folder of what long searches keep, or None.
        device: torch's name of the device.
        calls: Other processes that fill in and rank fields; None for this one alone.
    """

    target: FormModel
    corpus: FormCorpus
    parts: FormPartition
    records: Records
    epochs: Mapping[int, Callable[[], FormModel]] = field(default_factory=dict)
    quick: FormModel | None = None
    public_target: FormModel | None = None
    training: tuple[Mapping[str, object], Mapping[str, object]] = ({}, {})
    elsewhere: bool = False
    states: Path | None = None
    device: str = "cpu"
    calls: FormCalls | None = None


@dataclass(frozen=True, kw_only=True)
class FormContext(AuditContext, FormParts):
    """Context of attacks that fill in forms.

    Attributes:
        public: Masked language model of public forms.
    """

    public: FormModel
