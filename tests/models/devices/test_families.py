"""Every family on a device of its own: no tensor is left behind, and memory that runs out costs no answer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from pfl_audit.documents.corpus import Corpus
from pfl_audit.documents.document import Query
from pfl_audit.errors import AuditError
from pfl_audit.models.open import open_model
from pfl_audit.models.placement import tokens_found
from pfl_audit.models.protocol import CandidateModel, DocumentModel, GuessingModel, Response, Score
from pfl_audit.models.vt5 import model as vt5
from tests.fake_gpu import GPUS, FakeGpu, gpu
from tests.models.donut_fields.conftest import as_cord

pytestmark = pytest.mark.usefixtures("examined_here", "tagged_here")

BY_PAGE = ("donut-fields", "tagger/lilt")
"""Families that compute a page at a time, so that a batch takes no more memory than its largest page."""

FAMILIES = ("vt5", "donut/ours", "layoutlm/v1", "layoutlm/v3", "auto/t5", "auto/qwen2_vl", *BY_PAGE)
KNOWN = ("provider_name", "invoice_number", "total_amount")
"""Keys that these families know."""

Opens = Callable[..., tuple[DocumentModel, list[Query]]]


@pytest.fixture
def opens(request: pytest.FixtureRequest, red: Corpus) -> Opens:
    """Opens a checkpoint of a family with random weights, and gives questions that it can be asked."""

    def make(name: str, **how: Any) -> tuple[DocumentModel, list[Query]]:
        family, _, kind = name.partition("/")
        fixtures = {
            "vt5": lambda: request.getfixturevalue("make_checkpoint")(0),
            "donut": lambda: request.getfixturevalue("make_donut")(kind),
            "donut-fields": lambda: request.getfixturevalue("donut_fields"),
            "layoutlm": lambda: request.getfixturevalue("make_qa")(kind),
            "auto": lambda: request.getfixturevalue("auto_checkpoint")(kind),
            "tagger": lambda: request.getfixturevalue("tagger")(kind),
        }
        folder: Path = fixtures[family]()
        queries = [query for query in red.queries if query.key in KNOWN or name not in BY_PAGE]
        pages = {query.document.id: query for query in queries}
        few = list(pages.values())[:4]
        return open_model(str(folder), **how), [as_cord(query) if family == "donut-fields" else query for query in few]

    return make


def near(found: list[Response], true: list[Response], loss: float = 1e-4) -> None:
    assert [one.answer for one in found] == [one.answer for one in true]
    assert [one.loss for one in found] == pytest.approx([one.loss for one in true], rel=loss, abs=loss)
    assert [one.confidence for one in found] == pytest.approx([one.confidence for one in true], rel=loss, abs=loss)


@pytest.mark.parametrize("name", ["vt5", "tagger/lilt"])
def test_a_device_without_float64_is_enough(name: str, opens: Opens, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pfl_audit.models.device.SINGLE", ("cuda",))
    here, queries = opens(name)
    with FakeGpu(doubles=False):
        there, _ = opens(name, device="cuda")
        near(there.respond(queries[:1]), here.respond(queries[:1]))
        if isinstance(there, GuessingModel) and isinstance(here, GuessingModel):
            assert [one.answer for one in there.guess(queries[:1], 2)[0]] == [
                one.answer for one in here.guess(queries[:1], 2)[0]
            ]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", GPUS)
@pytest.mark.parametrize("name", FAMILIES)
def test_no_tensor_is_left_on_another_device(name: str, kind: str, opens: Opens) -> None:
    here, queries = opens(name)
    values = [queries[0].answers[0], "something else"]
    with gpu(kind):
        there, _ = opens(name, device="cuda")
        bound = 1e-4 if kind == "double" else 2e-3
        near(there.respond(queries), here.respond(queries), bound)
        if isinstance(here, CandidateModel):
            assert isinstance(there, CandidateModel)
            found, true = there.candidate_losses(queries[0], values), here.candidate_losses(queries[0], values)
            assert [one.loss for one in found] == pytest.approx([one.loss for one in true], rel=bound)
        if isinstance(here, GuessingModel):
            assert isinstance(there, GuessingModel)
            guesses, expected = there.guess(queries[:2], 3), here.guess(queries[:2], 3)
            assert [[one.answer for one in some] for some in guesses] == [[o.answer for o in some] for some in expected]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", [name for name in FAMILIES if name not in BY_PAGE])
def test_memory_that_runs_out_costs_no_answer(name: str, opens: Opens) -> None:
    with FakeGpu() as gpu:
        model, queries = opens(name, device="cuda")
        gpu.largest = 0
        model.respond(queries[:1])
        alone, gpu.largest = gpu.largest, 0
        true = model.respond(queries)
        together = gpu.largest
    assert alone < together
    with FakeGpu() as gpu:
        model, _ = opens(name, device="cuda")
        gpu.memory = max(alone, together // 3)
        near(model.respond(queries), true)
        found, exhausted = tokens_found(model), gpu.exhausted
        assert exhausted > 0
        assert found is not None
        near(model.respond(queries), true)
        assert (tokens_found(model), gpu.exhausted) == (found, exhausted), "what was found is kept"
        assert model.batch_size(model.cost(queries[0])) < len(queries)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", FAMILIES)
def test_a_question_that_does_not_fit_alone_is_one_line(name: str, opens: Opens) -> None:
    with FakeGpu() as gpu:
        model, queries = opens(name, device="cuda")
        gpu.memory = 64
        with pytest.raises(AuditError, match=r"has no room for one input of [\d,]+ tokens"):
            model.respond(queries)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "device",
    ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here"))],
)
@pytest.mark.parametrize(("precision", "bound"), [("bf16", 0.2), ("fp16", 0.03)])
@pytest.mark.parametrize("name", FAMILIES)
def test_low_precision_is_near_and_does_not_depend_on_the_batch(
    name: str, precision: str, bound: float, device: str, opens: Opens
) -> None:
    exact, queries = opens(name)
    low, _ = opens(name, precision=precision, device=device)
    true, found = exact.respond(queries), low.respond(queries)
    apart = [abs((one.loss or 0) - (other.loss or 0)) for one, other in zip(found, true, strict=True)]
    bound = bound if device == "cpu" else 2 * bound
    assert 0 < max(apart) < bound, "nats a token, with random weights"
    alone = [low.respond([query])[0] for query in queries]
    assert [one.loss for one in alone] == pytest.approx([one.loss for one in found], abs=bound)


def test_the_padded_batch_of_a_gpu_has_low_precision_too(opens: Opens, monkeypatch: pytest.MonkeyPatch) -> None:
    exact, queries = opens("vt5")
    true = exact.respond(queries)
    monkeypatch.setattr(vt5, "can_encode", lambda network: False)  # as on a GPU
    near(exact.respond(queries), true)
    found = opens("vt5", precision="bf16")[0].respond(queries)
    assert [one.loss for one in found] == pytest.approx([one.loss for one in true], abs=0.2)


def test_tokens_of_a_batch_are_the_users(opens: Opens) -> None:
    model, queries = opens("vt5", batch_tokens=10_000)
    assert model.batch_size(100) == 100
    assert model.batch_size(20_000) == 1
    assert model.respond(queries) == opens("vt5")[0].respond(queries)


def test_scores_of_many_values_are_those_of_few(opens: Opens) -> None:
    """Values to compare are halved like questions."""
    with FakeGpu() as gpu:
        model, queries = opens("vt5", device="cuda")
        assert isinstance(model, CandidateModel)
        values = [f"a longer value {number}" for number in range(200)]
        gpu.largest = 0
        model.candidate_losses(queries[0], values[:1])
        alone = gpu.largest
        true: list[Score] = model.candidate_losses(queries[0], values)
        assert alone < gpu.largest
        gpu.memory = max(alone, gpu.largest // 3)
        found = model.candidate_losses(queries[0], values)
        assert gpu.exhausted > 0
    assert [one.loss for one in found] == pytest.approx([one.loss for one in true], rel=1e-5)
