import json
import os
import signal
import stat
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file
from transformers import T5ForConditionalGeneration

from pfl_audit.cli.main import run
from pfl_audit.documents.corpus import Corpus
from pfl_audit.documents.readers import open_corpus
from pfl_audit.errors import AuditError, UsageError
from pfl_audit.models.vt5.checkpoint import load_vt5
from pfl_audit.models.vt5.training import open_training
from pfl_audit.progress import Silent
from pfl_audit.training.batching import BatchOrder
from pfl_audit.training.central import train_central
from pfl_audit.training.loop import STATE_FILE
from pfl_audit.training.parts import of_some_providers, split_queries
from pfl_audit.training.settings import TrainSettings
from pfl_audit.training.start import Training
from pfl_audit.training.trainable import choose_trainable
from tests.training.killed import kill_once_there, obeyed

Make = Callable[[int], Path]
SHORT = TrainSettings(
    steps=6, batch_size=4, learning_rate=1e-3, warmup=2, save_every=2, validate_every=3, validation_queries=4
)


@pytest.fixture
def blue(corpus_folder: Path) -> Corpus:
    return open_corpus(corpus_folder, "blue")


class Interrupting(Silent):
    """Sends SIGTERM to this process while a step is being finished."""

    def __init__(self, step: int) -> None:
        self.left = step

    def task(self, name: str, total: int, done: int = 0) -> Any:
        return super().task(name, total, done) if name == "training" else nullcontext(Silent())

    def advance(self, amount: int = 1, note: str = "") -> None:
        self.left -= amount
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGTERM)


def train(
    folder: Path, out: Path, blue: Corpus, settings: TrainSettings = SHORT, progress: Silent | None = None
) -> dict[str, torch.Tensor]:
    model = open_training(folder, train_visual=not settings.freeze_visual)
    queries, valid = split_queries(blue)
    training = Training(model, choose_trainable(model), queries, valid, progress or Silent())
    train_central(training, settings, out, {})
    return {name: tensor.clone() for name, tensor in model.network.state_dict().items()}


def test_trains_everything_but_the_dit(make_checkpoint: Make, blue: Corpus, tmp_path: Path) -> None:
    before = load_vt5(make_checkpoint(0)).network.state_dict()
    after = train(make_checkpoint(0), tmp_path, blue)
    for name, tensor in after.items():
        frozen = name.startswith("visual_embedding.image_model.")
        assert torch.equal(tensor, before[name]) == frozen, name


def test_the_dit_is_trained_where_it_is_wanted(make_checkpoint: Make, blue: Corpus, tmp_path: Path) -> None:
    before = load_vt5(make_checkpoint(0)).network.state_dict()
    after = train(make_checkpoint(0), tmp_path, blue, replace(SHORT, freeze_visual=False))
    name = "visual_embedding.image_model.embeddings.patch_embeddings.projection.weight"
    assert not torch.equal(after[name], before[name])


@pytest.mark.sampled(1)
@pytest.mark.parametrize("optimizer", ["adamw", "adafactor"])
def test_a_run_that_was_cut_ends_with_the_same_weights(
    make_checkpoint: Make, blue: Corpus, tmp_path: Path, optimizer: str
) -> None:
    settings = replace(SHORT, optimizer=optimizer)
    whole = train(make_checkpoint(0), tmp_path / "whole", blue, settings)

    class Cut(Silent):
        def say(self, text: str) -> None:
            if text.startswith("step 3"):
                raise KeyboardInterrupt

    model = open_training(make_checkpoint(0))
    queries, valid = split_queries(blue)
    with pytest.raises(KeyboardInterrupt):
        train_central(Training(model, choose_trainable(model), queries, valid, Cut()), settings, tmp_path / "cut", {})
    assert (tmp_path / "cut" / STATE_FILE).is_file()
    resumed = train(make_checkpoint(0), tmp_path / "cut", blue, settings)
    for name, tensor in whole.items():
        torch.testing.assert_close(resumed[name], tensor, atol=0, rtol=0)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("step", [3, 4], ids=["before a validation", "between validations"])
