"""A model of transformers' auto classes as a DocumentModel."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import exp
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pfl_audit.documents.document import Document, Query
from pfl_audit.errors import AuditError
from pfl_audit.models.auto.batch import SEQUENCES, collate, groups
from pfl_audit.models.auto.inputs import INPUTS, Tensors, TextInputs
from pfl_audit.models.auto.load import LONGEST_ANSWER, load_auto
from pfl_audit.models.device import in_double
from pfl_audit.models.memory import keep_freed_memory
from pfl_audit.models.opened import OpenedCheckpoint
from pfl_audit.models.protocol import QUESTIONS, Capability, Guess, Response, Score, sorted_guesses
from pfl_audit.models.samples import require_finite_losses

ADAPTER_VERSION = 2
"""Incremented whenever the adapter's results change, so that stored answers are not reused."""

_BATCH_BYTES = 256 << 20
_MAX_BATCH = 64


class AutoModel(OpenedCheckpoint):
    """A checkpoint that transformers' auto classes open, ready to be audited.

    The answer is that of greedy ``generate``, at most LONGEST_ANSWER tokens; of a text model without turns its first
    line. Its confidence is the product of the probabilities of its tokens, special tokens left out. The loss is the
    mean cross-entropy of the first accepted answer and the end of sequence.

    Args:
        folder: Checkpoint, or LoRA adapter.
        prompt: Template with {question}, or None for the default of the kind.
    """

    capabilities = QUESTIONS | {Capability.GUESSES}

    def __init__(self, folder: Path, device: str = "cpu", prompt: str | None = None) -> None:
        keep_freed_memory()
        loaded = load_auto(folder)
        template = prompt or loaded.kind.prompt
        self.family = loaded.kind.name
        self.network = loaded.network.to(device)
        self.kind, self.tokenizer, self._device = loaded.kind, loaded.tokenizer, device
        self.inputs: TextInputs = INPUTS[loaded.kind.inputs](loaded, template)
        self._keeps_logits = "logits_to_keep" in inspect.signature(self.network.forward).parameters
        notes = (
            f"{type(self.network).__name__}, asked through {loaded.kind.auto}",
            f"prompt: {template}",
            f"chat template: {'used' if loaded.turn else 'none'}",
            f"input: {self.inputs.longest} tokens at most; answer: {LONGEST_ANSWER} tokens at most",
            *loaded.notes,
        )
        self.identify(folder, loaded.files, ADAPTER_VERSION, notes, template)

    def prepare(self, documents: Sequence[Document]) -> None:
        """As of PreparingModel."""
        self.inputs.pages.prepare(documents if self.inputs.sees else ())

    def cost(self, query: Query) -> int:
        """Tokens of the input, those of the page image included."""
        return self.inputs.cost(query)

    def batch_size(self, cost: int) -> int:
        """Largest batch within a fixed number of bytes: scores of one layer, and logits of the answer."""
        config = self.network.config.get_text_config()
        heads: Any = getattr(config, "num_attention_heads", None) or getattr(config, "num_heads", 16)
        scores = int(heads) * cost * cost
        per_query = 4 * (scores + LONGEST_ANSWER * int(config.vocab_size))
        return max(1, min(_MAX_BATCH, _BATCH_BYTES // per_query))

    def respond(self, queries: Sequence[Query]) -> list[Response]:
        """Answer a batch; the response to a query does not depend on the others.

        Raises:
            UnanswerableError: A page's image cannot be read, or a question does not fit.
            AuditError: The model fails, or computes NaN or infinite losses.
        """
        built = [self.inputs.build(query) for query in queries]
        targets = [self._target(query, query.answers[0]) for query in queries]
        responses: dict[int, Response] = {}
        for rows in groups(built) if self.kind.batched else [[row] for row in range(len(built))]:
            some = [built[row] for row in rows]
            scores = self._scores(some, [targets[row] for row in rows])
            for row, (answer, confidence), score in zip(rows, self._generate(some), scores, strict=True):
                responses[row] = score.response(answer, confidence)
        return [responses[row] for row in range(len(queries))]

    def candidate_losses(self, query: Query, values: Sequence[str]) -> list[Score]:
        """Losses of several answers to one question."""
        built, size = self.inputs.build(query), self.batch_size(self.cost(query))
        targets = [self._target(query, value) for value in values]
        parts = [targets[at : at + size] for at in range(0, len(targets), size)]
        return [score for part in parts for score in self._scores([built] * len(part), part)]

    def guess(self, queries: Sequence[Query], width: int) -> list[list[Guess]]:
        """The likeliest answers to each question, one question at a time, by the beam search of transformers."""
        return [self._guess(query, width) for query in queries]

    def _guess(self, query: Query, width: int) -> list[Guess]:
        built = self.inputs.build(query)
        with self._running():
            out = self.network.generate(
                **self._placed(collate([built], self._pad, left=not self.inputs.encoder_decoder)),
                num_beams=width,
                num_return_sequences=width,
                do_sample=False,
            )
        start = 1 if self.inputs.encoder_decoder else built["input_ids"].shape[1]
        texts = list(dict.fromkeys(self._read(ids, ())[0] for ids in out[:, start:].tolist()))
        return sorted_guesses(texts, self.candidate_losses(query, texts))

    def _target(self, query: Query, value: str) -> list[int]:
        return self.inputs.answer(value, self.inputs.prompt(query))

    def _generate(self, built: Sequence[Tensors]) -> list[tuple[str, float]]:
        """Greedy answers, and the product of the probabilities of their tokens."""
        batch = collate(built, self._pad, left=not self.inputs.encoder_decoder)
        with self._running():
            out = self.network.generate(**self._placed(batch), return_dict_in_generate=True, output_logits=True)
        logits = torch.stack([step.float() for step in out.logits], dim=1)
        emitted = out.sequences[:, -logits.shape[1] :]
        chosen = in_double(logits.log_softmax(dim=-1).gather(2, emitted[:, :, None])[:, :, 0])
        return [self._read(ids, logs) for ids, logs in zip(emitted.tolist(), chosen.tolist(), strict=True)]

    def _read(self, ids: Sequence[int], logarithms: Sequence[float]) -> tuple[str, float]:
        """Answer and confidence of generated tokens."""
        ends = self.network.generation_config.eos_token_id
        ends = set(ends if isinstance(ends, list) else [ends])
        stop = next((place for place, token in enumerate(ids) if token in ends), len(ids))
        ids = ids[:stop]
        text = self._decode(ids).lstrip()
        if self.kind.first_line and text:
            text = text.partition("\n")[0]
            count = next((n for n in range(len(ids)) if self._decode(ids[:n]).lstrip().startswith(text)), len(ids))
            ids = ids[:count]  # a token may hold the end of the line and more
        special = set(self.tokenizer.all_special_ids)
        logarithm = sum(log for token, log in zip(ids, logarithms, strict=False) if token not in special)
        return text.strip(), exp(logarithm)

    def _decode(self, ids: Sequence[int]) -> str:
        return str(self.tokenizer.decode(ids, skip_special_tokens=True))

    def _scores(self, built: Sequence[Tensors], targets: Sequence[list[int]]) -> list[Score]:
        """Mean cross-entropy of each target."""
        logits = self._decoded(built, targets) if self.inputs.encoder_decoder else self._continued(built, targets)
        scores = []
        for row, target in zip(logits, targets, strict=True):
            losses = -row.double().log_softmax(dim=-1)[torch.arange(len(target)), torch.tensor(target)]
            require_finite_losses(bool(torch.isfinite(losses).all()))
            scores.append(Score(float(losses.mean()), len(target), tuple(losses.float().tolist())))
        return scores

    def _decoded(self, built: Sequence[Tensors], targets: Sequence[list[int]]) -> list[Tensor]:
        """Logits of a decoder at the tokens of each target, float (tokens, vocabulary)."""
        batch = collate(built, self._pad, left=False)
        labels = torch.full((len(targets), max(map(len, targets))), self._pad)
        for row, target in zip(labels, targets, strict=True):
            row[: len(target)] = torch.tensor(target)
        with self._running():
            logits = self.network(**self._placed({**batch, "labels": labels})).logits
        return [row[: len(target)].float().cpu() for row, target in zip(logits, targets, strict=True)]

    def _continued(self, built: Sequence[Tensors], targets: Sequence[list[int]]) -> list[Tensor]:
        """Logits at the tokens that follow each input, float (tokens, vocabulary)."""
        whole = [self._appended(one, target) for one, target in zip(built, targets, strict=True)]
        batch = collate(whole, self._pad, left=False)
        starts = [one["input_ids"].shape[1] - 1 for one in built]
        length = batch["input_ids"].shape[1]
        kept = {"logits_to_keep": length - min(starts)} if self._keeps_logits else {}
        with self._running():
            logits = self.network(**self._placed(batch), use_cache=False, **kept).logits
        left = length - logits.shape[1]
        return [
            row[start - left : start - left + len(target)].float().cpu()
            for row, start, target in zip(logits, starts, targets, strict=True)
        ]

    def _appended(self, inputs: Tensors, target: list[int]) -> Tensors:
        """Inputs with the target after the prompt; its last token needs no logits and is left out."""
        ids = torch.tensor([target[:-1]], dtype=torch.int64)
        values = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
        values["token_type_ids"] = torch.full_like(ids, self.kind.answer_type)
        return {
            name: torch.cat([tensor, values.get(name, torch.zeros_like(ids))], dim=1) if name in SEQUENCES else tensor
            for name, tensor in inputs.items()
        }

    @property
    def _pad(self) -> int:
        pad = self.network.config.get_text_config().pad_token_id
        return next((int(one) for one in (self.tokenizer.pad_token_id, pad) if isinstance(one, int)), 0)

    def _placed(self, batch: Tensors) -> dict[str, Any]:
        return {name: tensor.to(self._device) for name, tensor in batch.items()}

    @contextmanager
    def _running(self) -> Iterator[None]:
        """Inference; what the network raises becomes an error without its text, which may quote the page."""
        try:
            with torch.inference_mode():
                yield
        except (RuntimeError, ValueError, TypeError, IndexError, KeyError, AttributeError) as error:
            raise AuditError(
                f"the model fails on a question ({type(error).__name__})",
                "Check that processor and weights belong together, or use --device cpu",
            ) from error
