"""Provider updates against a fair and a naive loop: python -m tests.bench.federated.

The naive loop does for every provider what a first version would: load a copy of the model's full state,
read, scale and encode the page of every question of every batch, tokenise its words, train, and take the
difference over every entry of the state. The fair loop is what a competent user of torch and peft writes: one
model, words tokenised and pages encoded once, the trained tensors set back for each provider, a fused optimiser;
torch and the C library as they come. Each way runs in a process of its own, turn by turn in one run, with the same
batches; the sums of the clipped updates must be the same. Every provider takes part twice, as in the papers' ten
rounds at a rate of 0.2. Pages have the size of scans: a letter page at 200 dots an inch.

OMP_NUM_THREADS=1 compares the ways with one thread each: there what differs is the step alone, not the second core.
"""

from __future__ import annotations

import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from importlib import resources
from pathlib import Path

import torch
from peft.tuners.lora import Linear
from PIL import Image
from torch import Tensor

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
from pfl_audit.training.fused_lora import FusedLinear
from pfl_audit.training.loop import set_training
from pfl_audit.training.lora import Adapters
from pfl_audit.training.optimizers import make_optimizer
from pfl_audit.training.parts import split_queries
from pfl_audit.training.trainable import Trainable, choose_trainable

START = Path(str(resources.files("pfl_audit.fixtures"))) / "vt5-pretrained"
CORPUS = Path("build/bench/corpus")
RECIPE = Recipe(members=30, non_members=30, red_providers=1, documents=2, seed=11)
SETTINGS = FederatedSettings(batch_size=8, local_steps=2, learning_rate=1e-3)
BOUND = 0.5
SCANNED = (1700, 2200)
TAKES_PART = 2
REPEATS = 3
FEW = 4
WANTED = {"fair": 3.0, "naive": 10.0}


def main() -> None:
    """Time all ways in turn, whole tensors and adapters, and print the median ratios."""
    if not (CORPUS / "scanned").is_file():
        shutil.rmtree(CORPUS, ignore_errors=True)
        make_corpus(RECIPE, CORPUS, Silent())
        scan(CORPUS)
    for name, rank in (("whole tensors", 0), ("adapters of rank 4", 4)):
        turns = [compare(f"{name}, turn {number + 1}", rank) for number in range(REPEATS)]
        for way, wanted in WANTED.items():
            ratio = statistics.median(turn[way] for turn in turns)
            print(f"{name}: {ratio:.2f} times the provider updates a second of the {way} loop (wanted: {wanted:.1f})")


def scan(folder: Path) -> None:
    """Bring every page to the size of a letter page that was scanned at 200 dots an inch."""
    for path in sorted(folder.rglob("*.jpg")):
        with Image.open(path) as page:
            page.convert("RGB").resize(SCANNED, Image.Resampling.BICUBIC).save(path, quality=85)
    (folder / "scanned").touch()


def compare(name: str, rank: int) -> dict[str, float]:
    """Every provider as often as it takes part, each way; how many times the updates a second of the other ways."""
    with tempfile.TemporaryDirectory() as folder:
        found = {way: _elsewhere(way, rank, Path(folder) / way) for way in WAYS}
    ours = found.pop("ours")
    ratios = {way: float(ours["rate"] / other["rate"]) for way, other in found.items()}
    for way, other in found.items():
        timed, threads = _apart(other["sum"], ours["sum"]), _apart(other["few"], ours["few"])
        print(
            f"{name}: {way} {other['rate']:.2f}/s, ours {ours['rate']:.2f}/s, {ratios[way]:.2f} times; "
            f"sums within {timed:.1e} of the norm, with one thread each {threads:.1e}",
            flush=True,
        )
    return ratios


def _apart(one: Tensor, other: Tensor) -> float:
    return float((one - other).norm() / one.norm())


def _elsewhere(way: str, rank: int, out: Path) -> dict[str, Tensor]:
    """Provider updates a second, and the sums, from a process that does nothing else."""
    subprocess.run([sys.executable, "-m", "tests.bench.federated", way, str(rank), str(out)], check=True)
    found: dict[str, Tensor] = torch.load(out, weights_only=True)
    return found


def one(way: str, rank: int, out: Path) -> None:
    """Do it one way, and write what came out."""
    if way == "fair":
        torch_alone()
    queries, _ = split_queries(open_corpus(CORPUS, "blue"))
    providers = merged(queries)[0].providers
    model = open_training(START)
    trainable = Adapters(model, rank, seed=0).trainable if rank else choose_trainable(model)
    for module in model.network.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0  # so that all ways compute the same
    start = trainable.read()
    began = time.perf_counter()
    total = WAYS[way](model, trainable, queries, providers)
    rate = torch.tensor(TAKES_PART * len(providers) / (time.perf_counter() - began))
    torch.set_num_threads(1)  # AdamW makes whole steps of gradients that differ in rounding alone
    trainable.write(start)
    few = WAYS[way](model, trainable, queries, providers[:FEW])
    torch.save({"rate": rate, "sum": total, "few": few}, out)


