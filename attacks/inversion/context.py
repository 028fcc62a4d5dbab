"""Observations of federated learning, and apart from them the ground truth for scores."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from pfl_audit.attacks.inversion.bound import NoiseBound
from pfl_audit.attacks.inversion.controls import FILLINGS
from pfl_audit.attacks.inversion.template.template import Template
from pfl_audit.core.context import AuditContext
from pfl_audit.core.store import Records
from pfl_audit.errors import NotAuditableError
from pfl_audit.models.calls import Calls, Workers
from pfl_audit.models.gradient_protocol import GradientModel
from pfl_audit.models.samples import Text

Filling = Callable[[int], tuple[Text, ...]]
"""Gives by number the texts of another filling of some forms, one a sample."""
Drawn = Callable[[int], tuple[Mapping[str, str], ...]]
"""Gives by number the values of another filling by field, one a sample."""


@dataclass(frozen=True, eq=False)
class Observation:
    """Everything that an attack gets: there is no truth in it.

    Attributes:
        name: Name of the document in progress and records, not that of its file.
        template: The empty form as the network sees it: its pixels are uint8 (*model.page, 3), its fields and words
            are placed on them.
        gradient: float32, by parameter; each tied tensor once. What a client shared, with its noise.
        batch: Samples that it is the mean over.
        steps: Optimiser steps that it is the difference of weights of; 1 for a gradient.
        weights: What it was added to, by parameter, where that is not the model as it is.
        scaled: Whether the network sees the form in another size than its own.
        dropout: Rate of dropout on the inputs of the first layers, as stated; 0 where none is stated.
    """

    name: str
    template: Template
    gradient: Mapping[str, Tensor]
    batch: int = 1
    steps: int = 1
    weights: Mapping[str, Tensor] | None = None
    scaled: bool = False
    dropout: float = 0.0

    @property
    def stem(self) -> str:
        """The name, for files."""
        return self.name.replace(" ", "-")


@dataclass(frozen=True, eq=False)
class Truth:
    """One sample that the gradient was computed on.

    Attributes:
        page: uint8 (*model.page, 3), as the network saw it.
        values: Field id to what is written there; None where it is unknown (a page of the user's own).
        question: What is asked; empty where that is not kept.
    """

    page: NDArray[np.uint8]
    text: Text
    values: Mapping[str, str] | None
    question: str = ""


@dataclass(frozen=True, eq=False)
class Case:
    """An observation, and what is known of its samples.

    Attributes:
        truths: One a sample, in the order of the batch; empty where only the gradient is at hand.
        filling: Other fillings of the same forms; None if there are none.
        pages: Number and question of each page, from which other fillings are made in another process.
        bound: What noise of a stated size allows; None where none is stated.
        drawn: Values of other fillings; None if there are none. It stays in this process.
    """

    seen: Observation
    truths: tuple[Truth, ...] = ()
    filling: Filling | None = None
    pages: tuple[tuple[int, str], ...] = ()
    bound: NoiseBound | None = None
    drawn: Drawn | None = None


class Holder(Protocol):
    """Holder of a model whose gradients are shared, in this process or another."""

    @property
    def model(self) -> GradientModel:
        """The model."""

    def filling(self, pages: tuple[tuple[int, str], ...]) -> Filling | None:
        """Other fillings of the forms of some pages, as of ``Case``."""


@dataclass(frozen=True, kw_only=True)
class GradientParts:
    """A model whose gradients are shared, and what observers hold of them.

    Attributes:
        model: Model whose gradients were shared, with its weights as they were then; the attacker has it too.
        cases: What an observer holds of each document, and apart from it the ground truth.
        records: Records of earlier runs; ``gradients.observation_key`` names an observation.
        states: Folder where a search may keep its state, so that it goes on when it was killed; it need not exist.
        calls: What computes something about an observation; this process where not given.
        workers: Other processes that compute at the same time; None for this one alone.
        public_form: Whether masked reports may show the empty form.
    """

    model: GradientModel
    cases: tuple[Case, ...]
    records: Records
    states: Path
    calls: Calls[Holder] | None = None
    workers: Workers | None = None
    public_form: bool = False


@dataclass(frozen=True, kw_only=True)
class GradientContext(AuditContext, GradientParts):
    """Context of attacks that read documents out of gradients."""


def texts_of(case: Case) -> Iterator[tuple[Text, ...]]:
    """Texts of the own pages of a case, then of other fillings of their forms, one a sample each."""
    yield tuple(truth.text for truth in case.truths)
    if case.filling is not None:
        yield from map(case.filling, range(FILLINGS))


def bounds_of(context: GradientContext) -> list[NoiseBound | None]:
    """What stated noise allows, of each case."""
    return [case.bound for case in context.cases]


def keep_page(context: GradientContext, method: str, case: Case, page: NDArray[np.uint8]) -> None:
    """Keep pixels, uint8 (height, width, 3), as ``private/METHOD-DOCUMENT.jpg``."""
    context.evidence.keep_page(f"{method}-{case.seen.stem}", Image.fromarray(page))


def keep_text(context: GradientContext, method: str, case: Case, found: Mapping[str, object]) -> None:
    """Keep words as ``private/METHOD-DOCUMENT.json``."""
    context.evidence.keep_json(f"{method}-{case.seen.stem}", found)


def unscored() -> NotAuditableError:
    """The error of an audit in which no gradient can be scored."""
    return NotAuditableError(
        "without the page that the client trained on nothing can be scored; what came back lies in private/",
        "Give --document, --question and --answer",
    )
