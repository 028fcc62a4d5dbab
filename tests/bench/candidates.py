"""Candidates that reconstruction evaluates a second: python -m tests.bench.candidates.

An encoder of 12 layers of 768 with random weights and an EE-BIO head, asked for the losses of 32 fillings of one field
of an embedded form. Beside it a fair loop, which is what a competent user writes (inference mode, one batch, logits
of every token), and the rate of bare matrix products on the same core. The share is the least that the encoder's
products take, over the time: what is left to gain without evaluating less.
"""

from __future__ import annotations

import statistics
import time
from importlib import resources
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional

from pfl_audit.documents.forms.readers import open_forms
from pfl_audit.models.encoders.batch import collate
from pfl_audit.models.encoders.checkpoint import LoadedEncoder
from pfl_audit.models.encoders.config import EncoderConfig
from pfl_audit.models.encoders.labels import labels_at, labels_of
from pfl_audit.models.encoders.model import EncoderModel
from pfl_audit.models.encoders.network import FormEncoder
from pfl_audit.models.encoders.tokens import FormTokenizer
from pfl_audit.models.form_protocol import Attempt
from pfl_audit.models.samples import IGNORED

FIXTURES = Path(str(resources.files("pfl_audit.fixtures")))
CANDIDATES, LAYERS, WIDTH, ROUNDS = 32, 12, 768, 5


def main() -> None:
    """Time all three in turn, and print the median ratios."""
    torch.set_num_threads(1)
    tokenizer = FormTokenizer.open(FIXTURES / "layoutlm-public")
    config = EncoderConfig(
        "layoutlm",
        "ee-bio",
        "unimodal",
        labels=("answer", "header", "question"),
        vocabulary=len(tokenizer.vocabulary),
        hidden=WIDTH,
        layers=LAYERS,
        heads=12,
        intermediate=4 * WIDTH,
        max_tokens=192,
    )
    torch.manual_seed(0)
    model = EncoderModel(LoadedEncoder(FormEncoder(config), tokenizer, config), {}, FIXTURES)
    blanks = [blank for form in open_forms(FIXTURES / "forms").forms for blank, _ in model.blanks(form)]
    blank = max(blanks, key=lambda one: len(one.window.ids))
    attempts = [Attempt(blank, (token,)) for token in range(200, 200 + CANDIDATES)]
    tokens = CANDIDATES * len(blank.window.ids)
    least = 2 * tokens * LAYERS * (12 * WIDTH**2 + 2 * len(blank.window.ids) * WIDTH)
    ratios, parts, rates = [], [], []
    for _ in range(ROUNDS):
        product = _products_a_second()
        ours, losses = _timed(lambda: model.losses(attempts))
        fair, plain = _timed(lambda: fair_loop(model, attempts))
        assert np.allclose(losses, plain, atol=1e-5), "the losses differ"
        ratios.append(fair / ours)
        parts.append(least / ours / product)
        rates.append(CANDIDATES / ours)
    share, ratio = statistics.median(parts), statistics.median(ratios)
    rate, length = statistics.median(rates), len(blank.window.ids)
    print(f"{length} tokens: {rate:.2f} candidates a second on one core, {ratio:.2f} times those of the fair loop")
    print(f"the encoder's matrix products take at least {100 * share:.0f} % of the time")


@torch.inference_mode()
def fair_loop(model: EncoderModel, attempts: list[Attempt]) -> np.ndarray:
    """One batch of filled windows, logits of every token, and the loss at the token that was filled in."""
    blank = attempts[0].blank
    place = blank.span.start
    rows = [blank.window.ids.copy() for _ in attempts]
    for row, attempt in zip(rows, attempts, strict=True):
        row[place] = attempt.tokens[0]
    logits = model.network(collate([blank.window] * len(rows), ids=rows)).classes
    label = labels_at(labels_of(blank.window, model.config), place).classes
    assert label is not None
    labels = torch.from_numpy(np.stack([label] * len(rows)))
    losses = functional.cross_entropy(logits.mT, labels, ignore_index=IGNORED, reduction="none")
    return (losses.sum(dim=1) / (labels != IGNORED).sum(dim=1)).numpy()


def _timed(work: object) -> tuple[float, np.ndarray]:
    began = time.process_time()
    found = work()  # type: ignore[operator]
    return time.process_time() - began, found


def _products_a_second() -> float:
    """Floating-point operations a second of a matrix product of the encoder's size."""
    one, other = torch.randn(6144, WIDTH), torch.randn(WIDTH, 4 * WIDTH)
    began = time.process_time()
    for _ in range(6):
        one @ other
    return 6 * 2 * one.numel() * 4 * WIDTH / (time.process_time() - began)


if __name__ == "__main__":
    main()
