"""A Donut's network at work: pages are encoded once each, token sequences are written greedily and scored."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from transformers import DynamicCache, EncoderDecoderCache, GenerationConfig

from pfl_audit.documents.document import Document
from pfl_audit.models.device import in_double
from pfl_audit.models.donut.checkpoint import LoadedDonut
from pfl_audit.models.donut.inputs import Example
from pfl_audit.models.donut.network import page_features
from pfl_audit.models.donut.tokenizer import EOS, UNK
from pfl_audit.models.memory import keep_freed_memory
from pfl_audit.models.pages_ahead import PagesAhead, page_name
from pfl_audit.models.protocol import Score
from pfl_audit.models.samples import IGNORED, as_scores, mean_losses

_BATCH_BYTES = 512 << 20
_MAX_BATCH = 128


@dataclass
class Writing:
    """A sequence that is being generated.

    Attributes:
        text: Tokens generated so far, with the prompt first.
        answer: Tokens generated so far, without an end.
        logarithms: Logarithms of the probabilities of ``answer``.
        ended: Whether an end was generated.
    """

    text: list[int]
    answer: list[int] = field(default_factory=list)
    logarithms: list[float] = field(default_factory=list)
    ended: bool = False


class DonutWriter:
    """A network that writes after prompts, common to all that a Donut is trained for.

    Args:
        loaded: The network with its settings, put into evaluation mode.
    """

    def __init__(self, loaded: LoadedDonut, device: str = "cpu") -> None:
        keep_freed_memory()
        self.network = loaded.network.to(device).eval()
        self.config, self._pixels = loaded.config, loaded.pixels
        self._page_pixels = PagesAhead(loaded.pixels.of_document, 12 * prod(loaded.pixels.page))
        self._tokenizer = loaded.tokenizer
        self._visual_tokens = loaded.config.visual_tokens(loaded.pixels.page)
        self.network.decoder.generation_config = GenerationConfig()  # MBart's own forces an end
        self._device = device
        self._features: dict[str, Tensor] = {}

    def prepare(self, documents: Sequence[Document]) -> None:
        """As of PreparingModel."""
        self._page_pixels.prepare([document for document in documents if page_name(document) not in self._features])

    def forget_pages(self) -> None:
        """Drop the features of pages, as the network that made them changes."""
        self._features.clear()

    def batch_size(self, cost: int) -> int:
        """Largest batch within a fixed number of bytes: scores of one layer, keys and values of all, logits."""
        decoder, longest = self.config.decoder, self.config.longest
        scores = int(decoder.decoder_attention_heads) * cost * longest
        kept = 2 * int(decoder.decoder_layers) * int(decoder.d_model) * cost
        return max(1, min(_MAX_BATCH, _BATCH_BYTES // (4 * (scores + kept + longest * int(decoder.vocab_size)))))

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
        return mean_losses(*self.logits(texts, pages))

    def scores(self, examples: Sequence[Example], pages: Tensor) -> list[Score]:
        """Losses of examples.

        Raises:
            AuditError: The model computes NaN or infinite losses.
        """
        return as_scores(*self.logits([example.tensors() for example in examples], pages))

    def write(self, prompts: Sequence[Sequence[int]], pages: Tensor, ends: Collection[int] = ()) -> list[Writing]:
        """Generate greedily up to an end, or until every position is filled; the unknown piece is never chosen.

        All rows advance by one position together; rows with longer prompts still take their own tokens. So nothing is
        padded, and no row depends on the others.

        Args:
            ends: Tokens that end a sequence beside ``</s>``.
        """
        rows = [Writing(list(prompt)) for prompt in prompts]
        done, place = 0, min(map(len, prompts))
        cache = None
        while place < self.config.longest and not all(row.ended for row in rows):
            step = torch.tensor([row.text[done:place] for row in rows], device=self._device)
            out = self.network.decoder(
                input_ids=step, encoder_hidden_states=pages, past_key_values=cache, use_cache=True, logits_to_keep=1
            )
            cache = out.past_key_values
            self._choose(rows, ends, in_double(out.logits[:, -1]).log_softmax(dim=-1).cpu(), place)
            done, place = place, place + 1
        return rows

    def likeliest(self, prompt: Sequence[int], page: Tensor, width: int, end: int) -> list[list[int]]:
        """The likeliest continuations of a prompt by transformers' beam search; the unknown piece is never chosen.

        Args:
            page: Encoder features, float (1, visual tokens, d_model).
            width: Number of beams, and of continuations.
            end: Token that ends a sequence beside ``</s>``.
        """
        found = self.network.decoder.generate(
            torch.tensor([list(prompt)], device=self._device),
            encoder_hidden_states=page,
            past_key_values=EncoderDecoderCache(DynamicCache(), DynamicCache()),
            do_sample=False,
            num_beams=width,
            num_return_sequences=width,
            max_length=self.config.longest,
            eos_token_id=[end, self._tokenizer.id(EOS)],
            pad_token_id=int(self.config.decoder.pad_token_id),
            suppress_tokens=[self._tokenizer.id(UNK)],
        )
        return found[:, len(prompt) :].tolist()

    def _choose(self, rows: Sequence[Writing], ends: Collection[int], logarithms: Tensor, place: int) -> None:
        """Append the likeliest token to every row that has none at ``place``."""
        end = self._tokenizer.id(EOS)
        allowed = logarithms.clone()
        allowed[:, self._tokenizer.id(UNK)] = -torch.inf
        for row, token, logarithm in zip(rows, allowed.argmax(dim=-1).tolist(), logarithms, strict=True):
            if len(row.text) > place:
                continue
            row.ended = row.ended or token == end or token in ends
            row.text.append(end if row.ended else token)
            if not row.ended:
                row.answer.append(token)
                row.logarithms.append(float(logarithm[token]))

    def encoded_pages(self, documents: Sequence[Document]) -> Tensor:
        """Encoder features of the pages, float (batch, visual tokens, d_model).

        Pages go through the encoder one by one, each once; those of the last batch are kept for the next, which
        may ask more about them.
        """
        names = [page_name(document) for document in documents]
        features: dict[str, Tensor] = {}
        for name, document in zip(names, documents, strict=True):
            if name not in features:
                known = self._features.get(name)
                features[name] = known if known is not None else self._look(document)
        self._features = features
        return torch.stack([features[name] for name in names])

    def _look(self, document: Document) -> Tensor:
        return page_features(self.network, self._page_pixels(document)[None].to(self._device))[0]