def test_sigterm_keeps_the_last_step_and_the_run_ends_the_same(
    make_checkpoint: Make, blue: Corpus, tmp_path: Path, step: int
) -> None:
    settings = replace(SHORT, save_every=100)
    whole = train(make_checkpoint(0), tmp_path / "whole", blue, settings)
    with obeyed(signal.SIGTERM), pytest.raises(KeyboardInterrupt):
        train(make_checkpoint(0), tmp_path / "cut", blue, settings, Interrupting(step))
    with safe_open(tmp_path / "cut" / STATE_FILE, "pt") as state:
        assert json.loads(state.metadata()["state"])["step"] == step
    resumed = train(make_checkpoint(0), tmp_path / "cut", blue, settings)
    for name, tensor in whole.items():
        assert torch.equal(resumed[name], tensor), name
    states = []
    for name in ("whole", "cut"):
        with safe_open(tmp_path / name / STATE_FILE, "pt") as state:
            states.append(({key: state.get_tensor(key).tolist() for key in state.keys()}, state.metadata()))  # noqa: SIM118
    assert states[0] == states[1]  # weights, moments and history


def test_memory_that_runs_out_is_one_line(
    corpus_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: object, **__: object) -> None:
        torch.empty(1 << 62, dtype=torch.uint8)

    monkeypatch.setattr("pfl_audit.training.loop.take_step", full)
    arguments = ["train", "--data", str(corpus_folder), "--out", str(tmp_path / "ckpt"), "--vocabulary", "150"]
    assert run(arguments) == 2
    said = capsys.readouterr().err.splitlines()[-1]
    assert said == "pfl-audit: out of memory. Lower --batch-size, or use a machine with more."


@pytest.mark.sampled(1)
@pytest.mark.parametrize("more", [[], ["--lora", "2"]], ids=["whole", "adapters"])
def test_a_checkpoint_is_readable_by_its_owner_only(
    make_checkpoint: Make, corpus_folder: Path, tmp_path: Path, more: list[str]
) -> None:
    arguments = ["train", "--data", str(corpus_folder), "--from", str(make_checkpoint(0)), "--steps", "2", "--quiet"]
    before = os.umask(0)
    try:
        assert run([*arguments, *more, "--batch-size", "2", "--out", str(tmp_path / "ckpt")]) == 0
    finally:
        os.umask(before)
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in [tmp_path / "ckpt", *(tmp_path / "ckpt").rglob("*")]}
    assert len(modes) > 4
    assert modes == {path: 0o700 if path.is_dir() else 0o600 for path in modes}


def test_other_settings_do_not_continue_a_run(make_checkpoint: Make, blue: Corpus, tmp_path: Path) -> None:
    train(make_checkpoint(0), tmp_path, blue)
    with pytest.raises(UsageError, match="other data or settings"):
        train(make_checkpoint(0), tmp_path, blue, replace(SHORT, learning_rate=1e-4))


def test_a_damaged_state_is_one_clear_error(make_checkpoint: Make, blue: Corpus, tmp_path: Path) -> None:
    (tmp_path / STATE_FILE).write_bytes(b"damaged")
    with pytest.raises(AuditError, match="is damaged"):
        train(make_checkpoint(0), tmp_path, blue)


def test_an_endless_loss_stops_the_run(make_checkpoint: Make, blue: Corpus, tmp_path: Path) -> None:
    model = open_training(make_checkpoint(0))
    with torch.no_grad():
        model.network.language_backbone.shared.weight.fill_(float("inf"))
    queries, _ = split_queries(blue)
    with pytest.raises(AuditError, match="training loss is nan at step 1"):
        train_central(Training(model, choose_trainable(model), queries, [], Silent()), SHORT, tmp_path, {})


@pytest.mark.parametrize("change", [{"steps": 0}, {"batch_size": 0}, {"learning_rate": 0.0}, {"optimizer": "none"}])
def test_settings_that_cannot_be(
    make_checkpoint: Make, blue: Corpus, tmp_path: Path, change: dict[str, object]
) -> None:
    with pytest.raises(UsageError):
        train(make_checkpoint(0), tmp_path, blue, replace(SHORT, **change))  # type: ignore[arg-type]


