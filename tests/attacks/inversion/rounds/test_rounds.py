"""Audits of kept messages: what they give away is found, and other evidence is no leak."""

import json
import pickle
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from pfl_audit.attacks.inversion.bag import lower_share
from pfl_audit.attacks.inversion.bag_readers import reader_of
from pfl_audit.attacks.inversion.controls import FILLINGS
from pfl_audit.attacks.inversion.decision import decide
from pfl_audit.attacks.inversion.inputs import GradientInputs
from pfl_audit.attacks.inversion.rounds.opened import open_rounds
from pfl_audit.cli.main import run
from pfl_audit.core.store import ResponseStore
from pfl_audit.core.subject import AuditJob
from pfl_audit.documents.readers import open_corpus
from pfl_audit.models.openings import GradientOpening
from pfl_audit.progress import Silent, Task
from pfl_audit.training.federated.kept import MODEL, kept_path
from tests.attacks.inversion.room import BUDGET
from tests.attacks.inversion.rounds.federations import (
    Federation,
    audit,
    check,
    copy_of,
    messages,
    training,
)


@pytest.fixture(scope="module")
def federation(tmp_path_factory: pytest.TempPathFactory) -> Federation:
    folder = tmp_path_factory.mktemp("federation")
    corpus, out = folder / "data", folder / "ckpt"
    sizes = {"members": 24, "non-members": 8, "red-providers": 8, "documents": 2, "red-documents": 1, "questions": 2}
    chosen = [part for name, size in sizes.items() for part in (f"--{name}", str(size))]
    assert run(["data", "make", "--out", str(corpus), *chosen, "--clients", "4", "-q"]) == 0
    assert run(["train", *training(corpus, "vt5-pretrained", out), "--rounds", "2"]) == 0
    return corpus, out


@pytest.fixture
def copied(federation: Federation, tmp_path: Path) -> Federation:
    """The same, whose messages may be changed."""
    return federation[0], copy_of(federation[1], tmp_path)


@pytest.mark.slow
def test_steps_of_adamw_give_the_pages_of_their_clients_away(federation: Federation, tmp_path: Path) -> None:
    code, results = audit(federation, tmp_path / "run")
    assert code == 1
    found = check(results)
    assert found["finding"]["level"] == "leak"
    values = {metric["name"]: metric for metric in found["metrics"]}
    for measure in ("tokens in any order", "coordinates in any order"):
        assert values[measure]["value"] > 0.8
        assert values[measure]["chance"] < 0.7
        assert values[f"{measure}, of noise"]["value"] < 0.2
    assert [row[0] for row in found["tables"][0]["rows"]] == [1, 2]
    assert len(found["tables"][1]["rows"]) == 8
    assert len(found["curves"]) == 3  # tokens, coordinates, words in place
    words = {
        word for document in open_corpus(federation[0], "blue").documents for word in document.words if len(word) > 6
    }
    text = (tmp_path / "run/results.json").read_text() + (tmp_path / "run/report.html").read_text()
    assert not [word for word in words if f" {word} " in text]


class Elsewhere:
    """Another process, as far as a call can notice: the model is opened anew, and calls come as bytes."""

    batch_tokens, shares_files, called = None, False, 0

    def calls(self, opening: GradientOpening) -> "Elsewhere":
        self.model = pickle.loads(pickle.dumps(opening)).open()
        return self

    def each(self, calls: list[Any], _: Task, units: list[int]) -> Iterator[tuple[int, Any]]:
        assert units == [1] * len(calls)
        for at in reversed(range(len(calls))):
            self.called += 1
            yield at, pickle.loads(pickle.dumps(calls[at]))(self.model, Silent())


