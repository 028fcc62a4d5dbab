"""What many tests need: a small corpus, and models so small that they answer at once."""

from __future__ import annotations

import gc
import os
import sys

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")  # the processes of pytest share the cores
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

from collections import Counter
from collections.abc import Callable, Iterator
from multiprocessing import forkserver, get_context
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
from tests.helpers import helpers
from tests.prepared import prepared
from tests.timing import FIRST, SECOND, Timing, read_stated

RECIPE = Recipe(members=12, non_members=12, red_providers=10, clients=3, documents=2, red_documents=2, seed=3)
PIECES, ROWS = 800, 810
"""Of a tiny VT5's tokenizer and embedding. Fewer pieces make pages of more tokens, and attention to them slow."""


UNKNOWN = 10.0
"""CPU seconds of a file that was not measured: early enough not to be the one that the others wait for."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options on the times of tests, for ``make test-all`` and ``make durations``."""
    group = parser.getgroup("seconds")
    group.addoption("--check-times", action="store_true", help="fail where a file takes another time than is stated")
    group.addoption("--state-times", action="store_true", help="state the times of this run in tests/durations.json")


def pytest_configure(config: pytest.Config) -> None:
    """No garbage collection during that of tests, which makes millions of objects, and hardly any garbage.

    No wait for the disk: processes are killed here, and the power stays on. Processes that tests start do wait.
    """
    gc.disable()
    os.fsync = lambda file: None
    config.pluginmanager.register(Timing(config), "timing")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort cases into tiers, and files from the longest to the shortest, so that the processes end together."""
    mark_cases(items)
    here = Path(__file__).parent
    stated = read_stated()
    known: Counter[str] = sum((Counter(stated[tier]) for tier in (FIRST, SECOND)), Counter())
    items.sort(key=lambda item: -known.get(item.path.relative_to(here).as_posix(), UNKNOWN))


def mark_cases(items: list[pytest.Item]) -> None:
    """Mark the cases of a test that ``sampled(n)`` leaves to the second tier: all but ``n``, evenly spaced."""
    cases: dict[tuple[Path, str], list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("sampled"):
            cases.setdefault((item.path, item.originalname), []).append(item)  # type: ignore[attr-defined]
    for every in cases.values():
        marker = every[0].get_closest_marker("sampled")
        assert marker is not None
        count = min(len(every), marker.args[0])
        first = {len(every) * at // count for at in range(count)}
        for at, item in enumerate(every):
            if at not in first:
                item.add_marker("slow")


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
def corpus_folder() -> Path:
    """A synthetic corpus in PFL-DocVQA's layout."""
    return prepared("corpus", lambda folder: make_corpus(RECIPE, folder, Silent()))


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
def make_checkpoint(corpus_folder: Path) -> Callable[[int], Path]:
    """Checkpoints of a tiny VT5 with random weights, by seed."""

    def tokenizer(folder: Path) -> None:
        from pfl_audit.training.scratch import train_tokenizer

        folder.mkdir()
        train_tokenizer(open_corpus(corpus_folder), folder, PIECES)

    def make(seed: int) -> Path:
        base = prepared("tokenizer", tokenizer)
        return prepared(f"vt5-{seed}", lambda folder: save_tiny_vt5(base, folder, seed))

    return make


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
        forkserver.ensure_running()
        helpers.add(forkserver._forkserver._forkserver_pid)  # type: ignore[attr-defined]
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
