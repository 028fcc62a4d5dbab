"""Endpoints under test: opened like the audit does, with a short backoff."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pfl_audit.attacks.questions import endpoint
from pfl_audit.attacks.questions.inputs import EndpointInputs
from pfl_audit.core.store import ResponseStore
from pfl_audit.documents.corpus import Corpus
from pfl_audit.models.endpoint.model import EndpointModel
from tests.models.endpoint.said import Heard


@pytest.fixture
def store(tmp_path: Path) -> ResponseStore:
    return ResponseStore(tmp_path / "store.sqlite")


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
def opened(
    red: Corpus, store: ResponseStore, heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., EndpointModel]:
    """Open the endpoint at a URL with further inputs."""
    monkeypatch.setattr(endpoint, "_BACKOFF", 0.01)

    def open_(url: str, **more: object) -> EndpointModel:
        given = {"yes": True, "endpoint_model": "tiny", "endpoint_timeout": 5, "endpoint_side": 64, **more}
        inputs = EndpointInputs.model_validate({"endpoint": url, **given})
        return endpoint.open_endpoint(inputs, red, len(red.queries), store, heard)

    return open_
