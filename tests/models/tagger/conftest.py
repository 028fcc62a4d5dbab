from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pfl_audit.documents.corpus import Corpus
from pfl_audit.documents.document import Query
from pfl_audit.models.auto.examine import look
from tests.models.tagger.zoo import FAMILIES


@pytest.fixture(scope="session")
def tagger(red: Corpus, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Checkpoints by family and longest input, each made once."""
    base, known = tmp_path_factory.mktemp("taggers"), dict[tuple[str, int], Path]()
    texts = [" ".join(page.words) for page in red.documents]

    def make(name: str, longest: int = 512) -> Path:
        if (name, longest) not in known:
            known[name, longest] = FAMILIES[name](base / f"{name}-{longest}", texts, longest)
        return known[name, longest]

    return make


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """The examination runs in this process."""
    monkeypatch.setattr("pfl_audit.models.tagger.load.examine", lambda folder: look(str(folder)))


@pytest.fixture(scope="session")
def queries(red: Corpus) -> list[Query]:
    """Queries about some pages whose keys the taggers have."""
    pages = list(dict.fromkeys(query.document.id for query in red.queries))[:4]
    keys = ("provider_name", "invoice_number", "invoice_date", "total_amount")
    return [query for query in red.queries if query.document.id in pages and query.key in keys]
