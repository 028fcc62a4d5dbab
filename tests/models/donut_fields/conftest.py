"""A small Donut that prints fields, saved as transformers saves it and trained on a few pages by our own loop."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

from pfl_audit.documents.corpus import Corpus
from pfl_audit.documents.document import Query
from pfl_audit.models.donut_fields.family import fields_family
from pfl_audit.models.donut_fields.training import open_training
from pfl_audit.progress import Silent
from tests.models.donut.conftest import save_as_transformers, train_unigram

STEPS = 300
TASK = "<s_cord-v2>"
KEYS = ("provider_name", "invoice", "invoice_number", "total_amount")
NESTED = {"invoice_number": "invoice.invoice_number"}


def tag_names(keys: Sequence[str]) -> list[str]:
    return [f"<{end}s_{key}>" for key in keys for end in ("", "/")]


def as_cord(query: Query) -> Query:
    """The query with a path as its key, as Donut's training format has it."""
    return Query(query.id, query.document, query.question, query.answers, NESTED.get(query.key, query.key))


@pytest.fixture(scope="session")
def start(red: Corpus, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Random weights."""
    folder = tmp_path_factory.mktemp("donut-fields")
    texts = sorted({answer for query in red.queries for answer in query.answers})
    marks = ["<s_iitcdip>", TASK, "<sep/>", "<yes/>", *tag_names(KEYS)]
    save_as_transformers(folder, train_unigram(texts, folder, marks))
    return folder


@pytest.fixture(scope="session")
def queries(red: Corpus) -> list[Query]:
    """Queries about the fields of two pages."""
    pages = {query.document.id for query in red.queries if query.key == "total_amount"}
    few = sorted(pages)[:2]
    return [as_cord(query) for query in red.queries if query.document.id in few and query.key in KEYS]


@pytest.fixture(scope="session")
def trained(start: Path, queries: list[Query], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Trained until it prints the fields of the two pages."""
    family = fields_family(start)
    assert family is not None
    model = open_training(start, family.tags)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        for name, parameter in model.network.named_parameters():
            parameter.requires_grad_(not model.is_frozen(name))
        examples = model.examples(queries, Silent())
        rows = [next(row for row, query in enumerate(queries) if query.document.id == page)
                for page in {query.document.id: None for query in queries}]  # fmt: skip
        trained = [one for one in model.network.parameters() if one.requires_grad]
        optimizer = torch.optim.Adam(trained, lr=3e-3)
        for step in range(STEPS):
            optimizer.param_groups[0]["lr"] = 3e-3 * (1 - step / STEPS)
            optimizer.zero_grad()
            loss = examples.loss(rows)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(trained, 1.0)
            optimizer.step()
    folder = tmp_path_factory.mktemp("donut-fields-trained")
    model.save(folder, {}, half=False)
    return folder
