from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from pfl_audit.documents.document import Document
from pfl_audit.documents.forms.form import Form
from pfl_audit.errors import UnanswerableError
from pfl_audit.models.encoders.pages import PageReader
from pfl_audit.models.encoders.visual import page_pixels, roi_align, small_page
from tests.models.encoders.makers import form, page_file
from tests.oracles import encoders as oracle


@pytest.mark.parametrize("bins", [1, 2, 3])
@pytest.mark.parametrize("size", [(5, 7), (1, 1)])
def test_boxes_are_aligned_as_the_slow_loop_does(bins: int, size: tuple[int, int]) -> None:
    rng = np.random.default_rng(bins)
    features = rng.normal(size=(2, 3, *size))
    boxes = np.sort(rng.uniform(size=(4, 6, 2, 2)), axis=2).reshape(4, 6, 4)
    boxes[0, 0], boxes[0, 1], boxes[0, 2] = (0, 0, 0, 0), (1, 1, 1, 1), (0, 0, 1, 1)
    page = [0, 1, 1, 0]
    fast = roi_align(torch.tensor(features), torch.tensor(boxes), torch.tensor(page), bins)
    np.testing.assert_allclose(fast.numpy(), oracle.roi_align(features, boxes, page, bins), atol=1e-9)


def test_a_box_sees_its_own_corner_of_the_page() -> None:
    features = torch.zeros(1, 1, 8, 8)
    features[0, 0, :4, :4] = 1
    boxes = torch.tensor([[[0.05, 0.05, 0.3, 0.3], [0.7, 0.05, 0.9, 0.3], [0.05, 0.7, 0.3, 0.9]]])
    assert roi_align(features, boxes, torch.tensor([0]), 2)[0, :, 0].tolist() == [1, 0, 0]


def test_white_is_one_and_black_minus_one() -> None:
    page = Image.new("RGB", (10, 10), (255, 255, 255))
    page.paste((0, 0, 0), (0, 0, 10, 5))
    pixels = page_pixels(small_page(page, 32))
    assert pixels.shape == (3, 32, 32)
    assert pixels[0, 0, 0] == -1
    assert pixels[0, -1, 0] == 1


def test_under_a_patch_nothing_of_the_page_shows_through(tmp_path: Path) -> None:
    page = Image.open(page_file(tmp_path)).convert("RGB")
    patch = np.array([[0.21, 0.33, 0.47, 0.52], [0.9, 0.9, 1.0, 1.0]], np.float32)
    other = np.array(page)
    for left, top, right, bottom in patch:
        rows = slice(int(top * 80), int(np.ceil(bottom * 80)))
        other[rows, int(left * 60) : int(np.ceil(right * 60))] = 7
    assert torch.equal(small_page(page, 32, patch), small_page(Image.fromarray(other), 32, patch))
    assert not torch.equal(small_page(page, 32), small_page(Image.fromarray(other), 32))
    assert not torch.equal(small_page(page, 32, patch), small_page(page, 32))


def test_a_page_is_read_with_and_without_its_patch(tmp_path: Path) -> None:
    page = form(image=page_file(tmp_path))
    reader, fresh = PageReader(32), PageReader(32)
    patch = page.document.boxes[2:4]
    whole = reader.pixels(page)
    covered = reader.pixels(page, patch)
    assert not torch.equal(whole, covered)
    assert torch.equal(covered, fresh.pixels(page, patch)), "what was asked before does not matter"
    assert torch.equal(whole, reader.pixels(page))


def test_noise_replaces_the_page_whatever_is_on_it(tmp_path: Path) -> None:
    reader = PageReader(32, noise=3)
    without = form()
    assert torch.equal(reader.pixels(without), reader.pixels(without, without.document.boxes[:1]))
    first = reader.pixels(form(image=page_file(tmp_path)))
    assert first.std() == pytest.approx(1, abs=0.1)
    assert not torch.equal(first, PageReader(32, noise=4).pixels(form(image=page_file(tmp_path))))


def test_a_page_without_an_image_or_with_a_broken_one_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(UnanswerableError, match="form d_1 has no page image, which a bimodal model needs"):
        PageReader(32).pixels(form())
    (tmp_path / "broken.png").write_bytes(b"no image")
    broken = form(image=tmp_path / "broken.png")
    with pytest.raises(UnanswerableError, match="no image that can be read"):
        PageReader(32).pixels(broken)
    with pytest.raises(UnanswerableError, match="no such file"):
        PageReader(32).pixels(form(image=tmp_path / "gone.png"))


def test_pages_of_one_name_are_told_apart_by_content(tmp_path: Path) -> None:
    one, other = form(image=page_file(tmp_path, 0)), form(image=page_file(tmp_path, 1))
    reader = PageReader(32)
    assert isinstance(one, Form)
    assert isinstance(one.document, Document)
    assert one.id == other.id
    assert not torch.equal(reader.pixels(one), reader.pixels(other))
