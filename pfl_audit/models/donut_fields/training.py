"""Donut that prints fields as a TrainableModel."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pfl_audit.documents.document import Query
from pfl_audit.models.donut.checkpoint import LoadedDonut, load_donut
from pfl_audit.models.donut.training import DonutTraining
from pfl_audit.models.donut_fields.model import FieldResponder
from pfl_audit.models.donut_fields.tags import FieldTags
from pfl_audit.models.field_training import FieldTraining
from pfl_audit.models.question_training import Example


class TrainableDonutFields(FieldResponder, DonutTraining, FieldTraining):
    """A Donut that prints fields under training; arguments as of TrainableDonut.

    The sequence of a page has the tags in the order of their ids, and each group once.
    """

    def __init__(
        self, loaded: LoadedDonut, tags: FieldTags, start: Path, device: str = "cpu", *, train_visual: bool = False
    ) -> None:
        super().__init__(loaded, tags, device)
        self.start, self._train_visual = start, train_visual

    def page_example(self, query: Query, fields: Sequence[Query]) -> Example:
        """The sequence of a page's fields, and the labels."""
        made = self.inputs.page([(self.inputs.path(one), one.answers[0]) for one in fields])
        return Example(len(made.ids), made.tensors())


def open_training(
    folder: Path, tags: FieldTags, *, device: str = "cpu", train_visual: bool = False
) -> TrainableDonutFields:
    """Open a checkpoint folder for training."""
    return TrainableDonutFields(load_donut(folder, (tags.task,)), tags, folder, device, train_visual=train_visual)
