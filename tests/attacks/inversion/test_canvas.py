import numpy as np
import pytest
import torch

from pfl_audit.attacks.inversion.canvas import Canvas
from tests.attacks.inversion.template.drawn import form

CHANCE = torch.Generator()


@pytest.mark.parametrize("grey", [False, True])
def test_only_the_fields_change(grey: bool) -> None:
    template = form()
    canvas = Canvas(template, grey=grey, pages=2)
    mask = template.mask()
    assert (canvas.mask.numpy() == mask).all()
    sought = torch.rand(2, 1 if grey else 3, int(mask.sum()))
    pages = canvas.pages(sought)
    assert pages.shape == (2, 3, *mask.shape)
    assert (pages[:, :, ~canvas.mask].numpy() == template.page[~mask].T).all()
    assert (pages[:, :, canvas.mask] == sought.expand(-1, 3, -1)).all()
    for number in range(2):
        image = canvas.image(sought, number)
        assert (image[~mask] == template.pixels[~mask]).all()
        assert np.abs(image[mask] / 255 - sought[number].expand(3, -1).T.numpy()).max() <= 0.5 / 255 + 1e-6


def test_it_starts_from_the_empty_form_or_from_noise() -> None:
    template = form()
    assert (Canvas(template).image(Canvas(template).start("template", CHANCE)) == template.pixels).all()
    noise = Canvas(template, grey=True).start("noise", torch.Generator().manual_seed(1))
    assert 0 <= float(noise.min()) < 0.01
    assert 0.99 < float(noise.max()) <= 1
    assert torch.equal(noise, Canvas(template, grey=True).start("noise", torch.Generator().manual_seed(1)))


def test_who_has_no_template_seeks_all_of_the_page_and_begins_with_none_of_it() -> None:
    template = form()
    canvas = Canvas(template, whole=True)
    start = canvas.start("template", CHANCE)
    assert start.shape == (1, 3, template.pixels[..., 0].size)
    assert (start == 0.5).all()


def test_pixels_are_differentiated() -> None:
    canvas = Canvas(form(), grey=True)
    sought = canvas.start("template", CHANCE).requires_grad_(True)
    (slope,) = torch.autograd.grad(canvas.pages(sought).sum(), sought)
    assert (slope == 3).all()  # a grey pixel is in three channels
