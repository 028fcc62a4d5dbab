"""VT5 as a DocumentModel: one pass through the encoder gives answer, confidence and loss."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from transformers import DynamicCache, EncoderDecoderCache
from transformers.modeling_outputs import BaseModelOutput

from pfl_audit.documents.document import Document, Query
from pfl_audit.files import sha256_json
from pfl_audit.models.memory import keep_freed_memory
from pfl_audit.models.opened import OpenedCheckpoint
from pfl_audit.models.pages_ahead import PagesAhead, page_name
from pfl_audit.models.protocol import QUESTIONS, Capability, Guess, Response, Score, sorted_guesses
from pfl_audit.models.samples import as_scores
from pfl_audit.models.vt5.checkpoint import load_vt5
from pfl_audit.models.vt5.inputs import InputBuilder, collate, collate_labels
from pfl_audit.models.vt5.modeling import Vt5
from pfl_audit.models.vt5.packed import can_encode, encode
from pfl_audit.models.vt5.tokenizer import EOS, PAD, Tokenizer
from pfl_audit.models.weights import fingerprint_files

ADAPTER_VERSION = 2
"""Incremented whenever the adapter's results change, so that stored answers are not reused."""

_ATTENTION_BYTES = 192 << 20
_MAX_BATCH = 128
_FEATURE_BYTES = 512 << 20


