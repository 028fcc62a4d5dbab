from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from pfl_audit.attacks.inversion.canvas import Canvas
from pfl_audit.attacks.inversion.context import Case, Observation
from pfl_audit.attacks.inversion.matching import speaking
from pfl_audit.attacks.inversion.methods import METHODS
from pfl_audit.attacks.inversion.reconstruction import Reconstruction, adapt, objective_of, reconstruct
from pfl_audit.attacks.inversion.settings import InversionSettings
from pfl_audit.attacks.inversion.texts import Given
from pfl_audit.errors import NotAuditableError
from pfl_audit.metrics.images import psnr
from pfl_audit.models.donut.gradients import DonutGradients
from pfl_audit.progress import Silent
from tests.attacks.inversion.leaking import NAMES, case_of, small_form
from tests.fake_gpu import GPUS, gpu


def sought(model: DonutGradients, case: Case, steps: int, method: str = "lbfgs", **settings: object) -> Reconstruction:
    given = Given([truth.text for truth in case.truths])
    told = InversionSettings(iterations=steps, **settings)
    return reconstruct(model, case.seen, given, METHODS[method], told, 0, Silent(), "a page")


def test_a_search_reads_nothing_that_its_key_lacks(leaking: DonutGradients, one_page: Case) -> None:
    """What is stated of steps and dropout is not in ``observation_key``."""
    own = one_page.seen
    seen: Any = SimpleNamespace(template=own.template, gradient=own.gradient, batch=own.batch)
    found, known = sought(leaking, replace(one_page, seen=seen), 2), sought(leaking, one_page, 2)
    assert (found.pages[0] == known.pages[0]).all()


def nearness(page: NDArray[np.uint8], case: Case) -> float:
    """Decibels inside the fields."""
    return psnr(page / 255, case.truths[0].page / 255, case.seen.template.mask())


def test_a_page_comes_back_from_its_gradient(leaking: DonutGradients, one_page: Case) -> None:
    found = sought(leaking, one_page, 150)
    before, after = nearness(small_form().pixels, one_page), nearness(found.pages[0], one_page)
    assert after > before + 10
    assert found.trace.least < 1e-2 * found.trace.objective[0][1]
    assert found.trace.steps <= 150
    assert found.tensors == len(speaking(one_page.seen.gradient))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("other", ["noise", "page"])
def test_nothing_comes_back_from_a_gradient_of_something_else(
    leaking: DonutGradients, one_page: Case, other: str
) -> None:
    if other == "noise":
        torch.manual_seed(0)
        noise = {name: torch.randn_like(part) for name, part in one_page.seen.gradient.items()}
        shared = {name: part.norm() * noise[name] / noise[name].norm() for name, part in one_page.seen.gradient.items()}
    else:
        shared = dict(case_of(leaking, NAMES[1]).seen.gradient)
    seen = replace(one_page.seen, gradient=shared)
    found = sought(leaking, Case(seen, one_page.truths), 60)
    assert nearness(found.pages[0], one_page) < nearness(small_form().pixels, one_page) + 1


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kind", GPUS)
@pytest.mark.parametrize("method", ["lbfgs", "gi_dqa", "inverting_gradients"])
def test_a_gpu_goes_the_same_way(
    kind: str, method: str, leaking_folder: Path, leaking: DonutGradients, one_page: Case
) -> None:
    with gpu(kind):
        there = sought(DonutGradients(leaking_folder, "cuda"), one_page, 4, method)
    here = sought(leaking, one_page, 4, method)
    assert [value for _, value in there.trace.objective] == pytest.approx(
        [value for _, value in here.trace.objective], rel=1e-3 if kind == "double" else 0.05
    )


def test_the_same_seed_gives_the_same_page(leaking: DonutGradients, one_page: Case) -> None:
    one, again = (sought(leaking, one_page, 6, "gi_dqa") for _ in range(2))
    assert (one.pages[0] == again.pages[0]).all()
    mask = small_form().mask()
    assert (one.pages[0][~mask] == small_form().pixels[~mask]).all()


def test_a_batch_gives_a_page_each(leaking: DonutGradients) -> None:
    found = sought(leaking, case_of(leaking, *NAMES[:2]), 30)
    assert len(found.pages) == 2
    assert (found.pages[0] != found.pages[1]).any()


def test_who_knows_no_template_seeks_the_page(leaking: DonutGradients, one_page: Case) -> None:
    mask = small_form().mask()
    blind = sought(leaking, one_page, 2, "inverting_gradients").pages[0]
    told = sought(leaking, one_page, 2, "inverting_gradients", knowledge="template").pages[0]
    assert (blind[~mask] != small_form().pixels[~mask]).any()
    assert (told[~mask] == small_form().pixels[~mask]).all()
    assert adapt(METHODS["dlg"], InversionSettings()) == METHODS["dlg"]


def objective(model: DonutGradients, case: Case, method: str, **settings: object) -> list[float]:
    """Of noise: in the first iteration, in the middle and in the last."""
    told, canvas = InversionSettings(iterations=100, **settings), Canvas(case.seen.template)
    texts, names = [truth.text for truth in case.truths], speaking(case.seen.gradient)
    value = objective_of(model, case.seen, texts, METHODS[method], told, canvas, names)
    at = canvas.start("noise", torch.Generator().manual_seed(0))
    return [value(at, step).item() for step in (0, 50, 99)]


def test_priors_count_when_their_scheduler_says(leaking: DonutGradients, one_page: Case) -> None:
    nothing = {"alpha_txt": 0, "alpha_gau": 0, "alpha_tv": 0}
    bare = objective(leaking, one_page, "gi_dqa", **nothing)
    assert bare == pytest.approx([bare[0]] * 3)
    first, middle, last = objective(leaking, one_page, "gi_dqa")
    assert first > middle > last > bare[0]
    assert last - bare[0] == pytest.approx((first - bare[0]) * 0.999 ** (5000 * 0.99), rel=0.05)
    assert objective(leaking, one_page, "gi_dqa", scheduler="constant") == pytest.approx([first] * 3)
    assert objective(leaking, one_page, "gi_dqa", scheduler="delayed") == pytest.approx([bare[0], first, first])
    alone = objective(leaking, one_page, "gi_dqa", **{**nothing, "alpha_tvc": 0.02})[0]
    both = objective(leaking, one_page, "gi_dqa", **{**nothing, "alpha_tv": 0.02})[0]
    assert bare[0] < alone < both  # what is said of space holds for colours too, unless these have their own


def test_layers_are_chosen_by_their_place(leaking: DonutGradients, one_page: Case) -> None:
    counts = [sought(leaking, one_page, 1, layers=layers).tensors for layers in ("all", "pre-fusion", "post-fusion")]
    assert counts[0] == counts[1] + counts[2]
    assert min(counts) > 5
    late = {name: part for name, part in one_page.seen.gradient.items() if not name.startswith("encoder.")}
    shared = Observation("d", one_page.seen.template, late)
    with pytest.raises(NotAuditableError, match="pre-fusion"):
        sought(leaking, Case(shared, one_page.truths), 1, layers="pre-fusion")
