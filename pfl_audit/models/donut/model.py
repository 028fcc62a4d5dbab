"""Donut as a DocumentModel: a page is encoded once, and answers to all its questions are generated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import exp, isfinite
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.utils.rnn import pad_sequence

from pfl_audit.documents.document import Document, Query
from pfl_audit.errors import AuditError
from pfl_audit.models.donut.checkpoint import LoadedDonut, load_donut
from pfl_audit.models.donut.inputs import IGNORED, Example, InputBuilder
from pfl_audit.models.donut.network import page_features
from pfl_audit.models.donut.tokenizer import END_ANSWER, EOS, UNK
from pfl_audit.models.family import QUESTIONS
from pfl_audit.models.memory import keep_freed_memory
from pfl_audit.models.opened import OpenedCheckpoint
from pfl_audit.models.protocol import Response, Score
from pfl_audit.models.weights import fingerprint_files

ADAPTER_VERSION = 1
"""Incremented whenever the adapter's results change, so that stored answers are not reused."""

_BATCH_BYTES = 512 << 20
_MAX_BATCH = 128


@dataclass
class _Writing:
    """State of the generation of one answer.

    Attributes:
        text: Tokens generated so far, with the prompt first.
        answer: Tokens of the answer so far.
        logarithm: Logarithm of the product of their probabilities.
        ended: Whether the answer is complete.
    """

    text: list[int]
    answer: list[int] = field(default_factory=list)
    logarithm: float = 0.0
    ended: bool = False


