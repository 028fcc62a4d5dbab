"""What a search on a LayoutLM begins with: the text, the answer's place, and what the closed form made of the page."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pfl_audit.attacks.inversion.canvas import picture_of
from pfl_audit.attacks.inversion.clients import share
from pfl_audit.attacks.inversion.context import Case
from pfl_audit.attacks.inversion.gradients import OpenedGradients, open_gradients
from pfl_audit.attacks.inversion.inputs import GradientInputs
from pfl_audit.attacks.inversion.methods import METHODS
from pfl_audit.attacks.inversion.reconstruction import reconstruct
from pfl_audit.attacks.inversion.settings import InversionSettings, Known
from pfl_audit.attacks.inversion.texts import given_for
from pfl_audit.attacks.inversion.word_text import solve, text_of
from pfl_audit.core.store import ResponseStore
from pfl_audit.core.subject import AuditJob
from pfl_audit.errors import NotAuditableError
from pfl_audit.metrics.images import psnr
from pfl_audit.models.gradient_protocol import GradientModel
from pfl_audit.models.open import open_gradient_model
from pfl_audit.progress import Silent
from tests.attacks.inversion.conftest import save_reader
from tests.fake_gpu import GPUS, gpu

Opened = Callable[..., OpenedGradients]
ENDS = ("start_positions", "end_positions")


@pytest.fixture
def opened(tmp_path: Path) -> Opened:
    def make(kind: str, **more: Any) -> OpenedGradients:
        folder, form = save_reader(tmp_path, kind)
        inputs = GradientInputs(template=form[0], fields=form[1], **more)
        with ResponseStore(tmp_path / "store.sqlite") as store:
            job = AuditJob(str(folder), "cpu", False, 0, store=store, states=tmp_path / "states", progress=Silent())
            return open_gradients(inputs, job)

    return make


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kind", ["v1", "v1-bpe", "v3", "v3-blind"])
def test_words_boxes_and_the_answers_place_come_back(opened: Opened, kind: str) -> None:
    found = opened(kind, documents=3)
    for case in found.cases:
        text = text_of(found.model, case.seen, solve(found.model, case.seen))
        assert {name: part.tolist() for name, part in text.items()} == {
            name: part.tolist() for name, part in case.truths[0].text.items()
        }


@pytest.mark.parametrize("kind", ["v1", "v3"])
@pytest.mark.parametrize("scale", [0.01, 10.0])
def test_a_gradient_that_was_clipped_or_scaled_tells_as_much(opened: Opened, kind: str, scale: float) -> None:
    found = opened(kind)
    (case,) = found.cases
    seen = replace(case.seen, gradient={name: scale * part for name, part in case.seen.gradient.items()})
    text = text_of(found.model, seen, solve(found.model, seen))
    assert {name: part.tolist() for name, part in text.items()} == {
        name: part.tolist() for name, part in case.truths[0].text.items()
    }


def test_an_unknown_token_leaves_the_others_in_their_places(opened: Opened) -> None:
    found = opened("v3")
    (case,) = found.cases
    got = solve(found.model, case.seen)
    tokens = got.tokens.clone()
    tokens[3] = -1
    text, truth = text_of(found.model, case.seen, replace(got, tokens=tokens)), case.truths[0].text
    assert [int(text[name]) for name in ENDS] == [int(truth[name]) for name in ENDS]
    assert (text["input_ids"] != truth["input_ids"]).nonzero().flatten().tolist() == [3]


@pytest.mark.parametrize("kind", ["v1", "v3-blind"])
@pytest.mark.parametrize("known", ["recovered", "both"])
def test_where_no_page_is_looked_at_there_are_no_pixels_to_find(opened: Opened, kind: str, known: Known) -> None:
    found = opened(kind)
    with pytest.raises(NotAuditableError, match=r"looks at no page.*--method analytic"):
        given_for(found.model, found.cases[0], known, np.random.default_rng(0))


@pytest.mark.parametrize(
    ("known", "recovers", "remedy"), [("question", True, "--known both"), ("both", False, "--method idlg")]
)
def test_words_that_are_not_in_one_sequence_are_not_guessed(
    opened: Opened, known: Known, recovers: bool, remedy: str
) -> None:
    """``both`` is no remedy for a method that guesses them whatever is known."""
    found = opened("v3")
    with pytest.raises(NotAuditableError, match=f"in one sequence of tokens.*{remedy}"):
        given_for(found.model, found.cases[0], known, np.random.default_rng(0), recovers=recovers)


@pytest.mark.parametrize("kind", ["v1", "v3"])
def test_the_names_of_the_layers_before_the_fusion_are_real(opened: Opened, kind: str) -> None:
    found = opened(kind)
    names = [name for name, _ in found.model.network.named_parameters()]
    prefixes = found.model.fusion
    assert prefixes is not None
    assert all(any(name.startswith(prefix) for name in names) for prefix in prefixes)
    assert not any("layer." in name for name in names if name.startswith(prefixes))


@pytest.mark.slow
def test_a_search_goes_on_from_what_the_closed_form_made_of_the_page(opened: Opened) -> None:
    found = opened("v3", noise=1e-5)
    (case,) = found.cases
    given = given_for(found.model, Case(case.seen), "recovered", np.random.default_rng(0))
    assert given.page is not None
    settings = InversionSettings(iterations=10)
    mask, truth = case.seen.template.mask(), case.truths[0].page / 255
    nearness, first = {}, {}
    exact = replace(given, texts=[case.truths[0].text])
    for name, start in (("closed form", given), ("empty form", replace(given, page=None)), ("truth", exact)):
        found_page = reconstruct(found.model, case.seen, start, METHODS["lbfgs"], settings, 0, Silent(), "a page")
        nearness[name] = psnr(found_page.pages[0] / 255, truth, mask)
        first[name] = found_page.trace.objective[0][1]
    assert first["closed form"] < first["empty form"] / 2  # both at the best factor
    assert first["closed form"] == pytest.approx(first["truth"], rel=0.01)  # what the noise leaves
    assert nearness["closed form"] > nearness["empty form"] + 100
    assert nearness["closed form"] > psnr(picture_of(given.page) / 255, truth, mask) - 1


@pytest.mark.parametrize("kind", GPUS)
def test_a_gpu_goes_on_from_the_same_text_and_page(kind: str, opened: Opened, tmp_path: Path) -> None:
    found = opened("v3")
    (case,) = found.cases

    def sought(model: GradientModel) -> tuple[dict[str, list[int]], list[float]]:
        given = given_for(model, Case(case.seen), "recovered", np.random.default_rng(0))
        settings = InversionSettings(iterations=2)
        trace = reconstruct(model, case.seen, given, METHODS["lbfgs"], settings, 0, Silent(), "a page").trace
        return {name: part.tolist() for name, part in given.texts[0].items()}, [value for _, value in trace.objective]

    text, values = sought(found.model)
    with gpu(kind):
        there = sought(open_gradient_model(str(tmp_path / "v3"), "cuda"))
    assert there == (text, pytest.approx(values, rel=1e-3 if kind == "double" else 0.05, abs=1e-9))


def test_what_cannot_be_told_is_one_line(opened: Opened) -> None:
    found = opened("v3", batch=2)
    (batch,) = found.cases
    with pytest.raises(NotAuditableError, match=r"cannot be separated .* --known both"):
        given_for(found.model, batch, "recovered", np.random.default_rng(0))
    case = replace(batch, seen=replace(batch.seen, batch=1, gradient=share(found.model, batch.truths[:1])))
    for layers, message in (
        (("qa_outputs",), "the place of the answer is unknown"),
        (("word_embeddings", "layer.0.attention"), "no words, or no boxes"),
        (("x_position",), "no words, or no boxes"),
    ):
        held = {name: not any(layer in name for layer in layers) for name in case.seen.gradient}
        frozen = {name: part for name, part in case.seen.gradient.items() if held[name]}
        zeros = {name: part * held[name] for name, part in case.seen.gradient.items()}
        for gradient in (frozen, zeros):
            seen = replace(case.seen, gradient=gradient)
            with pytest.raises(NotAuditableError, match=message):
                given_for(found.model, Case(seen), "recovered", np.random.default_rng(0))
    signs = replace(case.seen, gradient={name: part.sign() for name, part in case.seen.gradient.items()})
    with pytest.raises(NotAuditableError, match="no words, or no boxes"):
        given_for(found.model, Case(signs), "recovered", np.random.default_rng(0))
