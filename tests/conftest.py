"""What many tests need: a small corpus, and models so small that they answer at once."""

from __future__ import annotations

import gc
import json
import os
import sys

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

from collections.abc import Callable, Iterator
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from pfl_audit.documents.corpus import Corpus
from pfl_audit.documents.document import Document, as_boxes
from pfl_audit.documents.images import PageImage
from pfl_audit.documents.readers import open_corpus
from pfl_audit.documents.synthetic.generator import Recipe, make_corpus
from pfl_audit.progress import Silent
from tests.command_server import CommandServer

RECIPE = Recipe(members=12, non_members=12, red_providers=10, clients=3, documents=2, red_documents=2, seed=3)
PIECES, ROWS = 800, 810
"""Of a tiny VT5's tokenizer and embedding. Fewer pieces make pages of more tokens, and attention to them slow."""


DURATIONS: dict[str, float] = json.loads(Path(__file__).with_name("durations.json").read_text(encoding="utf-8"))
"""Seconds of test files on one core, for their order alone: the CPU time of a file by itself where that was measured,
else 0.6 of its time in an older run of the whole suite; the wall time of a few that mostly wait."""
UNKNOWN = 10.0
"""Of a file that was not measured: early enough not to be the one that the others wait for."""


def pytest_configure() -> None:
    """No garbage collection during that of tests, which makes millions of objects, and hardly any garbage.

    No wait for the disk: processes are killed here, and the power stays on. Processes that tests start do wait.
    """
    gc.disable()
    os.fsync = lambda file: None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Order the files from the longest to the shortest, so that two processes end together."""
    here = Path(__file__).parent
    items.sort(key=lambda item: -DURATIONS.get(item.path.relative_to(here).as_posix(), UNKNOWN))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> object:
    """Of the processes of pytest-xdist, where each takes whole files."""
    if config.getoption("dist") != "loadfile":
        return None
    from tests.schedule import Schedule

    return Schedule(config, log)


def pytest_collection_finish() -> None:
    """Take what the collection made, millions of objects of all libraries, out of every later garbage collection."""
    gc.collect()
    gc.freeze()
    gc.enable()


def save_tiny_vt5(tokenizer: Path, folder: Path, seed: int, dropout: float = 0.1) -> None:
    """A tiny VT5 with random weights, and the tokenizer of another folder."""
    import torch
    from transformers import T5Config

    from pfl_audit.models.vt5.checkpoint import save_vt5
    from pfl_audit.models.vt5.config import Vt5Config, visual_config
    from pfl_audit.models.vt5.modeling import Vt5

    torch.manual_seed(seed)
    config = Vt5Config(
        T5Config(
            vocab_size=ROWS,
            d_model=32,
            d_kv=16,
            d_ff=48,
            num_layers=2,
            num_decoder_layers=1,
            num_heads=2,
            dropout_rate=dropout,
        ),
        visual_config(
            hidden_size=24,
            num_hidden_layers=1,
            num_attention_heads=2,
            intermediate_size=32,
            image_size=32,
            patch_size=16,
        ),
        max_answer_tokens=8,
    )
    save_vt5(Vt5(config), tokenizer, folder, extra={})


@pytest.fixture(autouse=True)
def ordinary_floats() -> None:
    """Training lets the processor round tiny numbers to zero, which holds for the whole process."""
    if torch := sys.modules.get("torch"):
        torch.set_flush_denormal(False)


@pytest.fixture(scope="session")
def corpus_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A synthetic corpus in PFL-DocVQA's layout."""
    folder = tmp_path_factory.mktemp("corpus") / "pfl"
    make_corpus(RECIPE, folder, Silent())
    return folder


@pytest.fixture(scope="session")
def red(corpus_folder: Path) -> Corpus:
    """Its RED part."""
    return open_corpus(corpus_folder, "red")


def checkpoints(corpus: Path, base: Path, pieces: int = PIECES) -> Callable[[int], Path]:
    """Makes checkpoints of a tiny VT5 with random weights in a folder, by seed."""
    from pfl_audit.training.scratch import train_tokenizer

    train_tokenizer(open_corpus(corpus), base, pieces)
    known: dict[int, Path] = {}

    def make(seed: int) -> Path:
        if seed not in known:
            known[seed] = base / f"vt5-{seed}"
            save_tiny_vt5(base, known[seed], seed)
        return known[seed]

    return make


@pytest.fixture(scope="session")
def make_checkpoint(corpus_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], Path]:
    """Checkpoints of a tiny VT5 with random weights, by seed."""
    return checkpoints(corpus_folder, tmp_path_factory.mktemp("checkpoints"))


@pytest.fixture(scope="session")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CommandServer]:
    """Runs commands as processes of their own."""
    server = CommandServer(tmp_path_factory.mktemp("commands"))
    yield server
    server.close()


WORKER_LIBRARIES = (
    "pfl_audit.models.donut.model", "pfl_audit.models.vt5.model", "pfl_audit.models.encoders.model",
    "pfl_audit.attacks.inversion.run", "pfl_audit.attacks.reconstruction.run", "pfl_audit.attacks.questions.engine",
)  # fmt: skip


@pytest.fixture(scope="module")
def warm_workers() -> Iterator[None]:
    """Workers of this process start from a server that has the libraries imported: an import takes longer than a test.

    Those of a command that runs as a process of its own start as they do for a user.
    """
    server = get_context("forkserver")
    server.set_forkserver_preload([*WORKER_LIBRARIES])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pfl_audit.models.processes.get_context", lambda how: server)
        yield


@pytest.fixture
def page(tmp_path: Path) -> Callable[..., Document]:
    """Pages with given words, in a row, and a picture of noise."""

    def make(*words: str, provider: str = "Acme Media", name: str = "doc_1") -> Document:
        path = tmp_path / f"{name}.png"
        if not path.exists():
            noise = np.random.default_rng(0).integers(0, 255, size=(60, 80, 3), dtype=np.uint8)
            Image.fromarray(noise).save(path)
        step = 1.0 / max(1, len(words))
        boxes = [[index * step, 0.1, (index + 1) * step, 0.2] for index in range(len(words))]
        return Document(name, provider, tuple(words), as_boxes(boxes, len(words)), PageImage(path))

    return make
