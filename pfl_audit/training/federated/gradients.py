"""DP-SGD: the update of a document or an example is one gradient, of all its questions, from the round's weights."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from pfl_audit.training.federated.local import LocalTrainer
from pfl_audit.training.federated.secure_rng import seed_for
from pfl_audit.training.federated.settings import PrivacySettings
from pfl_audit.training.federated.together import Job, SharedPass
from pfl_audit.training.loop import set_training
from pfl_audit.training.trainable import Trainable


def trainer_kind(privacy: PrivacySettings | None) -> type[LocalTrainer]:
    """Class of the trainer of a run: a provider trains, a document or an example gives a gradient."""
    return LocalTrainer if privacy is None or privacy.unit == "provider" else GradientTrainer


@dataclass(eq=False)
class GradientTrainer(LocalTrainer):
    """Computes the update of a unit as minus the gradient of its summed loss, whatever the number of its batches.

    The loss of a batch is the mean over its answer tokens, and counts as often as the batch has questions.
    """

    def train(self, weights: Tensor, rows: Sequence[int], *who: int) -> tuple[Tensor, float]:
        """Minus the gradient of a unit, float32 (size,), and its mean loss; as LocalTrainer.train."""
        self.trainable.write(weights)
        set_training(self.model.network, self.model.page_encoder)
        torch.manual_seed(seed_for(self.settings.seed, "dropout", *who))
        self.examples.reseed(seed_for(self.settings.seed, "mask", *who))
        self.model.network.zero_grad()
        total = 0.0
        for batch in self.batches(rows, *who):
            loss = self.examples.loss(batch) * len(batch)
            total += float(loss.detach())
            if not math.isfinite(total):
                break
            torch.autograd.backward(loss)
        update = _minus_gradient([parameter.grad for parameter in self.trainable.parameters], self.trainable)
        self.model.network.eval()
        if not math.isfinite(total):
            return torch.full_like(weights, torch.nan), math.nan
        return update, total / len(rows)

    def train_group(self, weights: Tensor, jobs: Sequence[Job]) -> list[tuple[Tensor, float]]:
        """Gradients of several units by one pass, each with adapters of its own; as LocalTrainer.train_group."""
        examples = self.examples
        if self.together == 1 or not isinstance(examples, SharedPass):
            return [self.train(weights, rows, *who) for rows, who in jobs]
        set_training(self.model.network, self.model.page_encoder)
        parts = list(zip(self.trainable.parts(weights), self.trainable.parameters, strict=True))
        copies = [[part.to(parameter, copy=True).requires_grad_() for part, parameter in parts] for _ in jobs]
        seeds = [seed_for(self.settings.seed, "dropout", *who) for _, who in jobs]
        generators = [torch.Generator().manual_seed(seed) for seed in seeds]
        batches = [list(self.batches(rows, *who)) for rows, who in jobs]
        totals = [0.0] * len(jobs)
        for step in range(max(map(len, batches))):
            active = [at for at in range(len(jobs)) if step < len(batches[at]) and math.isfinite(totals[at])]
            if not active:
                break
            some = [batches[at][step] for at in active]
            tensors = {id(one): [copies[at][number] for at in active] for number, (_, one) in enumerate(parts)}
            losses = examples.owner_losses(some, tensors, [generators[at] for at in active])
            losses = losses * losses.new_tensor([len(batch) for batch in some])
            for at, loss in zip(active, losses.tolist(), strict=True):
                totals[at] += loss
            finite = [place for place, at in enumerate(active) if math.isfinite(totals[at])]
            if finite:
                torch.autograd.backward(losses[finite].sum())
        self.model.network.eval()
        found = []
        for (rows, _), own, total in zip(jobs, copies, totals, strict=True):
            usable = math.isfinite(total)
            update = _minus_gradient([one.grad for one in own], self.trainable)
            found.append((update if usable else torch.full_like(weights, torch.nan), total / len(rows)))
        return found


def _minus_gradient(gradients: Sequence[Tensor | None], trainable: Trainable) -> Tensor:
    """Gradients of the trained tensors as one vector, float32 (size,), with the other sign; 0 where there is none."""
    parts = zip(gradients, trainable.parameters, strict=True)
    whole = [torch.zeros_like(parameter) if found is None else found for found, parameter in parts]
    return -torch.cat([part.detach().reshape(-1).to("cpu", torch.float32) for part in whole])
