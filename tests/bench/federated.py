"""Provider updates against a fair and a naive loop: python -m tests.bench.federated.

The naive loop does for every provider what a first version would: load a copy of the model's full state,
read, scale and encode the page of every question of every batch, tokenise its words, train, and take the
difference over every entry of the state. The fair loop is what a competent user of torch and peft writes: one
model, words tokenised and pages encoded once, the trained tensors set back for each provider, a fused optimiser;
torch and the C library as they come. Each way runs in a process of its own, turn by turn in one run, with the same
batches; the sums of the clipped updates must be the same, and those of the first providers are computed in float64 as
well. Every provider takes part as often as in the papers' ten rounds at a rate of 0.2, or with the private recipe
(docs/results/private_learning.sh) in its 20 rounds. Pages have the size of scans: a letter page at 200 dots an inch.

Two ratios are printed: of everything, pages included, and of the updates alone. OMP_NUM_THREADS=1 compares the ways
with one thread each, in seconds of the processor: there what differs is the step alone, not the second core. On a
machine with other work the threads of the fair loop wait for one another, and that is the comparison to trust.
Arguments choose trainings by name.
"""

from __future__ import annotations

import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

import torch
from PIL import Image
from torch import Tensor
from transformers.models.t5.modeling_t5 import T5LayerNorm

from pfl_audit.documents.document import Query
from pfl_audit.documents.readers import open_corpus
from pfl_audit.documents.synthetic.generator import Recipe, make_corpus
from pfl_audit.models.page_store import PAGES_FILE
from pfl_audit.models.vt5 import model as vt5_model
from pfl_audit.models.vt5.checkpoint import LoadedVt5
from pfl_audit.models.vt5.training import TrainableVt5, open_training
from pfl_audit.progress import Silent
from pfl_audit.training.batching import local_batches
from pfl_audit.training.federated.clients import merged
from pfl_audit.training.federated.gaussian_mechanism import clip
from pfl_audit.training.federated.local import LocalTrainer
from pfl_audit.training.federated.secure_rng import seed_for
from pfl_audit.training.federated.settings import FederatedSettings
from pfl_audit.training.federated.worker_pool import trainer_for
from pfl_audit.training.loop import set_training
from pfl_audit.training.lora import Adapters
from pfl_audit.training.optimizers import make_optimizer
from pfl_audit.training.parts import split_queries
from pfl_audit.training.trainable import Trainable, choose_trainable

START = Path(str(resources.files("pfl_audit.fixtures"))) / "vt5-pretrained"
CORPUS = Path("build/bench/corpus")
RECIPE = Recipe(members=30, non_members=30, red_providers=1, documents=2, seed=11)
BOUND = 0.5
SCANNED = (1700, 2200)
REPEATS = 3
FEW = 4
WANTED = {"fair": 3.0, "naive": 10.0}


@dataclass(frozen=True)
class Training:
    """What a local training is.

    Attributes:
        rank: Of the adapters, or 0 for whole tensors.
        parts: What of the adapters is trained.
        times: How often every provider takes part.
    """

    rank: int
    parts: str
    times: int
    settings: FederatedSettings


PAPERS = FederatedSettings(batch_size=8, local_steps=2, learning_rate=1e-3)
TRAININGS = {
    "whole-tensors": Training(0, "all", 2, PAPERS),
    "adapters": Training(4, "all", 2, PAPERS),
    "private": Training(4, "up", 4, FederatedSettings(batch_size=1, local_steps=1, learning_rate=0.9, optimizer="sgd")),
}


def seconds() -> float:
    """Time that has passed; with one thread that of the processor, which other work on the machine hardly changes."""
    return time.process_time() if torch.get_num_threads() == 1 else time.perf_counter()


def main(names: Sequence[str] = ()) -> None:
    """Time all ways in turn for each training, and print the median ratios."""
    if not (CORPUS / "scanned").is_file():
        shutil.rmtree(CORPUS, ignore_errors=True)
        make_corpus(RECIPE, CORPUS, Silent())
        scan(CORPUS)
    for name in names or TRAININGS:
        turns = [compare(name, number + 1) for number in range(REPEATS)]
        for way, wanted in WANTED.items():
            whole, alone = (statistics.median(turn[way][at] for turn in turns) for at in (0, 1))
            print(
                f"{name}: {whole:.2f} times the provider updates a second of the {way} loop (wanted: {wanted:.1f}); "
                f"without pages {alone:.2f}",
                flush=True,
            )


