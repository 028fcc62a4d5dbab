"""ANLS after training on float16 page features and on float32 ones: python -m tests.bench.float16_pages."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import torch

from pfl_audit.documents.readers import open_corpus
from pfl_audit.models.page_store import PAGES_FILE
from pfl_audit.models.vt5.training import open_training
from pfl_audit.progress import Silent
from pfl_audit.training.federated.local import LocalTrainer
from pfl_audit.training.parts import split_queries
from pfl_audit.training.trainable import choose_trainable
from tests.bench.federated import SETTINGS, START, prepared_corpus

STEPS, VALIDATED, RATE, SEEDS = 30, 96, 2e-4, (0, 1, 2)


def main() -> None:
    """Train twice with the same batches and dropout, whole tensors, and print both scores."""
    train, valid = split_queries(open_corpus(prepared_corpus(), "blue"))
    for seed in SEEDS:
        settings = replace(SETTINGS, local_epochs=STEPS, local_steps=STEPS, learning_rate=RATE, seed=seed)
        for name in ("float32", "float16"):
            with tempfile.TemporaryDirectory() as folder:
                model = open_training(START)
                examples = model.examples(train, Silent(), Path(folder) / PAGES_FILE if name == "float16" else None)
                trainable = choose_trainable(model)
                start = trainable.read()
                update, loss = LocalTrainer(model, trainable, examples, settings).train(start, range(len(train)), 1, 0)
                trainable.write(start + update)
                anls = model.validate(valid[:VALIDATED])["anls"]
                print(f"seed {seed}, {name}: loss {loss:.4f}, ANLS {anls:.4f} after {STEPS} steps", flush=True)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
