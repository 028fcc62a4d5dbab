from pathlib import Path

import pytest
from PIL import Image

from pfl_audit.reports import pictures
from pfl_audit.reports.pictures import Pictures


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("evidence", "private"):
        (tmp_path / name).mkdir()
        Image.new("RGB", (10, 10)).save(tmp_path / name / "page.jpg")
    return tmp_path


def test_a_jpeg_and_a_png_of_the_evidence_are_shown(folder: Path) -> None:
    Image.new("RGB", (10, 10)).save(folder / "evidence/page.png")
    shown = Pictures(folder)
    assert str(shown.evidence("evidence/page.jpg")).startswith("data:image/jpeg;base64,")
    assert str(shown.evidence("evidence/page.png")).startswith("data:image/png;base64,")


@pytest.mark.parametrize("content", [b"", b"<svg onload='alert(1)'/>", b"<html><script>", b"\xff\xd8\xff\xe0"])
def test_what_is_no_picture_is_not_shown(content: bytes, folder: Path) -> None:
    (folder / "evidence/page.jpg").write_bytes(content)
    assert Pictures(folder).evidence("evidence/page.jpg") is None


def test_a_picture_under_the_name_of_another_kind_is_not_shown(folder: Path) -> None:
    (folder / "evidence/page.jpg").rename(folder / "evidence/page.png")
    assert Pictures(folder).evidence("evidence/page.png") is None


@pytest.mark.parametrize(
    "name", ["private/page.jpg", "evidence/../private/page.jpg", "evidence/link.jpg", "evidence/\0.jpg", "", "evidence"]
)
def test_nothing_but_the_evidence_is_read(name: str, folder: Path) -> None:
    (folder / "evidence/link.jpg").symlink_to("../private/page.jpg")
    assert Pictures(folder).evidence(name) is None
    assert Pictures(folder).evidence(str(folder / "private/page.jpg")) is None


def test_evidence_that_is_a_link_is_not_followed(folder: Path) -> None:
    (folder / "evidence").rename(folder / "moved")
    (folder / "evidence").symlink_to("private")
    assert Pictures(folder).evidence("evidence/page.jpg") is None


def test_a_picture_that_a_browser_cannot_afford_is_not_shown(folder: Path) -> None:
    Image.new("1", (10_000, 10_000)).save(folder / "evidence/page.png")
    assert Pictures(folder).evidence("evidence/page.png") is None


def test_all_pictures_together_have_a_limit(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pictures, "_ALL", 2 * (folder / "evidence/page.jpg").stat().st_size)
    shown = Pictures(folder)
    assert [shown.evidence("evidence/page.jpg") is not None for _ in range(4)] == [True, True, False, False]
