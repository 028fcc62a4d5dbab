from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from pfl_audit.core.drawing import covered, drawn_page, framed
from pfl_audit.core.evidence import EvidenceBox


def test_a_page_that_jpeg_cannot_hold_is_left_out(tmp_path: Path) -> None:
    EvidenceBox(tmp_path).keep_page("x", Image.new("RGB", (10, 70_000)))
    assert list(tmp_path.rglob("*")) == []


@pytest.mark.parametrize("reveal", [True, False])
@pytest.mark.parametrize("size", [(10, 70_000), (70_000, 10)])
def test_a_picture_for_the_report_has_a_size_that_jpeg_holds(
    tmp_path: Path, size: tuple[int, int], reveal: bool
) -> None:
    page = framed(Image.new("RGB", size), [(0, 0, 0.5, 0.5)])
    path = EvidenceBox(tmp_path, reveal=reveal).show("x", page, drawn_page())
    with Image.open(tmp_path / path) as picture:
        assert picture.width == 420


def test_a_masked_picture_is_the_same_for_every_page(tmp_path: Path) -> None:
    pictures = set()
    for number, size in enumerate([(100, 60), (60, 100), (80, 80)]):
        noise = np.random.default_rng(number).integers(0, 255, (size[1], size[0], 3), dtype=np.uint8)
        page = framed(Image.fromarray(noise), [(0.1 * number, 0.1, 0.5, 0.2)])
        pictures.add((tmp_path / EvidenceBox(tmp_path).show(f"{number}", page, drawn_page())).read_bytes())
    assert len(pictures) == 1
    assert len({channel.tobytes() for channel in drawn_page().split()}) == 1  # no colour


def test_a_public_form_is_shown_without_what_stands_in_its_fields() -> None:
    form = Image.new("RGB", (100, 50), "white")
    filled = form.copy()
    filled.paste((10, 20, 30), (20, 10, 60, 20))
    fields = [(0.2, 0.2, 0.6, 0.4)]
    assert covered(filled, fields).tobytes() == covered(form, fields).tobytes() != form.tobytes()
