"""Donut that prints fields as a DocumentModel: a page is printed once, and its fields answer all queries about it."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, isfinite
from pathlib import Path

import torch

from pfl_audit.documents.document import Document, Query
from pfl_audit.models.donut.checkpoint import LoadedDonut, load_donut
from pfl_audit.models.donut.writer import DonutWriter
from pfl_audit.models.donut_fields.inputs import FieldInputs, Printed
from pfl_audit.models.donut_fields.tags import FieldTags
from pfl_audit.models.field_keys import listed
from pfl_audit.models.opened import OpenedCheckpoint
from pfl_audit.models.pages_ahead import page_name
from pfl_audit.models.protocol import QUESTIONS, Response, Score
from pfl_audit.models.samples import require_finite_losses
from pfl_audit.models.weights import fingerprint_files

ADAPTER_VERSION = 1
"""Incremented whenever the adapter's results change, so that stored answers are not reused."""


class FieldResponder(DonutWriter):
    """A network that prints fields, common to audited checkpoints and models under training.

    The sequence of a page is written greedily after the task token, up to ``</s>`` or until it fills the decoder's
    positions. The answer to a query is the text of the field of its key, of a repeated field the value that equals
    the first accepted answer, else the first value; a field that is not printed is an empty answer with confidence
    0. Confidence is the product of the probabilities of the field's tokens and of its closing tag. The loss is the
    mean cross-entropy of the first accepted answer and the closing tag in the place of the field, after what the
    model itself wrote before.

    Args:
        loaded: The network with its settings, put into evaluation mode.
        tags: Tags among the special tokens of its tokenizer.
    """

    def __init__(self, loaded: LoadedDonut, tags: FieldTags, device: str = "cpu") -> None:
        super().__init__(loaded, device)
        self.inputs = FieldInputs(loaded.config, loaded.tokenizer, tags)
        self._printed: dict[str, tuple[Printed, tuple[float, ...]]] = {}

    def forget_pages(self) -> None:
        """Drop features and sequences of pages, as the network that made them changes."""
        super().forget_pages()
        self._printed.clear()

    def require_field(self, query: Query) -> None:
        """Check that there are tags of a query's key.

        Raises:
            UnanswerableError: There are none.
        """
        self.inputs.path(query)

    def cost(self, query: Query) -> int:
        """Tokens of the page and of the longest sequence."""
        return self._visual_tokens + self.config.longest

    @torch.inference_mode()
    def respond(self, queries: Sequence[Query]) -> list[Response]:
        """Answer a batch; the response to a query does not depend on the others.

        Raises:
            UnanswerableError: A page's image cannot be read, or the model has no field of a query's key.
            AuditError: The model computes NaN or infinite losses.
        """
        paths = [self.inputs.path(query) for query in queries]
        if not queries:
            return []
        pages = self.encoded_pages([query.document for query in queries])
        written = self._print([query.document for query in queries])
        examples = [
            self.inputs.example(printed, path, query.answers[0])
            for query, path, (printed, _) in zip(queries, paths, written, strict=True)
        ]
        responses = []
        for query, path, found, score in zip(queries, paths, written, self.scores(examples, pages), strict=True):
            printed, logarithms = found
            span = self.inputs.field(printed, path, query.answers[0])
            if span is None:
                responses.append(score.response("", 0.0))
                continue
            first = span.start - len(self.inputs.prompt)
            logarithm = sum(logarithms[first : first + span.stop - span.start + 1])
            responses.append(score.response(self.inputs.value(printed, span), exp(logarithm)))
        return responses

    @torch.inference_mode()
    def candidate_losses(self, query: Query, values: Sequence[str]) -> list[Score]:
        """Losses of several values of one field; the page is encoded and printed once."""
        path = self.inputs.path(query)
        page = self.encoded_pages([query.document])
        ((printed, _),) = self._print([query.document])
        size, scores = self.batch_size(self.cost(query)), list[Score]()
        for at in range(0, len(values), size):
            some = [self.inputs.example(printed, path, value) for value in values[at : at + size]]
            scores += self.scores(some, page.expand(len(some), -1, -1))
        return scores

    def _print(self, documents: Sequence[Document]) -> list[tuple[Printed, tuple[float, ...]]]:
        """Sequences of pages with the logarithms of their probabilities; those of the last batch are kept."""
        names = [page_name(document) for document in documents]
        known = {name: self._printed[name] for name in names if name in self._printed}
        new = {name: document for name, document in zip(names, documents, strict=True) if name not in known}
        if new:
            pages = self.encoded_pages(list(new.values()))
            for name, row in zip(new, self.write([self.inputs.prompt] * len(new), pages), strict=True):
                require_finite_losses(isfinite(sum(row.logarithms)))
                known[name] = self.inputs.read(row.answer), tuple(row.logarithms)
        self._printed = known
        return [known[name] for name in names]


class DonutFields(FieldResponder, OpenedCheckpoint):
    """A checkpoint of a Donut that prints fields on disk, ready to be audited."""

    family = "donut-fields"
    capabilities = QUESTIONS

    def __init__(self, folder: Path, tags: FieldTags, device: str = "cpu") -> None:
        loaded = load_donut(folder, (tags.task,))
        super().__init__(loaded, tags, device)
        height, width = loaded.pixels.page
        notes = (
            f"asked by the task {tags.task}, without a question; keys: {listed(tags.opens)}",
            f"page: {width} x {height} pixels, {self._visual_tokens} tokens",
            f"sequence of fields: {self.config.longest} tokens at most",
            *loaded.notes,
        )
        self.identify(folder, fingerprint_files(folder), ADAPTER_VERSION, notes, loaded.pixels.to_dict(), tags.task)
