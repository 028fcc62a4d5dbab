"""Clients of one form, and what closed forms recover of what they share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor

from pfl_audit.attacks.inversion import bag
from pfl_audit.attacks.inversion.bag import bag_of, scored
from pfl_audit.attacks.inversion.bag import counts_of as bag_counts
from pfl_audit.attacks.inversion.bag_readers import BagReader, Items
from pfl_audit.attacks.inversion.clients import Clients, place_template, share
from pfl_audit.attacks.inversion.closed_form import counts_of as words_of
from pfl_audit.attacks.inversion.context import Case, Observation
from pfl_audit.attacks.inversion.controls import Counts
from pfl_audit.attacks.inversion.decision import Decision, decide
from pfl_audit.attacks.inversion.donut_text.recovery import recover_text
from pfl_audit.attacks.inversion.question_answer import counts_of as answers_of
from pfl_audit.attacks.inversion.template.template import Template
from pfl_audit.attacks.inversion.word_text import solve
from pfl_audit.core.verdict import Budget
from pfl_audit.models.gradient_protocol import GradientModel
from pfl_audit.models.samples import Text
from pfl_audit.progress import Silent

BUDGET = Budget.shared(4)


@contextmanager
def other_weights(model: GradientModel, seed: int = 1) -> Iterator[None]:
    """Random matrices of the same size in place of the model's."""
    kept = {name: part.detach().clone() for name, part in model.network.named_parameters()}
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for part in model.network.parameters():
            if part.dim() > 1:
                part.copy_(torch.randn(part.shape, generator=generator) * part.std())
    yield
    with torch.no_grad():
        for name, part in model.network.named_parameters():
            part.copy_(kept[name])


class Split:
    """A reader that splits each text once: all cases of a room are compared with the same fillings."""

    def __init__(self, reader: BagReader) -> None:
        self.read, self.decode, self._split = reader.read, reader.decode, reader.split
        self._known: dict[tuple[int, int], tuple[Text, Template, tuple[Items, Items]]] = {}

    def split(self, text: Text, template: Template) -> tuple[Items, Items]:
        key = (id(text), id(template))
        if key not in self._known:
            self._known[key] = (text, template, self._split(text, template))  # both are kept, and so their ids
        return self._known[key][2]


class Room:
    """Clients of one form, and recoveries of what they share."""

    def __init__(self, model: GradientModel, templates: tuple[Template, ...]) -> None:
        self.model, self.templates = model, templates
        self.placed = [place_template(model, template, Silent()) for template in templates]
        self.clients = Clients(model, templates, 0, None, Silent())
        self.filling = cache(lambda page, question, number: self.clients.filling([(page, question)], number)[0])
        self._reader = cache(lambda: Split(bag.reader_of(model)))

    def case(self, number: int, batch: int = 1, gradient: Mapping[str, Tensor] | None = None) -> Case:
        """A page of the first form, or several, and their gradient or another."""
        step = len(self.placed)
        pages = [(number * batch + at) * step for at in range(batch)]
        truths = tuple(self.clients.page("document", page) for page in pages)
        shared = share(self.model, truths) if gradient is None else gradient
        asked = [truth.question for truth in truths]

        def filling(other: int) -> tuple[Any, ...]:
            return tuple(self.filling(at * step, question, other) for at, question in enumerate(asked))  # the same form

        return Case(Observation(f"document {number}", self.placed[0], shared, batch), truths, filling)

    def counts(self, case: Case) -> dict[str, Counts]:
        """What the closed form makes of it, counted."""
        encoder, decoder = self.model.word_encoder(), self.model.text_decoder()
        if encoder is not None:
            return words_of(encoder, case, solve(self.model, case.seen))
        assert decoder is not None
        return answers_of(decoder, case, recover_text(case.seen.gradient, decoder.first_layer()))

    def decision(self, case: Case) -> Decision:
        found = decide([self.counts(case)], BUDGET)
        assert found is not None
        return found

    def in_any_order(self, case: Case) -> Decision | None:
        """What the rows alone show."""
        read, reader = bag_of(self.model, case), self._reader()
        with patch.object(bag, "reader_of", lambda model: reader):
            rows = bag_counts(self.model, case, read)
        return decide([scored(rows)], BUDGET)