@pytest.mark.slow
def test_other_processes_read_the_same(federation: Federation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, alone = audit(federation, tmp_path / "one", "--rounds", "2")
    there = Elsewhere()
    monkeypatch.setattr(AuditJob, "pool", there)
    _, results = audit(federation, tmp_path / "two", "--rounds", "2", "--workers", "2")
    assert there.called == 4
    assert check(results) == check(alone)


@pytest.mark.slow
def test_steps_of_adamw_give_questions_and_answers_of_a_donut_away(federation: Federation, tmp_path: Path) -> None:
    corpus, out = federation[0], tmp_path / "donut"
    assert run(["train", *training(corpus, "donut", out), "--rounds", "1"]) == 0
    _, results = audit((corpus, out), tmp_path / "run")
    metrics = {metric["name"]: metric for metric in check(results)["metrics"]}
    assert metrics["tokens in any order"]["value"] > metrics["tokens in any order"]["chance"] + 0.2


@pytest.mark.slow
def test_messages_of_self_pretraining_give_their_pages_away(federation: Federation, tmp_path: Path) -> None:
    """Masks and location tokens are in no page, and do not count as false ones."""
    corpus, out = federation[0], tmp_path / "pretrained"
    first = ["--pretrain", "tm", "--pretrain-rounds", "1"]
    assert run(["train", *training(corpus, "vt5-pretrained", out), "--rounds", "1", *first]) == 0
    _, results = audit((corpus, out), tmp_path / "run", "--phase", "pretraining")
    metrics = {metric["name"]: metric for metric in check(results)["metrics"]}
    tokens, coordinates = (metrics[f"{kind} in any order"] for kind in ("tokens", "coordinates"))
    assert tokens["value"] > tokens["chance"] + 0.2
    assert coordinates["value"] > coordinates["chance"] + 0.5
    assert metrics["tokens in any order, precision"]["value"] > 0.8


def test_messages_of_other_clients_are_no_leak(copied: Federation, tmp_path: Path) -> None:
    """Each message replaces that of another client."""
    by_round: dict[Path, list[Path]] = {}
    for path in messages(copied[1]):
        by_round.setdefault(path.parent, []).append(path)
    for paths in by_round.values():
        held = [path.read_bytes() for path in paths]
        for path, content in zip(paths, [*held[1:], held[0]], strict=True):
            path.write_bytes(content)
    code, results = audit(copied, tmp_path / "run")
    assert check(results)["finding"]["level"] == "unresolved"
    assert code == 3
    assert results["verdict"]["status"] != "leaks"


@pytest.mark.slow
def test_the_evidence_of_other_questions_is_no_leak(federation: Federation, tmp_path: Path) -> None:
    """Every message beside the questions of another client, in several orders."""
    corpus, out = federation
    inputs = GradientInputs(round=out, data=corpus)
    with ResponseStore(tmp_path / "store.sqlite") as store:
        opened = open_rounds(
            inputs, out, AuditJob(str(out), "cpu", False, 0, store=store, states=tmp_path / "states", progress=Silent())
        )
    pages, reader = opened.pages, reader_of(opened.model)
    assert pages is not None
    read = [(one.round, one.rows, reader.read(one.seen).items) for one in opened.sent]
    levels = []
    for seed in range(5):
        rng, parts = np.random.default_rng(seed), []
        permutations = pages.permutations(FILLINGS, rng)
        for number in (1, 2):
            some = [(rows, items) for round_number, rows, items in read if round_number == number]
            order = rng.permutation(len(some))
            for at, other in zip(order, np.roll(order, 1), strict=True):
                rows = some[other][0]
                assert rows is not None
                counts = pages.counts(some[at][1], rows, permutations)
                parts.append({name: lower_share(found) for name, found in counts.items()})
        found = decide(parts, BUDGET)
        assert found is not None
        levels.append(found.level)
    assert "leak" not in levels


@pytest.mark.slow
@pytest.mark.parametrize("size", [0.0, 1e-3])
def test_messages_without_evidence_are_no_leak(size: float, copied: Federation, tmp_path: Path) -> None:
    generator = torch.Generator().manual_seed(0)
    for path in messages(copied[1]):
        save_file(
            {name: size * torch.randn(part.shape, generator=generator) for name, part in load_file(path).items()}, path
        )
    _, results = audit(copied, tmp_path / "run")
    found = check(results)
    assert found["status"] == "failed" if size == 0 else found["finding"]["level"] == "unresolved"


@pytest.mark.slow
def test_stated_noise_is_held_against_its_bound(copied: Federation, tmp_path: Path) -> None:
    record = kept_path(copied[1]) / "federation.json"
    record.write_text(json.dumps({**json.loads(record.read_text()), "clip": 1e-6}))
    generator = torch.Generator().manual_seed(0)
    for path in messages(copied[1]):
        save_file(
            {name: 1e-4 * torch.randn(part.shape, generator=generator) for name, part in load_file(path).items()}, path
        )
        beside = path.with_suffix(".json")
        beside.write_text(json.dumps({**json.loads(beside.read_text()), "noise": 1e-4}))
    _, results = audit(copied, tmp_path / "run")
    finding = check(results)["finding"]
    assert finding["level"] == "none"
    both = "an observer of 2 messages who chooses between the company and one other is right in 51.1 %"
    assert both in finding["text"]


@pytest.mark.slow
def test_a_message_of_no_question_is_not_scored(copied: Federation, tmp_path: Path) -> None:
    """A round of a private run may draw no company of a client."""
    beside = messages(copied[1])[0].with_suffix(".json")
    beside.write_text(json.dumps({**json.loads(beside.read_text()), "queries": []}))
    _, results = audit(copied, tmp_path / "run", "--rounds", "1")
    assert len(check(results)["tables"][1]["rows"]) == 3


@pytest.mark.slow
def test_a_sum_of_clients_is_read_as_one_message(copied: Federation, tmp_path: Path) -> None:
    folder = kept_path(copied[1]) / "round-0001"
    shutil.rmtree(kept_path(copied[1]) / "round-0002")
    paths = [path for path in messages(copied[1]) if path.parent == folder]
    parts, beside = (
        [load_file(path) for path in paths],
        [json.loads(path.with_suffix(".json").read_text()) for path in paths],
    )
    save_file({name: sum(part[name] for part in parts) for name in parts[0]}, folder / "sum.safetensors")
    origin = {"clients": [0, 1, 2, 3], "queries": [query for one in beside for query in one["queries"]]}
    (folder / "sum.json").write_text(json.dumps(origin))
    for path in paths:
        path.unlink()
    _, results = audit(copied, tmp_path / "run")
    found = check(results)
    assert "1 message of 1 round, 1 of them sums of clients" in found["finding"]["text"]
    assert found["tables"][1]["rows"][0][1] == "0, 1, 2, 3"


@pytest.mark.slow
def test_what_was_read_is_not_read_again(
    federation: Federation, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = ["--store", str(tmp_path / "store"), "--rounds", "2"]
    _, first = audit(federation, tmp_path / "one", *store)
    corpus, out = federation
    given = ["--round", str(out), "--data", str(corpus), "--out", str(tmp_path / "two"), "--fail-on", "never"]
    assert run(["invert", *given, *store]) == 0
    assert "0 inversions made, 4 inversions reused" in capsys.readouterr().err
    assert check(first) == check(json.loads((tmp_path / "two/results.json").read_text()))


@pytest.mark.slow
def test_without_the_corpus_words_are_kept_and_nothing_is_scored(federation: Federation, tmp_path: Path) -> None:
    out = tmp_path / "run"
    assert run(["invert", "--round", str(federation[1]), "--rounds", "2", "--out", str(out), "-q"]) == 3
    found = check(json.loads((out / "results.json").read_text()))
    assert found["status"] == "skipped"
    assert "Give --data" in found["reason"]
    assert len(list((out / "private").glob("messages-round-2-*.json"))) == 4


def no_such_round(out: Path) -> None:
    """Nothing is changed: the command names another round."""


def other_questions(out: Path) -> None:
    path = messages(out)[0].with_suffix(".json")
    path.write_text(json.dumps({"clients": [0], "queries": ["nothing"]}))


def not_finite(out: Path) -> None:
    path = messages(out)[0]
    save_file({name: torch.full_like(part, torch.nan) for name, part in load_file(path).items()}, path)


def another_shape(out: Path) -> None:
    path = messages(out)[0]
    save_file({name: part[None] for name, part in load_file(path).items()}, path)


def other_tensors(out: Path) -> None:
    path = messages(out)[0]
    save_file({f"x.{name}": part for name, part in load_file(path).items()}, path)


def no_model(out: Path) -> None:
    (kept_path(out) / "round-0001" / MODEL).unlink()


def a_pickle(out: Path) -> None:
    messages(out)[0].write_bytes(b"\x80\x04\x95" + bytes(64))


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("change", "options", "said"),
    [
        (no_such_round, ["--rounds", "9"], "has no round 9"),
        (other_questions, [], "the corpus lacks questions of client-0000 in round 1"),
        (another_shape, [], "is not that of the model"),
        (other_tensors, [], "none of its tensors is one of the model"),
        (no_model, [], "model.safetensors"),
        (a_pickle, [], "client-0000.safetensors"),
    ],
)
def test_what_cannot_be_read_costs_one_line(
    change: Callable[[Path], None],
    options: list[str],
    said: str,
    copied: Federation,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    change(copied[1])
    code, results = audit(copied, tmp_path / "run", *options)
    assert code in (2, 4)
    assert results == {}
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line


def test_a_message_that_is_not_finite_ends_its_check(copied: Federation, tmp_path: Path) -> None:
    not_finite(copied[1])
    code, results = audit(copied, tmp_path / "run", "--rounds", "1")
    assert code == 3
    assert "NaN" in check(results)["reason"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--round", "CKPT", "--method", "words"], "--method"),
        (["--round", "CKPT", "--documents", "3"], "documents is of single gradients"),
        (["--rounds", "1"], "belong to --round"),
        (["--data", "CKPT"], "belong to --round"),
        (["--phase", "pretraining"], "belong to --round"),
        (["--round", "CKPT", "--phase", "pretraining"], "kept no messages of self-pretraining"),
        (["--round", "NOWHERE"], "NOWHERE"),
    ],
)
def test_options_that_do_not_go_together(
    options: list[str], said: str, federation: Federation, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [{"CKPT": str(federation[1])}.get(option, option) for option in options]
    assert run(["invert", *given, "--out", str(tmp_path / "run"), "-q"]) in (2, 4)
    assert said in capsys.readouterr().err
