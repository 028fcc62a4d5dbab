"""Names that differ in case or spaces are one provider, for corpora, clients, budgets and audits alike."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from pfl_audit.attacks.questions.corpora import read_corpus
from pfl_audit.documents.client_partition import partition_corpora
from pfl_audit.documents.corpus import Corpus
from pfl_audit.documents.document import Document, Membership, Query
from pfl_audit.documents.readers import open_corpus
from pfl_audit.documents.sides import join_sides
from pfl_audit.errors import AuditError, UsageError
from pfl_audit.provider_identity import provider_identity
from pfl_audit.training.federated.clients import merged, partition
from pfl_audit.training.federated.flower.provider_overlap import provider_marks

NAMES = ("Acme Media", "ACME  MEDIA", "acme media ", "Acme-Media", "Bolt")
Page = Callable[..., Document]


def corpus_of(folder: Path, *, labels: tuple[str, ...] = ("member",) * 5, split: str = "blue_train") -> Path:
    """One page of each name."""
    lines = [
        {"id": f"d{at}_1", "provider": name, "words": ["a", name], "boxes": [[0, 0, 1, 1]] * 2, "membership": label,
         "split": split, "questions": [{"question": "Who?", "answers": [name]}]}
        for at, (name, label) in enumerate(zip(NAMES, labels, strict=True))
    ]  # fmt: skip
    folder.mkdir()
    (folder / "corpus.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


def test_case_and_spaces_do_not_count() -> None:
    assert len({provider_identity(name) for name in NAMES[:3]}) == 1
    assert len({provider_identity(name) for name in NAMES}) == 3
    assert provider_marks("secret", NAMES[:1]) == provider_marks("secret", NAMES[1:3])


def test_a_corpus_is_read_with_the_first_name(tmp_path: Path) -> None:
    corpus = open_corpus(corpus_of(tmp_path / "data"))
    assert [page.provider for page in corpus.documents] == ["Acme Media"] * 3 + ["Acme-Media", "Bolt"]
    assert corpus.members() == corpus.providers == ("Acme Media", "Acme-Media", "Bolt")
    assert [query.answers[0] for query in corpus.queries] == list(NAMES)  # answers stay as they are


def test_a_corpus_with_one_name_each_is_the_same_object(red: Corpus) -> None:
    assert read_corpus(red, "red") is red


@pytest.mark.parametrize("label", ["member", "non_member"])
def test_a_known_label_of_one_name_is_that_of_the_provider(label: str, tmp_path: Path) -> None:
    corpus = open_corpus(corpus_of(tmp_path / "data", labels=("unknown", label, "unknown", "unknown", "unknown")))
    assert corpus.label("Acme Media") is Membership(label)
    assert corpus.label("Bolt") is Membership.UNKNOWN


def test_two_labels_of_one_provider_are_refused(tmp_path: Path) -> None:
    folder = corpus_of(tmp_path / "data", labels=("member", "non_member", "member", "member", "member"))
    with pytest.raises(AuditError, match="written in two ways is a member under one") as caught:
        open_corpus(folder)
    assert "cme" not in caught.value.problem


def test_a_provider_has_one_client_and_is_clipped_once(tmp_path: Path) -> None:
    corpus = open_corpus(corpus_of(tmp_path / "data"))
    assert merged(corpus.queries)[0].providers == ((0, 1, 2), (3,), (4,))
    found = partition_corpora({"data": corpus}, 2, "provider", 1.0, seed=0)
    clients = partition(found.queries)
    assert sum(len(client.providers) for client in clients) == 3
    assert any((0, 1, 2) in client.providers for client in clients)


def test_a_provider_in_two_sources_by_another_name(page: Page) -> None:
    sources = {
        str(at): Corpus(tuple(Query(name, sheet, "?", ("x",)) for name, sheet in sheets.items()))
        for at, sheets in enumerate(
            {name: replace(page("a", name=f"{at}-{name}_1", provider=name), split="blue_train") for name in names}
            for at, names in enumerate((("Acme", "Bolt"), ("ACME", "Cave")))
        )
    }
    with pytest.raises(UsageError, match="a provider is in two sources"):
        partition_corpora(sources, 2, "provider", 1.0, 0)
    assert partition_corpora(sources, 2, "source", 1.0, 0).providers == ("Acme", "Bolt", "Cave")


def test_a_provider_on_both_sides_by_another_name(page: Page) -> None:
    sides = [
        Corpus((Query(f"{name}?", page(name, name=f"{name}_1", provider=name), "?", ("x",)),))
        for name in ("Acme", "ACME")
    ]
    with pytest.raises(AuditError, match="1 provider is among the members and among the non-members"):
        join_sides(*sides)
