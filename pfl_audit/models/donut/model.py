"""Donut as a DocumentModel: a page is encoded once, and answers to all its questions are generated."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, isfinite
from pathlib import Path

import torch

from pfl_audit.documents.document import Query
from pfl_audit.models.donut.checkpoint import LoadedDonut, load_donut
from pfl_audit.models.donut.inputs import InputBuilder
from pfl_audit.models.donut.tokenizer import END_ANSWER
from pfl_audit.models.donut.writer import DonutWriter
from pfl_audit.models.opened import OpenedCheckpoint
from pfl_audit.models.protocol import QUESTIONS, Capability, Guess, Response, Score, sorted_guesses
from pfl_audit.models.samples import require_finite_losses
from pfl_audit.models.weights import fingerprint_files

ADAPTER_VERSION = 1
"""Incremented whenever the adapter's results change, so that stored answers are not reused."""


class DonutResponder(DonutWriter):
    """A network that answers queries, common to audited checkpoints and models under training.

    The answer is written greedily after the prompt, up to ``</s_answer>`` or ``</s>``, or until prompt and
    answer fill the decoder's places; the unknown piece is never chosen, as in Donut's own inference. Its confidence
    is the product of the probabilities of its tokens, the end left out. The loss is the mean cross-entropy of the
    first accepted answer, ``</s_answer>`` and ``</s>``, both ends counted.

    Args:
        loaded: The network with its settings, put into evaluation mode.
    """

    def __init__(self, loaded: LoadedDonut, device: str = "cpu") -> None:
        super().__init__(loaded, device)
        self.inputs = InputBuilder(loaded.config, loaded.tokenizer)

    def cost(self, query: Query) -> int:
        """Tokens of the page and of the prompt."""
        return self._visual_tokens + len(self.inputs.prompt(query.question))

    @torch.inference_mode()
    def respond(self, queries: Sequence[Query]) -> list[Response]:
        """Answer a batch; the response to a query does not depend on the others.

        Raises:
            UnanswerableError: A page's image cannot be read.
            AuditError: The model computes NaN or infinite losses.
        """
        if not queries:
            return []
        pages = self.encoded_pages([query.document for query in queries])
        ends = {self._tokenizer.id(END_ANSWER)}
        written = self.write([self.inputs.prompt(query.question) for query in queries], pages, ends)
        scores = self.scores([self.inputs.query(query) for query in queries], pages)
        require_finite_losses(all(isfinite(sum(some.logarithms)) for some in written))
        return [
            score.response(self.inputs.tokenizer.decode(some.answer), exp(sum(some.logarithms)))
            for some, score in zip(written, scores, strict=True)
        ]

    @torch.inference_mode()
    def candidate_losses(self, query: Query, values: Sequence[str]) -> list[Score]:
        """Losses of several answers to one question; the page is encoded once."""
        page = self.encoded_pages([query.document])
        examples = [self.inputs.example(query.question, value) for value in values]
        return self.scores(examples, page.expand(len(examples), -1, -1))

    @torch.inference_mode()
    def guess(self, queries: Sequence[Query], width: int) -> list[list[Guess]]:
        """The likeliest answers to each question; a page is encoded once."""
        found: list[list[Guess]] = []
        for query, page in zip(queries, self.encoded_pages([query.document for query in queries]), strict=True):
            prompt, end = self.inputs.prompt(query.question), self._tokenizer.id(END_ANSWER)
            tokens = self.likeliest(prompt, page[None], width, end)
            texts = list(dict.fromkeys(map(self.inputs.tokenizer.decode, tokens)))
            examples = [self.inputs.example(query.question, text) for text in texts]
            found.append(sorted_guesses(texts, self.scores(examples, page.expand(len(texts), -1, -1))))
        return found


class DonutModel(DonutResponder, OpenedCheckpoint):
    """A Donut checkpoint on disk, ready to be audited."""

    family = "donut"
    capabilities = QUESTIONS | {Capability.GUESSES}

    def __init__(self, folder: Path, device: str = "cpu") -> None:
        loaded = load_donut(folder)
        super().__init__(loaded, device)
        height, width = loaded.pixels.page
        notes = (
            f"page: {width} x {height} pixels, {self._visual_tokens} tokens",
            f"prompt and answer: {self.config.longest} tokens at most",
            *loaded.notes,
        )
        self.identify(folder, fingerprint_files(folder), ADAPTER_VERSION, notes, loaded.pixels.to_dict())
