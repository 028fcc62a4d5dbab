from collections.abc import Sequence

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from pfl_audit.attacks.inversion.clients import Clients, share
from pfl_audit.attacks.inversion.context import Truth
from pfl_audit.attacks.inversion.defence import pgd_template, random_template
from pfl_audit.attacks.inversion.matching import distance, speaking
from pfl_audit.attacks.inversion.published import Order
from pfl_audit.attacks.inversion.template.template import Pixels, Template, TemplateField
from pfl_audit.documents.images import Box
from pfl_audit.errors import AuditError
from pfl_audit.models.donut.gradients import place
from pfl_audit.models.donut.pixels import PixelSettings
from pfl_audit.models.samples import Text
from pfl_audit.progress import Silent
from tests.attacks.inversion.gradient_fakes import FakeGradients
from tests.attacks.inversion.template.drawn import form


class Donutlike(FakeGradients):
    """Turns, scales and pads its pages."""

    def __init__(self, page: tuple[int, int]) -> None:
        super().__init__(page)
        self._pixels = PixelSettings(page, turn=True, mean=(0.0,) * 3, std=(1.0,) * 3)

    def see(self, page: Image.Image) -> NDArray[np.uint8]:
        return np.asarray((255 * self._pixels.pixels(page)).round().permute(1, 2, 0), dtype=np.uint8)

    def place(self, box: Box, size: tuple[int, int]) -> Box:
        return place(self._pixels, box, size)


def pages_of(model: FakeGradients, template: Template, count: int = 3) -> list[Truth]:
    clients = Clients(model, (template,), 5, None, Silent())
    return [clients.page("defence", number) for number in range(count)]


def changed(template: Template, pixels: Pixels) -> NDArray[np.int64]:
    return pixels.astype(np.int64) - template.pixels


def apart(model: FakeGradients, page: Truth, template: Template, pixels: Pixels) -> float:
    """Distance that is left to an observer who has all of the private pixels right."""
    held = np.where(template.mask()[..., None], page.page, model.see(Image.fromarray(pixels)))
    clean, other = share(model, [page]), share(model, [Truth(held, page.text, None)])
    names = speaking(clean)
    return float(distance("layered", [clean[name] for name in names])([other[name] for name in names]))


@settings(max_examples=30, deadline=None)
@given(
    width=st.integers(40, 120),
    height=st.integers(40, 120),
    page=st.sampled_from([(64, 48), (48, 64), (80, 80), (160, 120)]),
    budget=st.integers(1, 255),
    seed=st.integers(0, 2**32 - 1),
)
def test_noise_keeps_to_the_budget_and_out_of_the_fields(
    width: int, height: int, page: tuple[int, int], budget: int, seed: int
) -> None:
    paper = np.random.default_rng(seed).integers(256, size=(height, width, 3), dtype=np.uint8)
    template = Template(paper, (TemplateField("field-1", (0.25, 0.25, 0.75, 0.75)),))
    found = random_template(Donutlike(page), template, budget, seed)
    assert found.dtype == np.uint8
    assert found.shape == paper.shape
    change = changed(template, found)
    assert np.abs(change).max() <= budget
    assert not change[template.mask()].any()
    assert change[~template.mask()].any()
    assert (found == random_template(Donutlike(page), template, budget, seed)).all()
    assert (found != random_template(Donutlike(page), template, budget, seed + 1)).any()


@pytest.mark.parametrize("size", [(200, 160), (400, 320), (331, 263)])
@pytest.mark.parametrize("budget", [1, 8, 32])
def test_pgd_keeps_to_the_budget_on_templates_of_every_size(size: tuple[int, int], budget: int) -> None:
    model = FakeGradients()
    small = form()
    paper = np.asarray(Image.fromarray(small.pixels).resize(size), dtype=np.uint8)
    template = Template(paper, small.fields)
    found = pgd_template(Order(model, template, pages_of(model, template), budget, 3, 0, Silent()))
    change = changed(template, found)
    assert found.dtype == np.uint8
    assert np.abs(change).max() == budget
    assert not change[template.mask()].any()


