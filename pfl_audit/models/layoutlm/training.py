"""LayoutLM question answering as a TrainableModel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from torch import Tensor

from pfl_audit.documents.document import Query
from pfl_audit.errors import UsageError
from pfl_audit.models.layoutlm.model import LayoutLmQa
from pfl_audit.models.layoutlm.names import Version
from pfl_audit.models.question_training import Example, WordTraining
from pfl_audit.models.training_protocol import AdapterLayout


class TrainableLayoutLm(LayoutLmQa, WordTraining):
    """A LayoutLM with a question-answering head under training; everything that the head depends on is trained.

    A query's example is the window of its page that holds the first accepted answer; an answer that no window holds
    whole is trained as the token CLS, "no answer". The loss of a batch is the mean of its examples' losses: padding
    takes no part in their softmaxes.
    """

    points = True
    """It answers with words of the page."""

    def __init__(self, folder: Path, version: Version, device: str = "cpu") -> None:
        super().__init__(folder, version, device)
        self.start = folder
        self.adapters = AdapterLayout(self.network.base_model_prefix, ("query", "value"), ("qa_outputs",))

    def can_write(self, text: str) -> bool:
        """It points to words of the page and writes nothing."""
        return False

    def example(self, query: Query) -> Example:
        """Question and window of the page, with the place of the answer."""
        text = self.inputs.labelled(query)
        return Example(len(text["input_ids"]), text)

    def batch_loss(self, examples: Sequence[Example], pages: Tensor) -> Tensor:
        """The mean over the examples of the mean cross-entropy of start and end."""
        return self.span_loss([example.tensors for example in examples], pages.to(self._device).float() / 255)

    def targets(self, example: Example) -> int:
        """One: the loss is a mean over the examples."""
        return 1

    def own_tensors(self) -> Mapping[str, Tensor]:
        """The network's tensors."""
        return self.network.state_dict()


def open_training(
    folder: Path, version: Version, *, device: str = "cpu", train_visual: bool = False
) -> TrainableLayoutLm:
    """Open a checkpoint folder for training.

    Raises:
        UsageError: The visual encoder is to be trained, and there is none.
    """
    if train_visual:
        raise UsageError(
            "a LayoutLM has no visual encoder that could be frozen: what it sees with is always trained",
            "Leave out --train-visual",
        )
    return TrainableLayoutLm(folder, version, device)