def test_order_is_the_same_from_any_start_and_covers_every_query(make_checkpoint: Make, blue: Corpus) -> None:
    model = open_training(make_checkpoint(0))
    queries, _ = split_queries(blue)
    lengths = [model.length(query) for query in queries]
    per_epoch = -(-len(queries) // 4)
    order = BatchOrder(lengths, 4, seed=1)
    first = [order(step) for step in range(2 * per_epoch)]
    assert order.epoch_steps == per_epoch
    for epoch in (first[:per_epoch], first[per_epoch:]):
        assert sorted(index for batch in epoch for index in batch) == list(range(len(queries)))
    for start in (1, per_epoch, per_epoch + 3):
        assert BatchOrder(lengths, 4, seed=1)(start) == first[start]


def test_command_survives_sigkill_and_makes_a_checkpoint_that_opens(corpus_folder: Path, tmp_path: Path) -> None:
    arguments = [
        "train", "--data", str(corpus_folder), "--out", str(tmp_path / "ckpt"), "--vocabulary", "150", "--steps", "30",
        "--batch-size", "2", "--save-every", "5", "--validate-every", "100", "--optimizer", "adafactor", "--half",
    ]  # fmt: skip
    state = tmp_path / "ckpt" / STATE_FILE
    kill_once_there(arguments, state)
    assert run(arguments) == 0
    record = json.loads((tmp_path / "ckpt/training.json").read_text())
    assert record["steps"] == 30
    assert record["privacy"].startswith("none")
    assert not state.exists()
    assert {tensor.dtype for tensor in load_file(tmp_path / "ckpt/model.safetensors").values()} == {torch.float16}
    assert load_vt5(tmp_path / "ckpt").notes[-1] == "boxes: thousandths"
    assert run(arguments) == 0  # finished: nothing is trained again
    assert run([*arguments, "--seed", "9"]) == 4


@pytest.mark.parametrize("train_visual", [False, True])
def test_batches_are_put_on_the_device(
    make_checkpoint: Make, blue: Corpus, monkeypatch: pytest.MonkeyPatch, *, train_visual: bool
) -> None:
    given: dict[str, torch.Tensor] = {}

    def forward(self: object, **inputs: torch.Tensor) -> SimpleNamespace:
        given.update(inputs)
        return SimpleNamespace(loss=inputs["labels"].sum())

    monkeypatch.setattr(T5ForConditionalGeneration, "forward", forward)
    model = open_training(make_checkpoint(0), device="meta", train_visual=train_visual)
    queries = blue.queries[:2]
    pixels = torch.stack([model.page(query.document) for query in queries])
    pages = pixels if train_visual else torch.zeros(2, 5, model.network.config.visual.hidden_size)
    model.batch_loss([model.example(query) for query in queries], pages)
    assert {name: tensor.device.type for name, tensor in given.items()} == dict.fromkeys(
        ("inputs_embeds", "attention_mask", "labels"), "meta"
    )


def test_a_share_of_the_providers_is_drawn_provider_by_provider(blue: Corpus) -> None:
    queries, _ = split_queries(blue)

    def drawn(share: float, seed: int, left_out: str = "") -> set[str]:
        held = [query for query in queries if query.document.provider != left_out]
        return {query.document.provider for query in of_some_providers(held, share, seed)}

    every = drawn(1.0, 0)
    assert every == {query.document.provider for query in queries}
    assert of_some_providers(queries, 1.0, 3) == queries
    halves = [drawn(0.5, seed) for seed in range(40)]
    assert len({frozenset(half) for half in halves}) > 20
    assert 0.4 < np.mean([len(half) / len(every) for half in halves]) < 0.6
    for name in every:
        assert 0.2 < np.mean([name in half for half in halves]) < 0.8
        assert drawn(0.5, 0, left_out=name) == drawn(0.5, 0) - {name}


def test_a_share_of_the_providers_is_recorded_without_names(
    make_checkpoint: Make, corpus_folder: Path, blue: Corpus, tmp_path: Path
) -> None:
    arguments = ["train", "--data", str(corpus_folder), "--from", str(make_checkpoint(0)), "--steps", "1", "-q"]
    out = tmp_path / "half"
    assert run([*arguments, "--out", str(out), "--providers-share", "0.5", "--seed", "1"]) == 0
    record = json.loads((out / "training.json").read_text())
    queries, _ = split_queries(blue)
    kept = of_some_providers(queries, 0.5, 1)
    assert record["identity"]["providers_share"] == 0.5
    assert record["data"]["providers"] == len({query.document.provider for query in kept})
    assert record["data"]["queries"] == len(kept) < len(queries)
    assert not any(name in (out / "training.json").read_text() for name in blue.providers)
    # The same folder is of another run for another share.
    assert run([*arguments, "--out", str(out), "--seed", "1"]) == 4


@pytest.mark.parametrize("share", ["0", "1.5", "-1", "nan"])
def test_a_share_that_is_none_is_refused(
    share: str, make_checkpoint: Make, corpus_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["train", "--data", str(corpus_folder), "--from", str(make_checkpoint(0)), "--out", str(tmp_path / "x")]
    assert run([*arguments, "--providers-share", share, "-q"]) == 4
    assert "--providers-share lies above 0" in capsys.readouterr().err