def test_pgd_drives_gradients_further_apart_than_noise_also_for_values_that_it_has_not_seen() -> None:
    model, template = FakeGradients(), form()
    (new,) = [Clients(model, (template,), 99, None, Silent()).page("document", 0)]
    found = {}
    for budget in (8, 16, 32):
        searched = pgd_template(Order(model, template, pages_of(model, template), budget, 10, 0, Silent()))
        found[budget] = apart(model, new, template, searched)
        assert found[budget] > 5 * apart(model, new, template, random_template(model, template, budget, 0))
    assert found[8] < found[16] < found[32]
    assert apart(model, new, template, template.pixels) == pytest.approx(0, abs=1e-6)


def test_more_steps_are_no_worse_and_all_of_it_comes_back_from_the_seed() -> None:
    model, template = FakeGradients(), form()
    pages = pages_of(model, template)
    start, end, again = (pgd_template(Order(model, template, pages, 8, steps, 3, Silent())) for steps in (1, 12, 12))
    assert (end == again).all()
    left = [sum(apart(model, page, template, pixels) for page in pages) for pixels in (start, end)]
    assert left[1] > 1.5 * left[0]


@pytest.mark.parametrize(("size", "page"), [((160, 90), (64, 48)), ((90, 160), (64, 48)), ((100, 120), (64, 48))])
def test_a_change_of_the_template_is_seen_where_it_was_sought(size: tuple[int, int], page: tuple[int, int]) -> None:
    """Through turning, scaling and padding: noise drawn on the network's page comes back out of ``see``."""
    model = Donutlike(page)
    template = Template(
        np.full((size[1], size[0], 3), 128, dtype=np.uint8), (TemplateField("field-1", (0.4, 0.4, 0.6, 0.6)),)
    )
    seen = model.see(Image.fromarray(random_template(model, template, 100, 4))).astype(float)
    noise = np.random.default_rng(4).uniform(-100, 100, size=(*page, 3))
    left, top, right, bottom = model.place((0, 0, 1, 1), size)
    covered = np.zeros(page, dtype=bool)
    covered[round(top * page[0]) : round(bottom * page[0]), round(left * page[1]) : round(right * page[1])] = True
    field = Template(
        np.zeros((*page, 3), np.uint8), (TemplateField("field-1", model.place(template.fields[0].box, size)),)
    )
    covered &= ~field.mask()
    assert np.corrcoef(seen[covered].ravel(), noise[covered].ravel())[0, 1] > 0.8


def test_nothing_is_sought_where_no_template_lies() -> None:
    """Padding that could be perturbed would be where PGD puts its effort, and it would never be seen."""
    model = Donutlike((64, 48))
    template = Template(np.full((48, 96, 3), 255, dtype=np.uint8), (TemplateField("field-1", (0.1, 0.2, 0.9, 0.5)),))
    held: list[Tensor] = []
    model.loss = lambda pixels, texts: held.append(pixels.detach()) or FakeGradients.loss(model, pixels, texts)  # type: ignore[method-assign, func-returns-value]
    truth = Truth(model.see(Image.fromarray(template.pixels)), {"label": torch.tensor(1)}, None)
    pgd_template(Order(model, template, [truth], 8, 2, 0, Silent()))
    clean = torch.from_numpy(truth.page).permute(2, 0, 1) / 255
    moved = torch.stack(held).sub(clean).abs().amax(dim=(0, 1, 2)) > 0
    left, top, right, bottom = model.place((0, 0, 1, 1), template.size)
    assert moved.any()
    outside = torch.ones(64, 48, dtype=torch.bool)
    outside[int(top * 64) : int(np.ceil(bottom * 64)), int(left * 48) : int(np.ceil(right * 48))] = False
    assert outside.any()
    assert not moved[outside].any()


def test_a_model_whose_gradients_are_no_numbers_is_one_line() -> None:
    class Broken(FakeGradients):
        def loss(self, pixels: Tensor, texts: Sequence[Text]) -> Tensor:
            return super().loss(pixels, texts) * torch.nan

    model, template = Broken(), form()
    with pytest.raises(AuditError, match="NaN or infinite"):
        pgd_template(Order(model, template, pages_of(model, template), 8, 2, 0, Silent()))


def test_both_are_installed() -> None:
    from pfl_audit.attacks.inversion.published import DEFENCES

    assert [defence.name for defence in DEFENCES.installed().values()] == ["pgd", "random"]