def scan(folder: Path) -> None:
    """Bring every page to the size of a letter page that was scanned at 200 dots an inch."""
    for path in sorted(folder.rglob("*.jpg")):
        with Image.open(path) as page:
            page.convert("RGB").resize(SCANNED, Image.Resampling.BICUBIC).save(path, quality=85)
    (folder / "scanned").touch()


def compare(name: str, turn: int) -> dict[str, tuple[float, float]]:
    """Every way once; how many times the updates a second of the other ways, with the pages and without."""
    with tempfile.TemporaryDirectory() as folder:
        found = {way: _elsewhere(way, name, Path(folder) / way) for way in WAYS}
    ours = found.pop("ours")
    ratios = {}
    for way, other in found.items():
        ratios[way] = float(ours["rate"] / other["rate"]), float(ours["alone"] / other["alone"])
        timed, exact = _apart(other["sum"], ours["sum"]), _apart(other["few"], ours["few"])
        print(
            f"{name}, turn {turn}: {way} {other['rate']:.2f}/s, ours {ours['rate']:.2f}/s, {ratios[way][0]:.2f} times; "
            f"without pages {other['alone']:.2f}/s, {ours['alone']:.2f}/s, {ratios[way][1]:.2f} times; "
            f"sums within {timed:.1e} of the norm, in float64 {exact:.1e}",
            flush=True,
        )
    return ratios


def _apart(one: Tensor, other: Tensor) -> float:
    return float((one - other).norm() / one.norm())


def _elsewhere(way: str, name: str, out: Path) -> dict[str, Tensor]:
    """Provider updates a second, and the sums, from a process that does nothing else."""
    subprocess.run([sys.executable, "-m", "tests.bench.federated", way, name, str(out)], check=True)
    return torch.load(out, weights_only=True)


@dataclass
class Work:
    """What all ways work on.

    Attributes:
        pages: Seconds spent on pages before the first update.
    """

    training: Training
    model: TrainableVt5
    trainable: Trainable
    queries: Sequence[Query]
    pages: float = 0.0


def rms_norm(norm: T5LayerNorm, rows: Tensor) -> Tensor:
    """T5's norm in the type of the rows; transformers has its mean square in float32 always."""
    return torch.nn.functional.rms_norm(rows, norm.weight.shape, norm.weight, norm.variance_epsilon)


Jobs = Sequence[tuple[int, Sequence[int]]]
"""Number and rows of one provider after the other."""


def one(way: str, name: str, out: Path) -> None:
    """Do it one way, and write what came out."""
    if way == "fair":
        torch_alone()
    training = TRAININGS[name]
    queries, _ = split_queries(open_corpus(CORPUS, "blue"))
    providers = list(enumerate(merged(queries)[0].providers))
    model = open_training(START)
    adapters = Adapters(model, training.rank, seed=0, parts=training.parts) if training.rank else None
    trainable = adapters.trainable if adapters else choose_trainable(model)
    for module in model.network.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0  # so that all ways compute the same
    start, work = trainable.read(), Work(training, model, trainable, queries)
    jobs = training.times * providers
    began = seconds()
    total = WAYS[way](work, jobs)
    spent = seconds() - began
    rates = {"rate": len(jobs) / spent, "alone": len(jobs) / (spent - work.pages)}
    # AdamW makes whole steps of gradients that differ in rounding alone, so that sums are compared in float64.
    torch.set_num_threads(1)
    for module in model.network.children():
        for part in (module.visual_emb_matcher,) if module is model.network.visual_embedding else (module,):
            part.double()
    T5LayerNorm.forward = rms_norm
    trainable.write(start)
    few = WAYS[way](work, providers[:FEW])
    torch.save({"sum": total, "few": few, **{name: torch.tensor(rate) for name, rate in rates.items()}}, out)