class DonutResponder:
    """A network that answers queries, common to audited checkpoints and models under training.

    The answer is written greedily after the prompt, up to ``</s_answer>`` or ``</s>``, or until prompt and
    answer fill the decoder's places; the unknown piece is never chosen, as in Donut's own inference. Its confidence
    is the product of the probabilities of its tokens, the end left out. The loss is the mean cross-entropy of the
    first accepted answer, ``</s_answer>`` and ``</s>``, both ends counted.

    Args:
        loaded: The network with its settings, put into evaluation mode.
    """

    def __init__(self, loaded: LoadedDonut, device: str = "cpu") -> None:
        keep_freed_memory()
        self.network = loaded.network.to(device).eval()
        self.config, self._pixels = loaded.config, loaded.pixels
        self.inputs = InputBuilder(loaded.config, loaded.tokenizer, loaded.pixels)
        self._visual_tokens = loaded.config.visual_tokens(loaded.pixels.page)
        self._device = device
        self._features: dict[str, Tensor] = {}

    def forget_pages(self) -> None:
        """Drop the features of pages, as the network that made them changes."""
        self._features.clear()

    def cost(self, query: Query) -> int:
        """Tokens of the page and of the prompt."""
        return self._visual_tokens + len(self.inputs.prompt(query.question))

    def batch_size(self, cost: int) -> int:
        """Largest batch within a fixed number of bytes: scores of one layer, keys and values of all, logits."""
        decoder, longest = self.config.decoder, self.config.longest
        scores = int(decoder.decoder_attention_heads) * cost * longest
        kept = 2 * int(decoder.decoder_layers) * int(decoder.d_model) * cost
        return max(1, min(_MAX_BATCH, _BATCH_BYTES // (4 * (scores + kept + longest * int(decoder.vocab_size)))))

    @torch.inference_mode()
    def respond(self, queries: Sequence[Query]) -> list[Response]:
        """Answer a batch; the response to a query does not depend on the others.

        Raises:
            UnanswerableError: A page's image cannot be read.
            AuditError: The model computes NaN or infinite losses.
        """
        if not queries:
            return []
        pages = self._page_features([query.document for query in queries])
        written = self._write([self.inputs.prompt(query.question) for query in queries], pages)
        scores = self._scores([self.inputs.query(query) for query in queries], pages)
        if not all(isfinite(some.logarithm) for some in written):
            raise AuditError("the model computes NaN or infinite losses", "Check how it was exported")
        return [
            Response(self.inputs.tokenizer.decode(some.answer), exp(some.logarithm), score.loss, score.tokens)
            for some, score in zip(written, scores, strict=True)
        ]

    @torch.inference_mode()
    def candidate_losses(self, query: Query, values: Sequence[str]) -> list[Score]:
        """Losses of several answers to one question; the page is encoded once."""
        page = self._page_features([query.document])
        examples = [self.inputs.example(query.question, value) for value in values]
        return self._scores(examples, page.expand(len(examples), -1, -1))

    def logits(self, texts: Sequence[Mapping[str, Tensor]], pages: Tensor) -> tuple[Tensor, Tensor]:
        """Logits, float (batch, tokens, vocabulary), and labels, int64 (batch, tokens).

        Args:
            texts: ``Example.tensors`` of each, padded on the right, which causal attention ignores.
            pages: Encoder features of the pages, float (batch, visual tokens, d_model).
        """
        ids, labels = (
            pad_sequence([text[name] for text in texts], batch_first=True, padding_value=filler).to(pages.device)
            for name, filler in (("decoder_input_ids", int(self.config.decoder.pad_token_id)), ("labels", IGNORED))
        )
        return self.network.decoder(input_ids=ids, encoder_hidden_states=pages, use_cache=False).logits, labels

    def losses(self, texts: Sequence[Mapping[str, Tensor]], pages: Tensor) -> tuple[Tensor, Tensor]:
        """Mean cross-entropy of each text's labels, float (batch,), and their number, int64 (batch,)."""
        logits, labels = self.logits(texts, pages)
        losses = functional.cross_entropy(logits.transpose(1, 2), labels, ignore_index=IGNORED, reduction="none")
        tokens = (labels != IGNORED).sum(dim=1)
        return losses.sum(dim=1) / tokens, tokens

    def _scores(self, examples: Sequence[Example], pages: Tensor) -> list[Score]:
        losses, tokens = self.losses([example.tensors() for example in examples], pages)
        if not bool(torch.isfinite(losses).all()):
            raise AuditError("the model computes NaN or infinite losses", "Check how it was exported")
        return [Score(loss, count) for loss, count in zip(losses.tolist(), tokens.tolist(), strict=True)]

    def _write(self, prompts: Sequence[Sequence[int]], pages: Tensor) -> list[_Writing]:
        """Generate answers greedily.

        All rows advance by one position together; rows with longer prompts still take their own tokens. So nothing is
        padded, and no row depends on the others.
        """
        rows = [_Writing(list(prompt)) for prompt in prompts]
        done, place = 0, min(map(len, prompts))
        cache = None
        while place < self.config.longest and not all(row.ended for row in rows):
            step = torch.tensor([row.text[done:place] for row in rows], device=self._device)
            out = self.network.decoder(
                input_ids=step, encoder_hidden_states=pages, past_key_values=cache, use_cache=True, logits_to_keep=1
            )
            cache = out.past_key_values
            self._choose(rows, out.logits[:, -1].double().log_softmax(dim=-1).cpu(), place)
            done, place = place, place + 1
        return rows

    def _choose(self, rows: Sequence[_Writing], logarithms: Tensor, place: int) -> None:
        """Append the likeliest token to every row that has none at ``place``."""
        tokenizer = self.inputs.tokenizer
        end = tokenizer.id(EOS)
        allowed = logarithms.clone()
        allowed[:, tokenizer.id(UNK)] = -torch.inf
        for row, token, logarithm in zip(rows, allowed.argmax(dim=-1).tolist(), logarithms, strict=True):
            if len(row.text) > place:
                continue
            row.ended = row.ended or token in (end, tokenizer.id(END_ANSWER))
            row.text.append(end if row.ended else token)
            if not row.ended:
                row.answer.append(token)
                row.logarithm += float(logarithm[token])

    def _page_features(self, documents: Sequence[Document]) -> Tensor:
        """Encoder features of the pages, float (batch, visual tokens, d_model).

        Pages go through the encoder one by one, each once; those of the last batch are kept for the next, which
        may ask more about them.
        """
        names = [document.image.digest if document.image else "" for document in documents]
        features: dict[str, Tensor] = {}
        for name, document in zip(names, documents, strict=True):
            if name not in features:
                known = self._features.get(name)
                features[name] = known if known is not None else self._look(document)
        self._features = features
        return torch.stack([features[name] for name in names])

    def _look(self, document: Document) -> Tensor:
        return page_features(self.network, self.inputs.pixels(document)[None].to(self._device))[0]


class DonutModel(DonutResponder, OpenedCheckpoint):
    """A Donut checkpoint on disk, ready to be audited."""

    family = "donut"
    capabilities = QUESTIONS

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
