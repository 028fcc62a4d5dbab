"""Gradients of single questions, four ways: OMP_NUM_THREADS=1 python -m tests.bench.unit_gradients CORPUS.

One backward pass a question (as the trainer does for whole tensors), a pass that questions share with a copy of the
adapters each (as it does for adapters alone), and what ghost clipping costs at least: a forward and two backward passes
of the whole batch, without its norms. torch.func.vmap is compared on the language model alone, on padded inputs of
equal length. Processor seconds of 32 questions, the smallest of three turns.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import torch
from torch.func import functional_call, grad, vmap

from pfl_audit.documents.readers import open_corpus
from pfl_audit.models.vt5.training import open_training
from pfl_audit.progress import Silent
from pfl_audit.training.loop import prepare_process, set_training
from pfl_audit.training.lora import Adapters
from pfl_audit.training.parts import split_queries
from pfl_audit.training.trainable import Trainable, choose_trainable

START = Path(str(resources.files("pfl_audit.fixtures"))) / "vt5-pretrained"
QUESTIONS, TOGETHER, TOKENS = 32, 16, 200
BLOCKS = [range(at, at + TOGETHER) for at in range(0, QUESTIONS, TOGETHER)]


def main() -> None:
    """Print a row for what is trained: whole tensors, adapters with the embeddings beside them, adapters alone."""
    prepare_process()
    torch.set_num_threads(1)
    queries = split_queries(open_corpus(Path(sys.argv[1]), "blue"))[0][:QUESTIONS]
    for name in ("whole", "all", "adapters"):
        model = open_training(START)
        trainable = choose_trainable(model) if name == "whole" else Adapters(model, 4, seed=0, parts=name).trainable
        examples = model.examples(queries, Silent())
        set_training(model.network, model.page_encoder)
        ways = [("one by one", single), ("ghost clipping, at least", ghost)]
        if examples.can_share(trainable.names):
            ways.append(("shared pass", shared))
        rows = (f"{way} {fastest(act, examples, trainable):.2f} s" for way, act in ways)
        print(f"{name}, {trainable.size:,} numbers:", ", ".join(rows))
    backbone = model.network.language_backbone
    print(", ".join(f"{act.__name__} {fastest(act, *padded(backbone)):.2f} s" for act in (plain, vmapped)))


def single(examples: Any, trainable: Trainable) -> None:
    """One backward pass a question."""
    for row in range(QUESTIONS):
        torch.autograd.grad(examples.loss([row]), trainable.parameters)


def shared(examples: Any, trainable: Trainable) -> None:
    """One pass for each block, with copies of the trained tensors."""
    for block in BLOCKS:
        copies = {id(one): [one.detach().clone().requires_grad_() for _ in block] for one in trainable.parameters}
        generators = [torch.Generator().manual_seed(row) for row in block]
        torch.autograd.backward(examples.owner_losses([[row] for row in block], copies, generators).sum())


def ghost(examples: Any, trainable: Trainable) -> None:
    """A forward and two backward passes for each block."""
    for block in BLOCKS:
        loss = examples.loss(block)
        torch.autograd.grad(loss, trainable.parameters, retain_graph=True)
        torch.autograd.grad(loss, trainable.parameters)


def padded(backbone: Any) -> tuple[Callable[..., torch.Tensor], dict[str, torch.Tensor], torch.Tensor, torch.Tensor]:
    """Loss of a language model as a function of its trained tensors, these, and inputs and labels of a block."""
    trained = {name: one for name, one in backbone.named_parameters() if one.requires_grad}

    def loss(tensors: dict[str, torch.Tensor], states: torch.Tensor, answer: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = functional_call(
            backbone, tensors, kwargs={"inputs_embeds": states, "labels": answer}
        ).loss
        return found

    states = torch.randn(TOGETHER, 1, TOKENS, backbone.config.d_model)
    return loss, trained, states, torch.randint(3, 90, (TOGETHER, 1, 8))


def plain(loss: Any, trained: dict[str, torch.Tensor], states: torch.Tensor, labels: torch.Tensor) -> None:
    """One backward pass for each of a block."""
    for one, answer in zip(states, labels, strict=True):
        torch.autograd.grad(loss(trained, one, answer), list(trained.values()))


def vmapped(loss: Any, trained: dict[str, torch.Tensor], states: torch.Tensor, labels: torch.Tensor) -> None:
    """Gradients of all units by torch.func."""
    vmap(grad(loss), (None, 0, 0), randomness="different")(trained, states, labels)


def fastest(act: Callable[..., None], *given: Any) -> float:
    """Processor seconds of the fastest of three turns."""
    seconds: Sequence[float] = [_seconds(act, *given) for _ in range(3)]
    return min(seconds)


def _seconds(act: Callable[..., None], *given: Any) -> float:
    began = time.process_time()
    act(*given)
    return time.process_time() - began


if __name__ == "__main__":
    main()
