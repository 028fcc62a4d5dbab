import struct
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from pfl_audit.documents import images
from pfl_audit.documents.images import PageImage, blur
from pfl_audit.errors import AuditError, UnanswerableError


def noise(width: int = 200, height: int = 120) -> Image.Image:
    pixels = np.random.default_rng(0).integers(0, 255, size=(height, width, 3), dtype=np.uint8)
    return Image.fromarray(pixels)


def test_blur_changes_the_box_and_nothing_else() -> None:
    page = noise()
    blurred = np.asarray(blur(page, [(0.25, 0.25, 0.5, 0.5)]), dtype=int)
    before = np.asarray(page, dtype=int)
    inside = np.zeros((120, 200), dtype=bool)
    inside[13:78, 33:118] = True  # the box, half its height around it, and a pixel or two
    assert (blurred[~inside] == before[~inside]).all()
    assert blurred[32:58, 52:98].std() < 0.2 * before[32:58, 52:98].std()


def test_nothing_of_the_surroundings_bleeds_into_the_box() -> None:
    page = Image.new("L", (100, 100), 255)
    page.paste(0, (0, 0, 100, 49))
    blurred = np.asarray(blur(page, [(0.0, 0.6, 1.0, 0.8)]))
    assert (blurred[51:89] == 255).all()


def test_letters_that_stick_out_of_a_box_are_blurred() -> None:
    page = Image.new("L", (200, 100), 255)
    page.paste(0, (40, 40, 44, 60))  # a stroke that begins a word whose box begins after it
    page.paste(0, (100, 33, 130, 36))  # an accent above a box
    blurred = np.asarray(blur(page, [(0.25, 0.4, 0.75, 0.6)]))
    assert blurred[40:60, 40:44].min() > 150
    assert blurred[33:36, 100:130].min() > 150


@pytest.mark.parametrize("height", [12, 60, 480])
def test_letters_of_any_size_are_blurred(height: int) -> None:
    stripe = height // 6
    page = Image.new("L", (6 * height, 3 * height), 255)
    for left in range(0, 6 * height, 2 * stripe):
        page.paste(0, (left, height, left + stripe, 2 * height))
    blurred = np.asarray(blur(page, [(0.0, 1 / 3, 1.0, 2 / 3)]), dtype=int)
    middle = blurred[3 * height // 2]
    assert middle[height:-height].max() - middle[height:-height].min() < 40


@pytest.mark.parametrize("box", [(0.5, 0.5, 0.5, 0.5), (0.9, 0.9, 1.0, 1.0), (0.0, 0.0, 1.0, 1.0)])
def test_boxes_at_the_edge(box: tuple[float, float, float, float]) -> None:
    assert blur(noise(), [box]).size == (200, 120)


def test_digest_follows_pixels_and_blur(tmp_path: Path) -> None:
    noise().save(tmp_path / "a.png")
    noise(10, 10).save(tmp_path / "b.png")
    one, other = PageImage(tmp_path / "a.png"), PageImage(tmp_path / "b.png")
    blurred = one.blur([(0.1, 0.1, 0.2, 0.2)])
    assert len({one.digest, other.digest, blurred.digest, one.blur([(0.1, 0.1, 0.2, 0.3)]).digest}) == 4
    assert PageImage(tmp_path / "a.png").digest == one.digest


def bomb(path: Path, size: int) -> None:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", size, size, 8, 2, 0, 0, 0)
    body = chunk(b"IDAT", zlib.compress(b"\0" * 1000))
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + body + chunk(b"IEND", b""))


@pytest.mark.parametrize("size", [9_000, 60_000])
def test_decompression_bombs_are_refused_before_they_unfold(tmp_path: Path, size: int) -> None:
    bomb(tmp_path / "x.png", size)
    with pytest.raises(AuditError, match=r"x\.png cannot be used: (its header declares|it is a decompression bomb)"):
        PageImage(tmp_path / "x.png").open()


@pytest.mark.parametrize("content", [b"", b"not an image", b"\x89PNG\r\n\x1a\n", b"GIF89a" + b"\0" * 20])
def test_no_image(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.png").write_bytes(content)
    with pytest.raises(AuditError, match=r"x\.png cannot be used"):
        PageImage(tmp_path / "x.png").open()


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(AuditError, match="no such file"):
        PageImage(tmp_path / "x.png").open()
    with pytest.raises(AuditError, match="no such file"):
        _ = PageImage(tmp_path / "x.png").digest


@pytest.mark.parametrize("mode", ["L", "RGBA", "P", "1", "CMYK"])
def test_every_mode_becomes_rgb(tmp_path: Path, mode: str) -> None:
    suffix = "jpg" if mode == "CMYK" else "png"
    noise().convert(mode).save(tmp_path / f"x.{suffix}")
    assert PageImage(tmp_path / f"x.{suffix}").open().mode == "RGB"


@pytest.mark.parametrize(
    ("size", "reason"),
    [((10, 66_000), "66000 pixels, more than 65,500 on a side"), ((10, 201), "201 pixels, more than 20 to 1")],
)
def test_pages_of_a_shape_that_no_page_has(tmp_path: Path, size: tuple[int, int], reason: str) -> None:
    Image.new("L", size).save(tmp_path / "x.png")
    with pytest.raises(UnanswerableError, match=f"its header declares 10 x {reason}") as caught:
        PageImage(tmp_path / "x.png").open()
    assert str(tmp_path) not in caught.value.reason


def test_the_longest_page_is_read(tmp_path: Path) -> None:
    Image.new("L", (10, 200)).save(tmp_path / "x.png")
    assert PageImage(tmp_path / "x.png").open().size == (10, 200)


def test_pictures_of_all_threads_are_decoded_by_one_child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = noise()
    drawn.save(tmp_path / "x.png")
    started: list[object] = []
    start = images._CHILD._start
    monkeypatch.setattr(images._CHILD, "_start", lambda: (started.append(1), start()))
    images._CHILD.close()
    with ThreadPoolExecutor(8) as pool:
        pages = list(pool.map(lambda _: PageImage(tmp_path / "x.png").open(), range(20)))
    assert all(page.mode == drawn.mode and page.tobytes() == drawn.tobytes() for page in pages)
    assert len(started) == 1


@pytest.mark.parametrize(
    "forged",
    [
        [1 << 20, 1 << 20, b""],
        [2, 2, "x" * 12],
        [2, 2, [0] * 12],
        [-2, -2, b"x" * 12],
        [2.0, 2, b"x" * 12],
        [2, 2],
        None,
    ],
)
def test_a_forged_page_is_no_image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forged: object) -> None:
    noise().save(tmp_path / "x.png")
    monkeypatch.setattr(images._CHILD, "call", lambda *_: forged)
    with pytest.raises(UnanswerableError, match="no image that can be read"):
        PageImage(tmp_path / "x.png").open()


@pytest.mark.parametrize("forged", [None, [1], ["1", "1", b""], [0, 1, b""], [1, -1, b""]])
def test_a_forged_size_is_none(monkeypatch: pytest.MonkeyPatch, forged: object) -> None:
    monkeypatch.setattr(images._CHILD, "call", lambda *_: forged)
    assert images.size_of(b"") is None