def optimizer_of(work: Work) -> torch.optim.Optimizer:
    """A fresh optimiser of a local training."""
    settings = work.training.settings
    return make_optimizer(settings.optimizer, work.trainable.parameters, settings.learning_rate, settings.weight_decay)


def batches(work: Work, number: int, rows: Sequence[int], lengths: Sequence[int]) -> Iterator[list[int]]:
    """Batches of a local training."""
    settings = work.training.settings
    order = seed_for(settings.seed, "order", 1, 0, number)
    return local_batches(rows, lengths.__getitem__, settings.batch_size, 1, settings.local_steps, order)


def naive(work: Work, jobs: Jobs) -> Tensor:
    """As a first version would."""
    model, network, trainable = work.model, work.model.network, work.trainable
    start = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    lengths = [model.length(query) for query in work.queries]
    total = torch.zeros(trainable.size)
    for number, rows in jobs:
        network.load_state_dict({name: tensor.clone() for name, tensor in start.items()})
        optimizer = optimizer_of(work)
        for batch in batches(work, number, rows, lengths):
            again = TrainableVt5(LoadedVt5(network, model.inputs.tokenizer, ()), START)  # keeps no words
            asked = [work.queries[row] for row in batch]
            pixels = torch.stack([again.page(query.document) for query in asked])
            with torch.no_grad():
                pages = network.visual_embedding.encode(pixels).half().float()  # so that features are the same
            examples = [again.example(query) for query in asked]
            set_training(network, model.page_encoder)
            optimizer.zero_grad()
            torch.autograd.backward(again.padded_loss(examples, pages))
            optimizer.step()
        after = {name: tensor.clone() for name, tensor in network.state_dict().items()}
        update = {name: after[name] - start[name] for name in start}
        total += clip(torch.cat([update[name].reshape(-1) for name in trainable.names]), BOUND)[0]
    return total


def torch_alone() -> None:
    """Leave out what the trainer changes beneath torch: the settings of the allocator."""
    vt5_model.keep_freed_memory = lambda: None


def fair(work: Work, jobs: Jobs) -> Tensor:
    """As a competent user of torch, transformers and peft would: everything that can be computed once is."""
    model, trainable, began = work.model, work.trainable, seconds()
    examples = [model.example(query) for query in work.queries]
    lengths = [example.length for example in examples]
    places = {query.document.id: query.document for query in work.queries}
    features = {}
    with torch.no_grad():
        for name, document in places.items():
            features[name] = model.page_features(model.page(document)[None])[0].half().float()
    work.pages = seconds() - began
    start, total = [parameter.detach().clone() for parameter in trainable.parameters], torch.zeros(trainable.size)
    for number, rows in jobs:
        with torch.no_grad():
            for parameter, value in zip(trainable.parameters, start, strict=True):
                parameter.copy_(value)
        optimizer = optimizer_of(work)
        set_training(model.network, model.page_encoder)
        for batch in batches(work, number, rows, lengths):
            optimizer.zero_grad()
            pages = torch.stack([features[work.queries[row].document.id] for row in batch])
            torch.autograd.backward(model.padded_loss([examples[row] for row in batch], pages))
            optimizer.step()
        moved = zip(trainable.parameters, start, strict=True)
        total += clip(torch.cat([(new.detach() - old).reshape(-1) for new, old in moved]), BOUND)[0]
    return total


def ours(work: Work, jobs: Jobs) -> Tensor:
    """As the trainer does it, encoding of the pages included."""
    began = seconds()
    with tempfile.TemporaryDirectory(dir=CORPUS.parent) as folder:
        examples = work.model.examples(work.queries, Silent(), Path(folder) / PAGES_FILE)
        work.pages = seconds() - began
        local = LocalTrainer(work.model, work.trainable, examples, work.training.settings)
        trainer, weights = trainer_for(local, "cpu"), work.trainable.read()
        total = torch.zeros_like(weights)
        for update, _ in trainer.train_each(weights, [(rows, (1, 0, number)) for number, rows in jobs]):
            total += clip(update, BOUND)[0]
    return total


WAYS = {"naive": naive, "fair": fair, "ours": ours}

if __name__ == "__main__":
    if len(sys.argv) == 4 and sys.argv[1] in WAYS:
        one(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
    else:
        main(sys.argv[1:])
