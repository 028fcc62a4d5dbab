import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from pfl_audit.documents.page_ink import printed, share_of_ink, under_bars
from pfl_audit.importing import page_child
from pfl_audit.importing.page_child import MAX_PAGES, in_8_bits
from pfl_audit.sandbox import RefusedError
from tests.importing.drawn import form, hidden, letterhead, pdf, picture, stamped


def answer(action: str, path: str, *page: int) -> Any:
    with Path(path).open("rb") as file:
        return page_child.answer(action, path, file, *page)


def test_a_text_layer_has_words_and_boxes_where_the_ink_is(tmp_path: Path) -> None:
    page = answer("page", str(pdf(tmp_path / "a.pdf", ["Total due 12.50", "EUR"])), 0, 144)
    assert page["words"] == ["Total", "due", "12.50", "EUR"]
    (tmp_path / "page.jpg").write_bytes(page["picture"])
    dark = np.asarray(Image.open(tmp_path / "page.jpg").convert("L")) < 128
    assert dark.shape == (1000, 1000)
    found = np.zeros_like(dark)
    for left, top, right, low in page["boxes"]:
        found[int(top * 1000) - 2 : int(low * 1000) + 3, int(left * 1000) - 2 : int(right * 1000) + 3] = True
    assert dark.any()
    assert (dark & ~found).sum() == 0


@pytest.mark.parametrize("angle", [90, 180, 270])
def test_boxes_follow_the_rotation_of_a_page(tmp_path: Path, angle: int) -> None:
    upright = answer("page", str(pdf(tmp_path / "a.pdf", ["one two three"])), 0, 72)["boxes"][0]
    turned = answer("page", str(pdf(tmp_path / "b.pdf", ["one two three"], rotate=angle)), 0, 72)["boxes"][0]
    left, top, right, low = upright
    expected = {
        90: [1 - low, left, 1 - top, right],
        180: [1 - right, 1 - low, 1 - left, 1 - top],
        270: [top, 1 - right, low, 1 - left],
    }[angle]
    assert np.allclose(turned, expected, atol=1e-3)


def test_a_page_of_two_words_has_no_text_layer(tmp_path: Path) -> None:
    assert answer("page", str(pdf(tmp_path / "a.pdf", ["two words"])), 0, 72)["words"] is None


def test_a_picture_is_turned_as_its_camera_says_and_loses_its_metadata(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x112], exif[0x10F] = 6, "a camera"
    picture("up").rotate(90, expand=True).save(tmp_path / "a.jpg", exif=exif)
    page = answer("page", str(tmp_path / "a.jpg"))
    (tmp_path / "b.jpg").write_bytes(page["picture"])
    with Image.open(tmp_path / "b.jpg") as image:
        assert image.size == (480, 400)
        assert not image.getexif()


def test_frames_of_a_tiff_are_pages(tmp_path: Path) -> None:
    picture("one").save(tmp_path / "a.tif", save_all=True, append_images=[picture("two", (300, 300))])
    assert answer("count", str(tmp_path / "a.tif")) == 2
    (tmp_path / "b.png").write_bytes(answer("page", str(tmp_path / "a.tif"), 1)["picture"])
    assert Image.open(tmp_path / "b.png").size == (300, 300)


@pytest.mark.parametrize("mode", ["I;16", "RGBA", "P", "LA", "CMYK", "1"])
def test_white_paper_is_white_in_every_mode(tmp_path: Path, mode: str) -> None:
    if mode == "I;16":
        page = Image.fromarray(np.full((20, 20), 65535, dtype=np.uint16))
    elif mode in ("RGBA", "LA"):
        page = Image.new(mode, (20, 20), 0)  # transparent black
    else:
        page = Image.new("L", (20, 20), 255).convert("RGB").convert(mode)
    page.save(tmp_path / "a.tif")
    (tmp_path / "b.png").write_bytes(answer("page", str(tmp_path / "a.tif"))["picture"])
    assert np.asarray(Image.open(tmp_path / "b.png").convert("L")).min() >= 254


