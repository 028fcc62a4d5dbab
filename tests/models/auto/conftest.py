from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pfl_audit.documents.corpus import Corpus
from pfl_audit.documents.document import Query
from pfl_audit.models.auto.examine import look
from pfl_audit.models.auto.model import AutoModel
from tests.models.auto.zoo import FAMILIES


@pytest.fixture(scope="session")
def checkpoint(red: Corpus, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Checkpoints by family, each made once."""
    base, known = tmp_path_factory.mktemp("zoo"), dict[str, Path]()
    texts = [" ".join(page.words) for page in red.documents]

    def make(name: str) -> Path:
        if name not in known:
            known[name] = FAMILIES[name](base / name, texts)
        return known[name]

    return make


@pytest.fixture(scope="session")
def opened(checkpoint: Callable[[str], Path]) -> Callable[[str], AutoModel]:
    """Opened models by family. The examination runs in this process; ``test_examine.py`` has it in its own."""
    known: dict[str, AutoModel] = {}

    def make(name: str) -> AutoModel:
        if name not in known:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr("pfl_audit.models.auto.load.examine", lambda folder: look(str(folder)))
                known[name] = AutoModel(checkpoint(name))
        return known[name]

    return make


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """The examination runs in this process."""
    monkeypatch.setattr("pfl_audit.models.auto.load.examine", lambda folder: look(str(folder)))


@pytest.fixture(scope="session")
def queries(red: Corpus) -> list[Query]:
    """Questions about pages of different lengths."""
    return list({query.document.id: query for query in red.queries}.values())[:4]