class Vt5Responder:
    """A network that answers queries, common to audited checkpoints and models under training.

    Args:
        network: Is put into evaluation mode.
    """

    def __init__(self, network: Vt5, tokenizer: Tokenizer, device: str = "cpu") -> None:
        keep_freed_memory()
        self.network = network.to(device).eval()
        self.inputs = InputBuilder(network.config, tokenizer)
        self._device = device
        self._features: OrderedDict[str, Tensor] = OrderedDict()
        self._page_pixels = PagesAhead(self.inputs.pixels, 12 * int(network.config.visual.image_size) ** 2)

    def prepare(self, documents: Sequence[Document]) -> None:
        """As of PreparingModel."""
        self._page_pixels.prepare([document for document in documents if page_name(document) not in self._features])

    def forget_pages(self) -> None:
        """Drop the features of pages, as the network that made them changes."""
        self._features.clear()

    def cost(self, query: Query) -> int:
        """Tokens of text and page."""
        return len(self.inputs.text(query).ids) + self.network.config.visual_tokens

    def batch_size(self, cost: int) -> int:
        """Largest batch that keeps the attention scores of one layer below a fixed number of bytes."""
        per_query = int(self.network.config.text.num_heads) * cost * cost * 4
        return max(1, min(_MAX_BATCH, _ATTENTION_BYTES // per_query))

    @torch.inference_mode()
    def respond(self, queries: Sequence[Query]) -> list[Response]:
        """Answer a batch; the response to a query does not depend on the others."""
        encoded, mask = self._encode(queries)
        answers, confidences, cache = self._generate(encoded, mask)
        scores = self._scores(encoded, mask, [query.answers[0] for query in queries], cache)
        return [
            score.response(answer, confidence)
            for answer, confidence, score in zip(answers, confidences, scores, strict=True)
        ]

    @torch.inference_mode()
    def candidate_losses(self, query: Query, values: Sequence[str]) -> list[Score]:
        """Losses of several answers to one question; the page is encoded once."""
        encoded, mask = self._encode([query])
        state = encoded.last_hidden_state.expand(len(values), -1, -1)
        cache = EncoderDecoderCache(DynamicCache(), DynamicCache())
        start = torch.tensor([[PAD]], device=self._device)
        self.network.language_backbone(
            encoder_outputs=encoded, attention_mask=mask, decoder_input_ids=start, past_key_values=cache
        )
        for layer in cache.cross_attention_cache.layers:
            layer.keys, layer.values = (kept.expand(len(values), -1, -1, -1) for kept in (layer.keys, layer.values))
        return self._scores(BaseModelOutput(last_hidden_state=state), mask.expand(len(values), -1), values, cache)

    @torch.inference_mode()
    def dropout_losses(self, query: Query, values: Sequence[str]) -> list[Score]:
        """As of DropoutModel; the page's encoder drops layers too, so its features are computed for each answer."""
        text = collate([self.inputs.text(query)]).to(self._device)
        pixels = self._page_pixels(query.document)[None].to(self._device)
        scores, cuda = [], [torch.device(self._device)] if torch.device(self._device).type == "cuda" else []
        self.network.train()
        try:
            for value in values:
                with torch.random.fork_rng(devices=cuda):
                    torch.manual_seed(int(sha256_json([query.document.digest, query.question, value])[:15], 16))
                    embeddings, mask = self.network.embed(text, self.network.visual_embedding.encode(pixels))
                    encoded = self.network.language_backbone.encoder(inputs_embeds=embeddings, attention_mask=mask)
                    empty = EncoderDecoderCache(DynamicCache(), DynamicCache())
                    scores += self._scores(encoded, mask, [value], empty)
        finally:
            self.network.eval()
        return scores

    @torch.inference_mode()
    def guess(self, queries: Sequence[Query], width: int) -> list[list[Guess]]:
        """The likeliest answers to each question; the page is encoded once."""
        encoded, mask = self._encode(queries)
        states, found = encoded.last_hidden_state, list[list[Guess]]()
        rows = self._search(states, mask, num_beams=width, num_return_sequences=width, suppress_tokens=[PAD])[:, 1:]
        for some, state, seen in zip(rows.unflatten(0, (len(queries), width)).tolist(), states, mask, strict=True):
            texts = list(dict.fromkeys(self.inputs.tokenizer.decode(row) for row in some))
            page = BaseModelOutput(last_hidden_state=state.expand(len(texts), -1, -1))
            empty = EncoderDecoderCache(DynamicCache(), DynamicCache())
            found.append(sorted_guesses(texts, self._scores(page, seen.expand(len(texts), -1), texts, empty)))
        return found

    def _encode(self, queries: Sequence[Query]) -> tuple[BaseModelOutput, Tensor]:
        """The encoder's output, (batch, tokens, width), and its mask, int64 (batch, tokens)."""
        texts = [self.inputs.text(query) for query in queries]
        features = self._page_features([query.document for query in queries])
        if can_encode(self.network):
            ids, boxes = [torch.from_numpy(one.ids) for one in texts], [torch.from_numpy(one.boxes) for one in texts]
            rows = encode(self.network, ids, boxes, features)
            mask = pad_sequence([torch.ones(len(row), dtype=torch.int64) for row in rows], batch_first=True)
            return BaseModelOutput(last_hidden_state=pad_sequence(rows, batch_first=True)), mask
        text = collate(texts)
        embeddings, mask = self.network.embed(text.to(self._device), features)
        return self.network.language_backbone.encoder(inputs_embeds=embeddings, attention_mask=mask), mask

    def _scores(
        self, encoded: BaseModelOutput, mask: Tensor, values: Sequence[str], cache: EncoderDecoderCache
    ) -> list[Score]:
        """The loss of one answer to each row of the encoder's output; ``cache`` has its cross-attention."""
        labels = collate_labels([self.inputs.answer(value) for value in values]).to(self._device)
        logits = self.network.language_backbone(
            encoder_outputs=encoded,
            attention_mask=mask,
            labels=labels,
            past_key_values=EncoderDecoderCache(DynamicCache(), cache.cross_attention_cache),
        ).logits
        return as_scores(logits, labels)

    def _generate(self, encoded: BaseModelOutput, mask: Tensor) -> tuple[list[str], list[float], EncoderDecoderCache]:
        """Greedy answers, the product of their tokens' probabilities (end and padding left out), and the cache."""
        out = self._search(encoded.last_hidden_state, mask, return_dict_in_generate=True, output_logits=True)
        steps = torch.stack(out.logits, dim=1).float().log_softmax(dim=-1).amax(dim=-1)
        emitted = out.sequences[:, 1:]
        spoken = (emitted != PAD) & (emitted != EOS)
        confidence = (steps * spoken).sum(dim=1).exp()
        answers = [self.inputs.tokenizer.decode(row) for row in emitted.tolist()]
        return answers, confidence.tolist(), out.past_key_values

    def _search(self, states: Tensor, mask: Tensor, **options: Any) -> Any:
        """Output of transformers' ``generate`` for the encoder's output, without sampling."""
        return self.network.language_backbone.generate(
            encoder_outputs=BaseModelOutput(last_hidden_state=states),
            attention_mask=mask,
            do_sample=False,
            max_length=self.network.config.max_answer_tokens,
            decoder_start_token_id=PAD,
            eos_token_id=EOS,
            pad_token_id=PAD,
            **{"num_beams": 1, **options},
        )

    def _page_features(self, documents: Sequence[Document]) -> Tensor:
        """DiT features of the pages, each page encoded once, float (batch, patches + 1, DiT width)."""
        names = [page_name(document) for document in documents]
        new = {name: document for name, document in zip(names, documents, strict=True) if name not in self._features}
        if new:
            pixels = torch.stack([self._page_pixels(document) for document in new.values()])
            features = self.network.visual_embedding.encode(pixels.to(self._device))
            self._features.update(zip(new, features, strict=True))
        stacked = torch.stack([self._features[name] for name in names])
        for name in names:
            self._features.move_to_end(name)
        while len(self._features) * stacked[0].nbytes > _FEATURE_BYTES:
            self._features.popitem(last=False)
        return stacked


class Vt5Model(Vt5Responder, OpenedCheckpoint):
    """A VT5 checkpoint on disk, ready to be audited."""

    family = "vt5"
    capabilities = QUESTIONS | {Capability.GUESSES}

    def __init__(self, folder: Path, device: str = "cpu") -> None:
        loaded = load_vt5(folder)
        super().__init__(loaded.network, loaded.tokenizer, device)
        self.identify(folder, fingerprint_files(folder), ADAPTER_VERSION, loaded.notes)