def test_a_pdf_of_too_many_pages_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RefusedError, match="pages"):
        answer("count", str(pdf(tmp_path / "a.pdf", *[[]] * (MAX_PAGES + 1))))


def test_values_in_the_fields_of_a_form_are_words_and_ink(tmp_path: Path) -> None:
    page = answer("page", str(form(tmp_path / "a.pdf", {"Tax number": "12-3456789", "Amount": "4,711.00"})), 0, 144)
    assert page["words"] == ["Tax", "number", "Amount", "12-3456789", "4,711.00"]
    grey = np.asarray(Image.open(io.BytesIO(page["picture"])).convert("L"))
    assert printed(grey, page["boxes"]).all()


@pytest.mark.parametrize("how", ["render mode", "white", "camouflage", "bar", "white bar", "outside a clip", "shown"])
def test_hidden_words_are_left_out_and_counted(tmp_path: Path, how: str) -> None:
    page = answer("page", str(hidden(tmp_path / "a.pdf", how)), 0, 144)
    if how == "shown":
        assert page["words"] == ["one", "two", "three", "secret", "name"]
    else:
        assert page["words"] == ["one", "two", "three"]
    assert (page["hidden"], page["covered"]) == ((0 if how == "shown" else 2), (2 if how == "bar" else 0))


def test_light_print_on_a_dark_ground_is_seen() -> None:
    dark = np.full((100, 100), 20, dtype=np.uint8)
    dark[40:60:2, 10:50] = 220
    assert printed(dark, [[0.1, 0.4, 0.5, 0.6], [0.6, 0.4, 0.9, 0.6]]).tolist() == [True, False]
    assert under_bars(dark, [[0.6, 0.4, 0.9, 0.6]]).tolist() == [True]


@pytest.mark.parametrize("how", ["whole", "strips", "form"])
def test_a_stamp_over_a_scan_is_not_the_text_of_the_scan(tmp_path: Path, how: str) -> None:
    path = stamped(tmp_path / "a.pdf", "INVOICE 4711\nTOTAL 12.50", "HM000123 Page 1 of 3", how)
    page = answer("page", str(path), 0, 72)
    assert page["words"] == ["HM000123", "Page", "1", "of", "3"]
    assert page["scan"]


def test_a_page_without_a_large_picture_is_no_scan(tmp_path: Path) -> None:
    assert not answer("page", str(pdf(tmp_path / "a.pdf", ["HM000123 Page 1 of 3"])), 0, 72)["scan"]
    page = answer("page", str(letterhead(tmp_path / "b.pdf", "HM000123 Page 1 of 3")), 0, 72)
    assert page["words"] == ["HM000123", "Page", "1", "of", "3"]
    assert not page["scan"]


def test_a_layer_that_has_the_ink_of_a_scan_is_its_text() -> None:
    grey = np.asarray(picture("INVOICE"))
    ink = np.argwhere(grey < 128)
    (top, left), (low, right) = ink.min(axis=0), ink.max(axis=0) + 1
    box = [left / 480, top / 400, right / 480, low / 400]
    assert share_of_ink(grey, [box]) > 0.95
    assert share_of_ink(grey, [[0.6, 0.6, 0.9, 0.7]]) == 0
    assert share_of_ink(np.full((9, 9), 255, dtype=np.uint8), []) == 1


@pytest.mark.parametrize("levels", [255, 4095, 65535, 1.0])
@pytest.mark.parametrize("order", ["<", ">"])
def test_grey_levels_of_any_depth_are_8_bits(levels: float, order: str) -> None:
    ramp = np.linspace(0, 1, 16) * levels
    kind = f"{order}f4" if levels == 1 else f"{order}u2"
    assert np.abs(in_8_bits(ramp.astype(kind)) - np.linspace(0, 255, 16)).max() <= 1
