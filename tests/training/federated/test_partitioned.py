"""Runs over a partition of two sources: who may train on it, its scores, and its identity."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from pfl_audit.documents.client_partition import By, partition_corpora
from pfl_audit.documents.document import Document, Query, as_boxes
from pfl_audit.documents.readers import open_corpus
from pfl_audit.documents.writers import write_jsonl
from pfl_audit.errors import AuditError, UsageError
from pfl_audit.progress import Silent
from pfl_audit.training.federated.clients import partition
from pfl_audit.training.parts import split_queries
from pfl_audit.training.run import run_training
from pfl_audit.training.scores import mean_over_sources
from pfl_audit.training.settings import TrainSettings
from tests.training.federated.conftest import PRIVATE, QUICK, Federate

FRACTION = replace(QUICK, client_fraction=0.7)


def partitioned(corpus: Path, folder: Path, by: By, seed: int = 0) -> Path:
    """Two sources of six providers each, over three clients."""
    whole = open_corpus(corpus)
    train = sorted({page.provider for page in whole.documents if "train" in page.split})
    sources = {
        "tables": whole.where(lambda query: query.document.provider in train[:6]),
        "invoices": whole.where(lambda query: query.document.provider in train[6:]),
    }
    write_jsonl(partition_corpora(sources, 3, by, 1.0, seed), folder)
    return folder


def test_a_partition_by_source_trains_without_privacy_and_is_refused_with_it(
    federate: Federate, tmp_path: Path
) -> None:
    data = partitioned(federate.corpus, tmp_path / "data", "source")
    record = federate("out", "fl", settings=FRACTION, data=data)
    assert record["clients"] == 3
    assert record["communication"]["messages"] == 2 * 3 * 2
    with pytest.raises(AuditError, match=r"the provider of training question .* is in client"):
        federate("private", "fl-dp", PRIVATE, data=data)


def test_a_partition_by_provider_is_one_for_private_runs(corpus_folder: Path, tmp_path: Path) -> None:
    train, _ = split_queries(open_corpus(partitioned(corpus_folder, tmp_path / "data", "provider"), "blue"))
    assert sorted(len(client.providers) for client in partition(train)) == [3, 3, 6]


@pytest.mark.slow
def test_another_partition_is_another_run(federate: Federate, tmp_path: Path) -> None:
    """The digest of a corpus knows no clients."""
    for seed in (0, 1):
        partitioned(federate.corpus, tmp_path / f"data-{seed}", "source", seed)
    assert len({open_corpus(tmp_path / f"data-{seed}").digest for seed in (0, 1)}) == 1
    run = federate.run("out", "fl", data=tmp_path / "data-0")
    run_training(run, QUICK, Silent())
    with pytest.raises(UsageError, match="another run"):
        run_training(replace(run, data=tmp_path / "data-1"), QUICK, Silent())


@pytest.mark.sampled(1)
@pytest.mark.parametrize("mode", ["central", "fl-dp"])
def test_other_providers_of_the_same_pages_are_another_run(federate: Federate, tmp_path: Path, mode: str) -> None:
    """As if labels had been corrected; the digest of a corpus knows of no page whose it is."""
    data = tmp_path / "data"
    shutil.copytree(federate.corpus, data)
    privacy = PRIVATE if mode == "fl-dp" else None
    settings = QUICK if privacy else TrainSettings(steps=1, batch_size=2, validation_queries=2)
    run_training(run := federate.run("out", mode, data=data), settings, Silent(), privacy)
    before = open_corpus(data).digest
    names = json.loads((data / "doc2provider.json").read_text())
    pages = {page.file: page.provider for page in open_corpus(data, "blue").documents if page.client == 0}
    one = next(iter(pages))
    other = next(name for name, provider in pages.items() if provider != pages[one])
    names[one], names[other] = names[other], names[one]
    (data / "doc2provider.json").write_text(json.dumps(names))
    assert open_corpus(data).digest == before
    with pytest.raises(UsageError, match="another run"):
        run_training(run, settings, Silent(), privacy)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("mode", ["central", "fl-dp"])
def test_another_order_of_the_questions_is_another_run(federate: Federate, tmp_path: Path, mode: str) -> None:
    """Batches are drawn by row: a cut private run would have met the noise of a round with another update."""
    privacy = PRIVATE if mode == "fl-dp" else None
    settings = QUICK if privacy else TrainSettings(steps=1, batch_size=2, validation_queries=2)
    write_jsonl(open_corpus(federate.corpus, "blue"), tmp_path / "data")
    run_training(run := federate.run("out", mode, data=tmp_path / "data"), settings, Silent(), privacy)
    before = open_corpus(tmp_path / "data").digest
    lines = (tmp_path / "data/corpus.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "data/corpus.jsonl").write_text("".join(lines[::-1]))
    assert open_corpus(tmp_path / "data").digest == before
    with pytest.raises(UsageError, match="another run"):
        run_training(run, settings, Silent(), privacy)


def queries(**counts: int) -> list[Query]:
    boxes = as_boxes([], 0)
    return [
        Query(f"{source}-{at}", Document(f"{source}_{at}", "Acme", (), boxes, source=source), "What?", (source,))
        for source, count in counts.items()
        for at in range(count)
    ]


def right(asked: Sequence[Query]) -> dict[str, float]:
    """Every answer about tables is right, every second about invoices, and none about claims."""
    worth = {"tables": 1.0, "invoices": 0.5, "claims": 0.0}
    return {"anls": sum(worth[query.document.source] for query in asked) / len(asked)}


def test_the_score_is_the_mean_over_sources_of_the_mean_over_examples() -> None:
    found = mean_over_sources(right, queries(tables=90, invoices=9, claims=1), 256)
    assert found == {"anls": 0.5, "anls/tables": 1.0, "anls/invoices": 0.5, "anls/claims": 0.0}
    assert right(queries(tables=90, invoices=9, claims=1))["anls"] > 0.9  # what a mean over examples would be
    assert mean_over_sources(right, queries(tables=5), 256) == {"anls": 1.0}
    assert mean_over_sources(right, [], 256) == {}


def test_every_source_has_its_share_of_the_validation() -> None:
    asked: list[int] = []
    mean_over_sources(lambda some: asked.append(len(some)) or {}, queries(tables=90, invoices=9, claims=9), 12)
    assert asked == [4, 4, 4]
