"""The kind of Donut that prints fields, distinguished from question answering by its tokens. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pfl_audit.errors import AuditError
from pfl_audit.models.donut.tokenizer import MARKS, special_tokens
from pfl_audit.models.donut_fields.tags import FieldTags, field_tags
from pfl_audit.models.family import Settings
from pfl_audit.models.field_keys import listed
from pfl_audit.models.protocol import QUESTIONS, Capability, DocumentModel
from pfl_audit.models.training_protocol import QuestionModel
from pfl_audit.models.weights import read_config, read_settings


@dataclass(frozen=True)
class DonutFieldsFamily:
    """A checkpoint of a Donut that prints fields.

    Attributes:
        tags: Tags among the special tokens of its tokenizer.
    """

    tags: FieldTags
    name = "donut-fields"

    def recognises(self, config: Settings, tensors: frozenset[str]) -> bool:
        """Always: the folder was recognised by its tokenizer."""
        return True

    def way(self, config: Settings) -> str:
        """How it is asked: the task and the keys."""
        return (
            f"by the task {self.tags.task}, the page image beside it, without a question; the answer to a query is the "
            f"field of its key. Keys: {listed(self.tags.opens)}"
        )

    def capabilities(self, config: Settings, tensors: frozenset[str]) -> frozenset[Capability]:
        """Answers with their probabilities, and training."""
        return QUESTIONS | {Capability.TRAINABLE}

    def open(self, folder: Path, *, device: str) -> DocumentModel:
        """Open a checkpoint to give the fields of pages."""
        from pfl_audit.models.donut_fields.model import DonutFields

        return DonutFields(folder, self.tags, device)

    def open_training(self, folder: Path, *, device: str, train_visual: bool) -> QuestionModel:
        """Open a checkpoint to train it further."""
        from pfl_audit.models.donut_fields.training import open_training

        return open_training(folder, self.tags, device=device, train_visual=train_visual)


def fields_family(folder: Path) -> DonutFieldsFamily | None:
    """The family of a Donut checkpoint that prints fields; None if its tokenizer has the markers of answers.

    A folder without a usable tokenizer counts as one that answers questions, whose loader names what is wrong.

    Raises:
        AuditError: It has tags of fields, and the task that they begin with cannot be determined.
    """
    try:
        specials = special_tokens(folder)
    except AuditError:
        return None
    if all(name in specials for name in MARKS):
        return None
    settings = [read_config(folder), read_settings(folder / "generation_config.json")]
    tags = field_tags(specials, [one for one in settings if isinstance(one, dict)])
    if tags is None and any(name.startswith("</s_") and name not in MARKS for name in specials):
        raise AuditError(
            f"{folder} is a Donut that prints fields, but its task token cannot be determined",
            "Set decoder_start_token_id in config.json to the id of the task, such as <s_cord-v2>",
        )
    return DonutFieldsFamily(tags) if tags else None