def naive(
    model: TrainableVt5, trainable: Trainable, queries: Sequence[Query], providers: Sequence[Sequence[int]]
) -> Tensor:
    """As a first version would."""
    network = model.network
    start = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    lengths = [model.length(query) for query in queries]
    total = torch.zeros(trainable.size)
    for number, rows in TAKES_PART * list(enumerate(providers)):
        network.load_state_dict({name: tensor.clone() for name, tensor in start.items()})
        optimizer = make_optimizer("adamw", trainable.parameters, SETTINGS.learning_rate, SETTINGS.weight_decay)
        network.train()
        network.visual_embedding.image_model.eval()
        order, size = seed_for(SETTINGS.seed, "order", 1, 0, number), SETTINGS.batch_size
        for batch in local_batches(rows, lengths.__getitem__, size, 1, SETTINGS.local_steps, order):
            again = TrainableVt5(LoadedVt5(network, model.inputs.tokenizer, ()), START)  # keeps no words
            asked = [queries[row] for row in batch]
            pixels = torch.stack([again.page(query.document) for query in asked])
            with torch.no_grad():
                pages = network.visual_embedding.encode(pixels).half().float()  # so that features are the same
            examples = [again.example(query) for query in asked]
            network.train()
            network.visual_embedding.image_model.eval()
            optimizer.zero_grad()
            loss = again.batch_loss(examples, pages)
            torch.autograd.backward(loss)
            optimizer.step()
        after = {name: tensor.clone() for name, tensor in network.state_dict().items()}
        update = {name: after[name] - start[name] for name in start}
        total += clip(torch.cat([update[name].reshape(-1) for name in trainable.names]), BOUND)[0]
    return total


def torch_alone() -> None:
    """Leave out what the trainer changes beneath torch: the settings of the allocator, and its adapter layer."""
    vt5_model.keep_freed_memory = lambda: None
    FusedLinear.forward = Linear.forward


def fair(
    model: TrainableVt5, trainable: Trainable, queries: Sequence[Query], providers: Sequence[Sequence[int]]
) -> Tensor:
    """As a competent user of torch and peft would: everything that can be computed once is."""
    examples = [model.example(query) for query in queries]
    lengths = [example.length for example in examples]
    places = {query.document.id: query.document for query in queries}
    features = {}
    with torch.no_grad():
        for name, document in places.items():
            features[name] = model.page_features(model.page(document)[None])[0].half().float()
    start, total = [parameter.detach().clone() for parameter in trainable.parameters], torch.zeros(trainable.size)
    for number, rows in TAKES_PART * list(enumerate(providers)):
        with torch.no_grad():
            for parameter, value in zip(trainable.parameters, start, strict=True):
                parameter.copy_(value)
        optimizer = make_optimizer("adamw", trainable.parameters, SETTINGS.learning_rate, SETTINGS.weight_decay)
        set_training(model.network, model.page_encoder)
        order = seed_for(SETTINGS.seed, "order", 1, 0, number)
        for batch in local_batches(rows, lengths.__getitem__, SETTINGS.batch_size, 1, SETTINGS.local_steps, order):
            optimizer.zero_grad()
            pages = torch.stack([features[queries[row].document.id] for row in batch])
            torch.autograd.backward(model.batch_loss([examples[row] for row in batch], pages))
            optimizer.step()
        moved = zip(trainable.parameters, start, strict=True)
        total += clip(torch.cat([(new.detach() - old).reshape(-1) for new, old in moved]), BOUND)[0]
    return total


def ours(
    model: TrainableVt5, trainable: Trainable, queries: Sequence[Query], providers: Sequence[Sequence[int]]
) -> Tensor:
    """As the trainer does it, encoding of the pages included."""
    with tempfile.TemporaryDirectory(dir=CORPUS.parent) as folder:
        examples = model.examples(queries, Silent(), Path(folder) / PAGES_FILE)
        trainer = trainer_for(LocalTrainer(model, trainable, examples, SETTINGS), "cpu")
        weights = trainable.read()
        total = torch.zeros_like(weights)
        jobs = [(rows, (1, 0, number)) for number, rows in enumerate(providers)]
        for update, _ in trainer.train_each(weights, TAKES_PART * jobs):
            total += clip(update, BOUND)[0]
    return total


WAYS = {"naive": naive, "fair": fair, "ours": ours}

if __name__ == "__main__":
    if len(sys.argv) == 4:
        one(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))
    else:
        main()
