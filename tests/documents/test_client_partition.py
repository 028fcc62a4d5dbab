"""Partition of sources into clients: Table 2 of the pilot, and whole corpora."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pfl_audit.cli.main import run
from pfl_audit.documents.client_partition import (
    By,
    assign,
    clients_of_sources,
    dirichlet_shares,
    even_shares,
    partition_corpora,
)
from pfl_audit.documents.corpus import Corpus
from pfl_audit.documents.readers import open_corpus
from pfl_audit.errors import NotAuditableError, UsageError

DOCUMENTS = {"WTQ": 1346, "DocVQA": 10194, "TabFact": 13163}
TABLE_2 = {3: ((1, 1346), (1, 10194), (1, 13163)), 10: ((1, 1346), (4, 2548), (5, 2632)),
           30: ((2, 673), (13, 784), (15, 877))}  # fmt: skip


@pytest.mark.parametrize("clients", TABLE_2)
def test_clients_and_documents_are_those_of_table_2(clients: int) -> None:
    units = {source: [f"{at:05d}" for at in range(count)] for source, count in DOCUMENTS.items()}
    drawn, first = assign(units, clients, "source", 0.5, seed=1), 0
    for source, (own, held) in zip(DOCUMENTS, TABLE_2[clients], strict=True):
        sizes = Counter(drawn[source])
        assert sorted(sizes) == list(range(first, first + own))
        assert set(sizes.values()) <= {held, held + 1}
        assert sum(sizes.values()) == DOCUMENTS[source]
        assert DOCUMENTS[source] // own == held  # the printed mean
        first += own
    assert first == clients


def test_left_over_clients_go_to_sources_without_one_first() -> None:
    """The reference code goes by order alone, which is the same in Table 2, and leaves a small last source out."""
    assert clients_of_sources([1000, 1000, 10], 3) == [1, 1, 1]
    assert clients_of_sources([10, 1000, 1000], 4) == [1, 2, 1]
    assert even_shares(7, 3) == [3, 2, 2]


def test_draws_are_those_of_the_seed_without_replacement() -> None:
    units = {"a": [str(at) for at in range(40)], "b": [str(at) for at in range(40)]}
    drawn = assign(units, 8, "source", 0.5, seed=1)
    assert drawn == assign(units, 8, "source", 0.5, seed=1)
    assert drawn != assign(units, 8, "source", 0.5, seed=2)
    assert drawn["a"] != sorted(drawn["a"])
    assert Counter(drawn["a"]) == dict.fromkeys(range(4), 10)


def test_a_dirichlet_partition_grows_even_with_alpha() -> None:
    def spread(alpha: float) -> float:
        rng = np.random.default_rng(0)
        shares = [dirichlet_shares(1000, 10, alpha, rng) for _ in range(50)]
        assert all(sum(share) == 1000 and min(share) >= 0 for share in shares)
        return float(np.std(shares))

    # The variance of a proportion of K is (1 - 1/K) / K / (K alpha + 1).
    for alpha in (0.1, 1.0, 100.0):
        assert spread(alpha) == pytest.approx(1000 * np.sqrt(0.09 / (10 * alpha + 1)), rel=0.15)


@pytest.mark.parametrize(
    ("sizes", "clients", "by", "complaint"),
    [
        ([3], 5, "source", "client 3 and 1 more would have no document"),
        ([1000, 1, 1], 2, "source", "source s1 would have none of 2 clients|source s2 would have none"),
        ([5, 5], 8, "dirichlet", "would have no document"),
    ],
)
def test_an_empty_client_is_refused(sizes: list[int], clients: int, by: By, complaint: str) -> None:
    units = {f"s{number}": [str(at) for at in range(size)] for number, size in enumerate(sizes)}
    with pytest.raises(UsageError, match=complaint) as caught:
        assign(units, clients, by, 0.01, seed=0)
    assert "client" in caught.value.remedy


def halves(corpus_folder: Path) -> dict[str, Corpus]:
    """The corpus as two sources of other providers; ids of one appear in the other too."""
    whole = open_corpus(corpus_folder)
    first = set(whole.providers[::2])
    return {
        "tables": whole.where(lambda query: query.document.provider in first),
        "invoices": whole.where(lambda query: query.document.provider not in first),
    }


@pytest.mark.parametrize("by", ["source", "provider", "dirichlet"])
def test_every_training_document_has_one_client_and_other_pages_keep_their_part(corpus_folder: Path, by: By) -> None:
    sources = halves(corpus_folder)
    found = partition_corpora(sources, 4, by, 100.0, seed=3)
    before = [page for corpus in sources.values() for page in corpus.documents]
    assert sorted(page.digest for page in found.documents) == sorted(page.digest for page in before)
    trained = [page for page in found.documents if page.client is not None]
    assert {page.client for page in trained} == set(range(4))
    assert all(page.split == f"blue_train_client_{page.client}" for page in trained)
    assert len(trained) == sum("blue_train" in page.split for page in before)
    others = Counter(page.split for page in found.documents if page.client is None)
    assert others == Counter(page.split for page in before if "blue_train" not in page.split)
    assert len({(page.source, page.file) for page in trained}) == len({(p.source, p.file, p.client) for p in trained})
    if by != "source":
        assert len({page.provider for page in trained}) == len({(page.provider, page.client) for page in trained})
    if by != "dirichlet":
        assert len({(page.source, page.client) for page in trained}) == 4


def test_one_provider_in_two_sources(corpus_folder: Path) -> None:
    """Its protection would be counted twice; by source, for training without privacy, it is no harm."""
    corpus = open_corpus(corpus_folder)
    sources = {"a": corpus, "b": corpus}
    for by in ("provider", "dirichlet"):
        with pytest.raises(UsageError, match="a provider is in two sources"):
            partition_corpora(sources, 4, by, 1.0, 0)  # type: ignore[arg-type]
    assert len(partition_corpora(sources, 4, "source", 1.0, 0).queries) == 2 * len(corpus.queries)


def test_a_source_without_training_documents(red: Corpus) -> None:
    with pytest.raises(NotAuditableError, match="source red holds no BLUE training document"):
        partition_corpora({"red": red}, 2, "source", 1.0, 0)


def command(*words: object) -> int:
    return run(["data", "partition", *map(str, words)])


def test_the_command_writes_a_corpus_that_trains(
    corpus_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(corpus_folder, "--clients", 5, "--by", "provider", "--out", tmp_path / "out", "--json") == 0
    report: dict[str, Any] = json.loads(capsys.readouterr().out)
    again = open_corpus(tmp_path / "out", "blue")
    trained = [page for page in again.documents if page.client is not None]
    assert {page.source for page in again.documents} == {corpus_folder.name}
    assert [row["client"] for row in report["clients"]] == list(range(5))
    assert sum(row["providers"] for row in report["clients"]) == len({page.provider for page in trained})
    assert command(corpus_folder, "--clients", 5, "--out", tmp_path / "out") == 4


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--clients", "999"], "more would have no document. Lower --clients"),
        (["--alpha", "1"], "--alpha means nothing with --by source"),
        (["--by", "dirichlet", "--alpha", "nan"], "Give --alpha above 0"),
        (["--by", "label"], "label"),
        (["--clients", "0"], "--clients"),
    ],
)
def test_what_cannot_be_leaves_nothing(
    words: list[str], complaint: str, corpus_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(corpus_folder, "--out", tmp_path / "out", *words) == 4
    assert complaint in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_two_sources_of_one_name(corpus_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(corpus_folder, corpus_folder, "--out", tmp_path / "out") == 4
    assert "two sources have the same name" in capsys.readouterr().err
