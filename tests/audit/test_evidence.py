from pathlib import Path

import pytest
from PIL import Image

from pfl_audit.audit.evidence import EvidenceBox


def test_a_page_that_jpeg_cannot_hold_is_left_out(tmp_path: Path) -> None:
    EvidenceBox(tmp_path).keep_page("x", Image.new("RGB", (10, 70_000)))
    assert list(tmp_path.rglob("*")) == []


@pytest.mark.parametrize("reveal", [True, False])
@pytest.mark.parametrize("size", [(10, 70_000), (70_000, 10)])
def test_a_picture_for_the_report_has_a_size_that_jpeg_holds(
    tmp_path: Path, size: tuple[int, int], reveal: bool
) -> None:
    path = EvidenceBox(tmp_path, reveal=reveal).show_page("x", Image.new("RGB", size), [(0, 0, 0.5, 0.5)])
    with Image.open(tmp_path / path) as picture:
        assert picture.width == 420
