"""Fields to scrub, and models whose every word is known."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from pfl_audit.documents.document import Document
from pfl_audit.documents.forms.form import Field, Form
from pfl_audit.models.encoders.kinds import FormTask
from pfl_audit.models.form_protocol import Attempt, Blank, TokenSpan, Window
from pfl_audit.models.protocol import Capability

VOCABULARY = tuple(f"t{number}" for number in range(40))
SPECIAL = 3
"""Tokens that no filling may contain: the first ones, of which 0 is the mask."""

Says = Callable[[Attempt], Any]


def blank(form: str, field: str, length: int) -> Blank:
    """A field of a page of words, one token a word, after one that stays."""
    words = tuple(f"w{number}" for number in range(length + 2))
    boxes = np.tile(np.array([0.1, 0.1, 0.2, 0.2], np.float32), (len(words), 1))
    own = Field(field, "answer", 1, 1 + length)
    ids = np.array([SPECIAL, *[0] * length, SPECIAL], dtype=np.int64)
    span = TokenSpan(own, 1, 1 + length)
    page = Form(Document(form, "", words, boxes), (own,))
    return Blank(Window(page, 0, ids, boxes, np.arange(len(words)), (span,)), span, boxes[1 : 1 + length])


def name(attempt: Attempt) -> tuple[str, str]:
    return attempt.blank.window.form.id, attempt.blank.span.field.id


def chance(seed: object, attempt: Attempt) -> np.random.Generator:
    """Noise that belongs to one attempt, whoever else is asked."""
    said = json.dumps([seed, *name(attempt), attempt.tokens])
    return np.random.default_rng(int.from_bytes(hashlib.sha256(said.encode()).digest()[:8], "little"))


def uniform(seed: object, attempt: Attempt) -> float:
    """A number from 0 to 1 that belongs to one attempt: a generator for each takes ten times as long."""
    said = repr((seed, name(attempt), attempt.tokens))
    return int.from_bytes(hashlib.blake2b(said.encode(), digest_size=6).digest()) / 2**48


def noise(seed: object, scale: float = 1.0) -> Says:
    """Logits of noise."""

    def says(attempt: Attempt) -> np.ndarray:
        logits = chance(seed, attempt).normal(scale=scale, size=len(VOCABULARY)).astype(np.float32)
        logits[:SPECIAL] = -np.inf
        return logits

    return says


def knows(truths: dict[tuple[str, str], tuple[int, ...]], seed: object, gain: float, scale: float = 1.0) -> Says:
    """Logits of noise, with a gain on the right token."""
    base = noise(seed, scale)

    def says(attempt: Attempt) -> np.ndarray:
        logits = base(attempt)
        truth = truths.get(name(attempt))
        if truth is not None and truth[: len(attempt.tokens)] == attempt.tokens:
            logits[truth[len(attempt.tokens)]] += gain
        return logits

    return says


def loses(truths: dict[tuple[str, str], tuple[int, ...]], seed: object) -> Says:
    """Losses of noise, ten times lower on the true value."""

    def says(attempt: Attempt) -> float:
        loss = 0.8 + 0.4 * uniform(seed, attempt)
        truth = truths.get(name(attempt))
        return loss / 10 if truth is not None and truth[: len(attempt.tokens)] == attempt.tokens else loss

    return says


class Fake:
    """A FormModel that says what a function says."""

    family = "fake"
    sees_page = False

    def __init__(
        self,
        fingerprint: str,
        *,
        logits: Says | None = None,
        losses: Says | None = None,
        estimates: bool = False,
        task: FormTask = "mlm",
        vocabulary: tuple[str, ...] = VOCABULARY,
    ) -> None:
        self.fingerprint = fingerprint
        self.task: FormTask = task
        self.vocabulary = vocabulary
        self.capabilities = frozenset(
            ({Capability.TOKENS} if logits else set())
            | ({Capability.FORM_LOSS} if losses else set())
            | ({Capability.LOSS_ESTIMATES} if estimates else set())
        )
        self.asked: list[tuple[tuple[str, str], tuple[int, ...]]] = []
        self.calls = 0
        self._logits, self._losses = logits, losses

    def require_labels(self, labels: Collection[str]) -> tuple[str, ...]:
        return ()

    def describe(self) -> dict[str, Any]:
        return {}

    def blanks(self, form: Form) -> list[tuple[Blank, tuple[int, ...]]]:
        return []

    def token_logits(self, attempts: Sequence[Attempt]) -> np.ndarray:
        assert self._logits is not None
        self._note(attempts)
        return np.stack([self._logits(attempt) for attempt in attempts])

    def losses(self, attempts: Sequence[Attempt]) -> np.ndarray:
        assert self._losses is not None
        self._note(attempts)
        return np.array([self._losses(attempt) for attempt in attempts])

    def estimated_losses(self, attempts: Sequence[Attempt]) -> np.ndarray:
        """The losses themselves."""
        assert self._losses is not None
        found = np.full((len(attempts), len(self.vocabulary)), np.inf, dtype=np.float32)
        for row, one in enumerate(attempts):
            for token in range(SPECIAL, len(self.vocabulary)):
                found[row, token] = self._losses(Attempt(one.blank, (*one.tokens, token)))
        return found

    def _note(self, attempts: Sequence[Attempt]) -> None:
        self.calls += 1
        self.asked += [(name(attempt), attempt.tokens) for attempt in attempts]


class Memory(dict[str, Any]):
    """A Keep that forgets nothing, and speaks JSON."""

    def get(self, key: str) -> Any:  # type: ignore[override]
        return json.loads(super().get(key, "null"))

    def put(self, key: str, value: dict[str, Any]) -> None:
        self[key] = json.dumps(value, allow_nan=False)


def fields(documents: int, each: int, rng: np.random.Generator, prefix: str = "form") -> dict[Any, tuple[int, ...]]:
    """Names to random values of 3 to 6 tokens."""
    return {
        (f"{prefix} {page}", f"field {number}"): tuple(
            int(token) for token in rng.integers(SPECIAL, len(VOCABULARY), size=rng.integers(3, 7))
        )
        for page in range(documents)
        for number in range(each)
    }
