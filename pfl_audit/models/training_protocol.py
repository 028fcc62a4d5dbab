"""What training needs of a model, whatever its family."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar, runtime_checkable

from pfl_audit.documents.document import Query

if TYPE_CHECKING:
    from torch import Tensor, nn

    from pfl_audit.progress import Progress

Item_contra = TypeVar("Item_contra", contravariant=True)
INPUT_ROWS: Final = "marker_input_rows"
"""Name of a submodule with rows that inputs of self-pretraining alone look up: questions give it no gradient."""


class TrainingSet(Protocol):
    """Training examples of a model, tokenised once and addressed by row."""

    def __len__(self) -> int:
        """Number of examples."""

    @property
    def page_bytes(self) -> int:
        """Bytes held in memory for each page."""

    def length(self, row: int) -> int:
        """Number of tokens of an example; batches hold examples of similar lengths."""

    def loss(self, rows: Sequence[int]) -> Tensor:
        """The training loss of a batch: float (), differentiable in the trainable parameters."""

    def reseed(self, seed: int) -> None:
        """Seed what an example draws at random, such as the tokens to mask; dropout is not part of it."""


@runtime_checkable
class DivisibleSet(Protocol):
    """Training examples whose batches several processes can divide among them."""

    def part_loss(self, rows: Sequence[int], part: Sequence[int]) -> Tensor:
        """The share of ``TrainingSet.loss(rows)`` that some examples of the batch have, float ().

        Over disjoint parts that are together the batch, the shares sum to the loss. What is drawn at random is
        drawn for the whole batch.

        Args:
            rows: Rows of the batch.
            part: Places of the examples in ``rows``, at least one.
        """


@dataclass(frozen=True)
class AdapterLayout:
    """Where low-rank adapters are placed in a network.

    Attributes:
        module: Name of the submodule that is adapted.
        targets: Name endings of the linear layers in it that get an adapter (peft's ``target_modules``).
        whole: Names of submodules that are trained whole beside the adapters.
    """

    module: str
    targets: tuple[str, ...]
    whole: tuple[str, ...] = ()


class TrainableModel(Protocol[Item_contra]):
    """A network that can be trained, with everything that is needed to feed, validate and save it."""

    @property
    def network(self) -> nn.Module:
        """The network, on its device."""

    @property
    def page_encoder(self) -> nn.Module | None:
        """Frozen submodule whose output is computed once for each page; None if every step computes everything."""

    @property
    def adapters(self) -> AdapterLayout | None:
        """Placement of low-rank adapters; None if the model takes none."""

    def is_frozen(self, name: str) -> bool:
        """Whether the parameter of this name is never trained."""

    def length(self, item: Item_contra) -> int:
        """Number of tokens of an item; ``TrainingSet.length`` of its example."""

    @property
    def points(self) -> bool:
        """Whether it answers with words of the page alone."""

    def can_write(self, text: str) -> bool:
        """Whether the model can be trained to answer with any text, and its tokenizer can represent this one."""

    def examples(self, items: Sequence[Item_contra], progress: Progress, cache: Path | None = None) -> TrainingSet:
        """Tokenise items, and encode or load their pages.

        Args:
            items: Items to train on, one row each.
            cache: File for the output of ``page_encoder``, as float16: it takes no memory, and a resumed run computes
                nothing twice. None to hold it in memory.
        """

    def validate(self, items: Sequence[Item_contra]) -> dict[str, float]:
        """Scores on held-out items by name, in evaluation mode; the state of torch's random generator is kept."""

    def save(self, folder: Path, records: Mapping[str, Any], *, half: bool) -> None:
        """Write a checkpoint that the family opens, with its tokenizer; the weights come last.

        Args:
            records: JSON files to write beside the weights, name to content.
            half: Save floating-point tensors as float16 instead of float32.
        """


QuestionModel = TrainableModel[Query]
"""A trainable model whose items are questions about pages."""


@runtime_checkable
class TrainableFamily(Protocol):
    """A model family whose checkpoints can be trained further."""

    def open_training(self, folder: Path, *, device: str, train_visual: bool) -> QuestionModel:
        """Open a checkpoint for training.

        Args:
            train_visual: Train the visual encoder as well.

        Raises:
            UsageError: The model has no visual encoder that could be left out of the training.
            AuditError: It cannot be opened, with the tensor or setting named.
        """
